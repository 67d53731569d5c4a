"""The checkpoints of a run as people ask for them: over all ranks, in their words, with what is missing and what is damaged.

Reads manifests and their marks; opens no pack, unpickles nothing, runs no SQL. Which ones are kept is decided in `plan`.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rearview.catalog import paths
from rearview.catalog.sealing.parse import ROOT_KEY, block_key
from rearview.errors import Damaged, NoCheckpoint, UsageError
from rearview.model import RunId
from rearview.store import manifests
from rearview.store.layout import Store
from rearview.store.manifests import Manifest, ManifestName
from rearview.store.packs.lacking import lacking

KIND_OF_BOUNDARY = {"iteration": 0, "block": 1, "inside": 2}
"""In the order in which they answer for one place: the end of the iteration before the end of its nested block."""

_LISTED = 4
"""Places that a message lists."""


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """One boundary of a run at which its state was kept, over all ranks."""

    run: RunId
    attempt: int
    number: int
    """The n-th decision of the attempt."""
    boundary: str
    """`inside`, `block` or `iteration`."""
    path: paths.Path
    taken_at: dt.datetime | None
    """UTC."""
    size_bytes: int
    """The whole state."""
    new_bytes: int
    """What was not in the store before."""
    stall_s: float
    """How long the training was held: the longest of its ranks."""
    background_s: float
    whole: bool
    """Every rank's part is there; otherwise it is no checkpoint."""
    complete: bool
    """It holds everything the program had; `missing` names what not."""
    missing: tuple[str, ...]
    """`f: open file, of type TextIOWrapper`."""
    pickled: tuple[str, ...]
    pinned: bool
    thinned: str | None
    """Why its bytes were dropped; None: they are there."""
    absent: tuple[int, ...]
    """The ranks whose part is not there."""
    members: tuple[Manifest, ...]
    process: str = ""
    """The process below a rank (`0.1`) that took it by itself; empty for the ranks, who take one together."""
    damaged: bool = False
    """Bytes of it are known not to be there, or not to be what was written. Only told where somebody asks for damage."""
    told: frozenset[int] = frozenset()
    """The depths of the path at which the run has several loops of one name: `epoch[2]=3`."""

    @property
    def decision(self) -> tuple[str, str, int, int]:
        return self.run, self.process, self.attempt, self.number

    @property
    def order(self) -> tuple[int, int, int]:
        """Later is larger."""
        return self.attempt, self.number, manifests.PARTS.index(self.boundary)

    @property
    def place(self) -> str:
        """The path in people's words."""
        return paths.shown(self.path, self.told)

    @property
    def named(self) -> str:
        """The place as people name it: the end of a nested block is named by the iteration around it."""
        return paths.shown(self.path[:-1], self.told) if self.boundary == "block" and len(self.path) > 1 else self.place

    @property
    def usable(self) -> bool:
        """Whether a state can be had from it."""
        return self.whole and self.thinned is None


def of_run(store: Store, run: RunId, damage: list[str] | None = None) -> list[CheckpointInfo]:
    """The checkpoints of a run, oldest first; sentences about damaged ones go into `damage`. Only who asks for these is told `damaged`."""
    return of_runs(store, [run], damage)[run]


def of_runs(store: Store, runs: Iterable[RunId], damage: list[str] | None = None) -> dict[RunId, list[CheckpointInfo]]:
    """The same for several runs: the store is looked through once."""
    found = {run: _of_run(store, run, damage) for run in runs}
    if damage is not None:
        infos = [info for theirs in found.values() for info in theirs if info.thinned is None]
        wanted = {bytes.fromhex(chunk) for info in infos for one in info.members for chunk in one.chunks()}
        lost = lacking(store, wanted)
        for run, theirs in found.items() if lost else ():
            found[run] = [replace(info, damaged=info.thinned is None and any(_lost(one, lost) for one in info.members)) for info in theirs]
            damage += _found_damaged(run, found[run], lost)
    return found


def _of_run(store: Store, run: RunId, damage: list[str] | None) -> list[CheckpointInfo]:
    problems: list[Damaged] = []
    pinned = manifests.marked(store, run, manifests.PIN)
    found = []
    for checkpoint in manifests.grouped(store, run, problems):
        try:
            found.append(_info(store, checkpoint, pinned))
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as problem:
            name = checkpoint.members[0].name
            problems.append(Damaged(f"checkpoint {name} of run {run} is damaged: {problem}; restore it from a copy"))
    if damage is not None:
        damage += map(str, problems)
    return sorted(_telling(found), key=lambda info: (info.process, *info.order))


def _lost(manifest: Manifest, lost: Mapping[bytes, str]) -> list[str]:
    """Why each chunk that a manifest names and that cannot be had is not there."""
    return [why for chunk in dict.fromkeys(manifest.chunks()) if (why := lost.get(bytes.fromhex(chunk))) is not None]


def _found_damaged(run: RunId, infos: Sequence[CheckpointInfo], lost: Mapping[bytes, str]) -> list[str]:
    """A sentence for each thing that is wrong with bytes, with the checkpoints that have these."""
    those: dict[str, list[tuple[str, int]]] = {}
    for one in (member for info in infos if info.damaged for member in info.members):
        for why, count in Counter(_lost(one, lost)).items():
            those.setdefault(why, []).append((str(one.name), count))
    told = []
    for why, each in those.items():
        (first, count), (last, _) = each[0], each[-1]
        if len(each) == 1:
            told.append(f"checkpoint {first} of run {run} is damaged: {count} of its chunks {why}")
        else:
            told.append(f"{len(each)} checkpoints of run {run} are damaged, {first} to {last}: chunks of each {why}")
    return told


def _telling(infos: Sequence[CheckpointInfo]) -> list[CheckpointInfo]:
    """With the depths at which paths say which loop of a name is meant."""
    told = manifests.telling(_loops(info.path) for info in infos)
    return [replace(info, told=told(_loops(info.path))) for info in infos]


def _loops(path: Sequence[paths.Element]) -> tuple[tuple[str, int], ...]:
    return tuple((element.loop, element.occurrence) for element in path)


def of_process(infos: Sequence[CheckpointInfo], process: str | None = None) -> list[CheckpointInfo]:
    """Those of one line: of the ranks unless told, or of the first process below one where no rank has any."""
    lines = list(dict.fromkeys(info.process for info in infos))
    wanted = (lines[0] if lines else "") if process is None or process.isdigit() else process
    return [info for info in infos if info.process == wanted]


def _info(store: Store, checkpoint: manifests.Checkpoint, pinned: set[str]) -> CheckpointInfo:
    members = checkpoint.members
    first = members[0]
    world = first.world if first.process.isdigit() else 1
    missing = [_sentence(entry, one, world) for one in members for entry in one.missing]
    why = None
    if checkpoint.thinned:
        marks = [manifests.read_mark(store, one.name, manifests.THINNED) for one in members]
        why = next((str(mark["why"]) for mark in marks if mark.get("why")), "thinned")
    return CheckpointInfo(
        run=first.run, attempt=first.attempt, number=first.number, boundary=first.part, path=path_of(first), taken_at=_moment(first.wall),
        size_bytes=sum(one.size_bytes for one in members), new_bytes=int(sum(_number(one, "new_bytes") for one in members)),
        stall_s=max(_number(one, "stall_s") for one in members), background_s=sum(_number(one, "background_s") for one in members),
        whole=checkpoint.whole, complete=all(one.complete for one in members), missing=tuple(dict.fromkeys(missing)),
        pickled=tuple(dict.fromkeys(where for one in members for where in one.pickled)),
        pinned=any(str(one.name) in pinned for one in members), thinned=why,
        absent=tuple(sorted(set(range(world)) - {one.rank for one in members})) if world > 1 else (), members=members,
        process="" if first.process.isdigit() else first.process,
    )  # fmt: skip


def _sentence(entry: Sequence[Any], manifest: Manifest, world: int) -> str:
    where, kind, why = (str(item) for item in entry[:3])
    return f"{where}: {why} ({kind})" + (f", rank {manifest.rank}" if world > 1 else "")


def _number(manifest: Manifest, name: str) -> float:
    value = manifest.stats.get(name, 0)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def _moment(wall: float) -> dt.datetime | None:
    try:
        return dt.datetime.fromtimestamp(wall, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def path_of(manifest: Manifest) -> paths.Path:
    """Where in the loops a state was taken."""
    elements = []
    for loop, occurrence, iteration, value in manifest.path:
        called = value if isinstance(value, (bool, int, float, str)) else None
        elements.append(paths.Element(str(loop), int(occurrence), int(iteration), called))
    return tuple(elements)


def context_of(manifest: Manifest) -> str | None:
    """The `ctx_id` of the iteration that a boundary ended, as the views `logs` and `loops` have it."""
    elements = path_of(manifest)
    key, iteration = place_key(elements[:-1] or elements if manifest.part == "block" else elements)
    return f"{manifest.run}/{manifest.process}/{key}/{iteration}" if elements else None


def place_key(path: Sequence[paths.Element]) -> tuple[str, int]:
    """The key of the innermost block of a path, and the iteration of it."""
    key, iteration = ROOT_KEY, 0
    for element in path:
        key, iteration = block_key(key, iteration, element.loop, element.occurrence), element.iteration
    return key, iteration


def digest_of(manifest: Manifest) -> str:
    """One digest over those of all roots: equal for equal states, also of a thinned checkpoint."""
    import xxhash

    digests = {root: facts[0] if isinstance(facts, list) and facts else None for root, facts in manifest.roots.items()}
    return xxhash.xxh3_128_hexdigest(json.dumps(digests, sort_keys=True).encode())


def pieces_of(info: CheckpointInfo) -> dict[str, int]:
    """Everything in the store that a checkpoint refers to: chunks and state trees, by name, with their bytes."""
    pieces: dict[str, int] = {}
    for manifest in info.members:
        pieces[manifest.tree] = manifest.tree_bytes
        for buffer in manifest.buffers:
            pieces.update((ref.digest.hex(), ref.size) for ref in buffer.refs())
    return pieces


ROW_TYPES = {
    "run": "VARCHAR", "process": "VARCHAR", "ctx_id": "VARCHAR", "path": "VARCHAR", "boundary": "VARCHAR", "taken_at": "TIMESTAMP",
    "size_bytes": "BIGINT", "manifest": "VARCHAR", "attempt": "BIGINT", "number": "BIGINT", "new_bytes": "BIGINT", "stall_s": "DOUBLE",
    "background_s": "DOUBLE", "whole": "BOOLEAN", "complete": "BOOLEAN", "missing": "VARCHAR[]", "kept": "BOOLEAN", "pinned": "BOOLEAN",
    "thinned": "VARCHAR", "digest": "VARCHAR",
}  # fmt: skip
"""The columns of the view `checkpoints`."""


def rows_of(info: CheckpointInfo) -> list[tuple[Any, ...]]:
    """A checkpoint as rows of the view: one for each process, its own sizes and times."""
    rows = []
    for one in info.members:
        taken = _moment(one.wall)
        missing = [_sentence(entry, one, 1) for entry in one.missing]
        rows.append((
            one.run, one.process, context_of(one), paths.shown(info.path), one.part,
            taken.astimezone().replace(tzinfo=None) if taken else None, one.size_bytes, str(one.name), one.attempt, one.number,
            int(_number(one, "new_bytes")), _number(one, "stall_s"),
            _number(one, "background_s"), info.whole, one.complete, missing, info.thinned is None, info.pinned, info.thinned,
            digest_of(one),
        ))  # fmt: skip
    return rows


# One of them


def find(infos: Sequence[CheckpointInfo], run: str, wishes: Sequence[paths.Wish]) -> CheckpointInfo:
    """The checkpoint that answers for a place: the last attempt's, the end of the iteration before that of its nested block.

    Without a place, the newest whole one. `NoCheckpoint` names the nearest that there are, or those in several loops that are called alike.
    """
    for wish in wishes:
        if wish.high is not None:
            raise NoCheckpoint(f"{wish} is a range, and one state is asked for: name one iteration")
    fitting = [info for info in infos if not wishes or _answers(info, wishes)]
    alike = dict.fromkeys(paths.shown(_named(info, wishes), info.told) for info in _one_of_each_loop(fitting, wishes)) if wishes else {}
    if len(alike) > 1:
        where = "/".join(map(str, wishes))
        each = " or ".join([*list(alike)[:_LISTED], *(["another"] if len(alike) > _LISTED else [])])
        raise NoCheckpoint(f"{where} is in {len(alike)} loops of run {run} that are called alike: say which: {each}")
    usable = [info for info in fitting if info.usable]
    if usable:
        if not wishes:
            return max(usable, key=lambda info: info.order)
        return max(usable, key=lambda info: (-KIND_OF_BOUNDARY[info.boundary], info.attempt, info.number))
    raise NoCheckpoint(_none(infos, fitting, run, wishes))


def in_place_of(store: Store, infos: Sequence[CheckpointInfo], info: CheckpointInfo, wishes: Sequence[paths.Wish]) -> list[ManifestName]:
    """The manifests that cannot be read, and for which a checkpoint would stand in: newer ones, or the end of the iteration asked for."""
    known = {str(name) for one in infos for name in names_of(one)}
    lost = [name for name in manifests.list_of(store, RunId(info.run)) if str(name) not in known and _is_beside(name, info)]
    if not wishes:
        return [name for name in lost if name.order > info.order]
    if paths.matches(info.path, wishes):
        return []
    return [name for name in lost if name.order[:2] == info.order[:2] and name.order > info.order]


def _is_beside(name: ManifestName, info: CheckpointInfo) -> bool:
    """Whether a manifest is of the same line."""
    return name.process.isdigit() if not info.process else name.process == info.process


def _named(info: CheckpointInfo, wishes: Sequence[paths.Wish]) -> paths.Path:
    """As much of the path as was asked for."""
    return info.path[: len(wishes)]


def _one_of_each_loop(infos: Sequence[CheckpointInfo], wishes: Sequence[paths.Wish]) -> list[CheckpointInfo]:
    found: dict[tuple[tuple[str, int], ...], CheckpointInfo] = {}
    for info in infos:
        found.setdefault(_loops(_named(info, wishes)), info)
    return list(found.values())


def address(infos: Sequence[CheckpointInfo], info: CheckpointInfo) -> str | None:
    """What finds a checkpoint among others, as somebody would type it; None if another one answers for that place."""
    for text in (info.named, info.place):
        try:
            if find(infos, info.run, paths.parse(text)) is info:
                return text
        except (NoCheckpoint, UsageError):  # a value that looks like a range, or like the end of a loop's name
            continue
    return None


def every(infos: Sequence[CheckpointInfo], run: str, wishes: Sequence[paths.Wish]) -> list[CheckpointInfo]:
    """All checkpoints at a place, which may be a range; without one, the newest decision."""
    if not wishes:
        last = find(infos, run, wishes)
        return [info for info in infos if info.decision == last.decision]
    fitting = [info for info in infos if _answers(info, wishes)]
    if not any(info.usable for info in fitting):
        raise NoCheckpoint(_none(infos, fitting, run, wishes))
    return [info for info in fitting if info.usable]


def along(infos: Sequence[CheckpointInfo]) -> list[CheckpointInfo]:
    """In the order in which a run comes by their places, whichever attempt kept them: what is inside an iteration before its end."""
    met = {loop: number for number, loop in enumerate(dict.fromkeys(loop for info in infos for loop in _loops(info.path)))}

    def place(info: CheckpointInfo) -> list[tuple[float, int]]:
        path = info.path[:-1] if info.boundary == "block" else info.path
        return [*((met[element.loop, element.occurrence], element.iteration) for element in path), (math.inf, 0)]

    return sorted(infos, key=place)


def _answers(info: CheckpointInfo, wishes: Sequence[paths.Wish]) -> bool:
    if paths.matches(info.path, wishes):
        return True
    return info.boundary == "block" and paths.matches(info.path[:-1], wishes)


def _none(infos: Sequence[CheckpointInfo], fitting: Sequence[CheckpointInfo], run: str, wishes: Sequence[paths.Wish]) -> str:
    place = f" at {'/'.join(map(str, wishes))}" if wishes else ""
    if not infos:
        how = "`with rv.checkpointing(...)` around its loop takes them, where they are worth their cost"
        return f"run {run} has no checkpoints: {how}; `rearview checkpoints {run}` says more"
    loops = {element: None for info in infos for element in info.path}
    unknown = next((wish.loop for wish in wishes if not any(wish.means(element) for element in loops)), None)
    if unknown is not None:
        known = " and ".join(dict.fromkeys(element.loop for element in loops)) or "none"
        return f"run {run} has no checkpoint in a loop called {unknown}: they are in {known}; `rearview checkpoints {run}` lists all"
    what = f"run {run} has no checkpoint{place}"
    if any(info.thinned is not None for info in fitting):
        why = next(info.thinned for info in fitting if info.thinned is not None)
        what = f"the checkpoint of run {run}{place} was thinned ({why}): its digests are kept, its bytes are not"
    elif fitting:
        absent = ", ".join(map(str, fitting[-1].absent))
        what = f"the checkpoint of run {run}{place} is not whole: the part of rank {absent} is missing"
    usable = [info for info in infos if info.usable]
    if not usable:
        return f"{what}, and there is no other whole one; `rearview checkpoints {run}` lists them"
    near: list[str] = []
    for info in sorted(usable, key=lambda info: paths.distance(info.path, wishes)):
        shown = paths.shown(info.path[:-1] if info.boundary == "block" and len(info.path) > len(wishes) else info.path, info.told)
        if shown not in near:
            near.append(shown)
    listed = " and ".join(near[:2])
    return f"{what}; the nearest {'are' if len(near) > 1 else 'is'} {listed}; `rearview checkpoints {run}` lists all"


def names_of(info: CheckpointInfo) -> list[ManifestName]:
    """The manifests of a checkpoint."""
    return [one.name for one in info.members]
