"""What a run did, for the planner: read from its journals and manifests, in one quick pass. Executes and unpickles nothing.

Records are stepped over by their length: only facts, definitions and ends of blocks are looked at, so a million records take a moment.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.errors import Damaged
from rearview.model import MAIN_PROCESS, RunId
from rearview.plan.timeline import BLOCK, INSIDE, ITERATION, OTHER, Boundary, History, MainBlock
from rearview.replay.logged import SUPERVISOR
from rearview.state.take.histories import PENDING
from rearview.store import frames, manifests, objects, runs
from rearview.store.encoding import decode
from rearview.store.journal import parts_of
from rearview.store.layout import Store
from rearview.store.manifests import Checkpoint, Manifest, ManifestName

Key = tuple[tuple[str, int, int], ...]
"""A block, whichever attempt ran it: from the outermost loop inwards (name, occurrence, iteration of the loop around it)."""

START_S = 0.08
"""An interpreter that has come to our launcher, for runs that do not say when they began. Measured by replays, and better known then."""
_STARTED = ("script", "module", "command", "stdin")
"""Programs that begin to run when their process does; a kernel waits for somebody."""
_LOOKED_AT = frozenset((frames.FACT, frames.NAME, frames.BLOCK, frames.VALUE, frames.LEAVE))


@dataclass(slots=True)
class _Main:
    """A main block on its way from the journals."""

    key: Key
    times: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Iteration -> seconds, and those in its first nested loop."""
    wall: float = 0.0
    """When it was first seen to begin."""
    left: tuple[int, str, float] | None = None
    """Iterations begun, how it ended, and the wall time of that."""
    kept: int = -1
    """The last iteration at whose end something was kept."""
    ran_s: dict[int, float] = field(default_factory=dict)
    """Iteration -> how long it ran at the least: to the last state that was kept inside it."""

    @property
    def name(self) -> str:
        return self.key[-1][0]


@dataclass(slots=True)
class _Read:
    """What the journals of the main process say."""

    began_wall: float = 0.0
    end_wall: float | None = None
    last_wall: float = 0.0
    mains: dict[Key, _Main] = field(default_factory=dict)
    affine: dict[Key, tuple[int, int]] = field(default_factory=dict)
    values: dict[Key, dict[int, object]] = field(default_factory=dict)
    nested: dict[Key, int] = field(default_factory=dict)
    """The last iteration in which a loop was entered."""
    left: dict[Key, tuple[int, str, float]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    restored: list[tuple[str, float]] = field(default_factory=list)
    memory_bytes: int | None = None
    resumed: dict[int, str | None] = field(default_factory=dict)
    """Attempt -> the manifest that it went on from; None: from the beginning."""
    alone: bool = True
    """No other process has logged anything."""
    cells: list[list[float]] = field(default_factory=list)
    """When cells of a notebook ran, from and to. Between them nothing does."""

    def ran_s(self, begin: float, end: float) -> float:
        """How long something ran between two moments."""
        pieces = self.cells or [[begin, end]]
        return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in pieces)


def read(store: Store, run: RunId, status: str, damaged: list[str] | None = None) -> History:
    """The history of a run; sentences about damaged manifests go into `damaged`."""
    found = _journals(store.run(run))
    broken: list[Damaged] = []
    groups = manifests.grouped(store, run, broken)
    if damaged is not None:
        damaged += [str(problem) for problem in broken]
    for group in groups:
        _note_kept(found, group)
    mains = sorted(found.mains.values(), key=lambda one: one.wall)
    numbers = {one.key: number for number, one in enumerate(mains)}
    killed = status == "killed"
    blocks = tuple(_block(found, one, mains[number - 1] if number else None, killed) for number, one in enumerate(mains))
    boundaries = [one for group in groups for one in _boundaries(store, group, numbers)]
    boundaries += [one for group in groups if found.alone and (one := _inside(store, run, group, numbers, found)) is not None]
    first = mains[0].wall if mains else None
    end = found.end_wall or found.last_wall
    return History(
        start_s=_start_s(store, run),
        prefix_s=found.ran_s(found.began_wall, first if first is not None else found.began_wall),
        blocks=blocks,
        suffix_s=found.ran_s(_ended_at(mains[-1]) if mains else found.began_wall, end) if end else 0.0,
        boundaries=tuple(boundaries),
        status=status,
        measured=bool(mains) and all(one.times for one in mains),
        memory_bytes=_memory(found, groups),
        threads=_threads(found.environment),
    )


def _start_s(store: Store, run: RunId) -> float:
    """From the start of the process to the run's first call: the interpreter, and what the program imports before."""
    try:
        facts = runs.read_run(store, run)
    except (Damaged, OSError):
        return START_S
    noted = facts.get("imported_s")
    return float(noted) if isinstance(noted, (int, float)) and facts.get("how") in _STARTED else START_S


def restores(store: Store, run: RunId) -> list[tuple[str, int, float]]:
    """What putting states back took in resumed attempts of a run: (`restore`, bytes, seconds)."""
    if all(name.attempt == 1 for name, _ in parts_of(store.run(run))):
        return []
    found = []
    for name, seconds in _journals(store.run(run)).restored:
        known = manifests.ManifestName.parse(run, name + manifests.SUFFIX)
        if known is not None:
            try:
                found.append(("restore", manifests.read(store, known).size_bytes, seconds))
            except (Damaged, LookupError):
                continue
    return found


# -- journals ------------------------------------------------------------------------------------------------------------


def _journals(folder: Path) -> _Read:
    found = _Read()
    every = parts_of(folder)
    found.alone = all(name.writer in (MAIN_PROCESS, SUPERVISOR) for name, _ in every)
    parts = [(name, path) for name, path in every if name.writer == MAIN_PROCESS]
    for name, path in sorted(parts, key=lambda part: (part[0].attempt, part[0].part)):
        if name.attempt > 1:
            found.resumed.setdefault(name.attempt, None)
        try:
            _take_part(found, path.read_bytes())
        except OSError:
            continue
    for key, left in found.left.items():
        if key in found.mains:
            found.mains[key].left = left
    return found


def bodies(data: bytes) -> Iterator[bytes]:
    """Every frame of a part but records. What is damaged is left to the reader that looks at everything."""
    unpack, head, size, at, expected = frames.HEADER.unpack_from, frames.HEADER.size, len(data), len(frames.MAGIC), 0
    if not data.startswith(frames.MAGIC):
        return
    while at + head < size:
        _, length, sequence = unpack(data, at)
        end = at + head + length
        if not length or end > size or sequence != expected:
            yield from (body for _, body in frames.walk(data, frames.Reading(), at, expected) if body[0] in _LOOKED_AT)
            return
        if data[at + head] in _LOOKED_AT:
            yield data[at + head : end]
        at = end
        expected += 1


def _take_part(found: _Read, data: bytes) -> None:
    names: dict[int, str] = {}
    blocks: dict[int, Key] = {frames.ROOT_BLOCK: ()}
    hello_wall = found.began_wall
    for body in bodies(data):
        kind = body[0]
        if kind == frames.NAME:
            names[frames.NAME_HEAD.unpack_from(body)[1]] = body[frames.NAME_HEAD.size :].decode("utf-8", "surrogatepass")
        elif kind == frames.BLOCK:
            _define(found, body, names, blocks)
        elif kind == frames.VALUE:
            _, number, iteration = frames.VALUE_HEAD.unpack_from(body)
            if number in blocks:
                found.values.setdefault(blocks[number], {})[iteration] = body[frames.VALUE_HEAD.size :]
        elif kind == frames.LEAVE:
            _, number, begun, ending, at_us = frames.LEAVE_HEAD.unpack_from(body)
            if number in blocks and begun:
                found.left[blocks[number]] = (begun, frames.ENDINGS[ending], hello_wall + at_us / 1e6)
        else:
            try:
                fact = frames.read_fact(body)
            except Damaged:
                continue
            if fact["fact"] == "hello" and isinstance(fact.get("wall"), (int, float)):
                hello_wall = float(fact["wall"])
            _take_fact(found, fact)


def _define(found: _Read, body: bytes, names: Mapping[int, str], blocks: dict[int, Key]) -> None:
    _, number, parent, above, name, occurrence, affine, first, step = frames.BLOCK_HEAD.unpack_from(body)
    if parent not in blocks or name not in names:
        return
    around = blocks[parent]
    key = blocks[number] = (*around, (names[name], occurrence, above))
    if affine:
        found.affine[key] = (first, step)
    found.nested[around] = max(found.nested.get(around, -1), above)


def _take_fact(found: _Read, fact: Mapping[str, Any]) -> None:
    kind, wall = fact["fact"], fact.get("wall")
    if isinstance(wall, (int, float)):
        found.last_wall = max(found.last_wall, float(wall))
    if kind == "hello" and not found.began_wall:
        found.began_wall = float(wall or 0.0)
    elif kind == "end" and isinstance(wall, (int, float)):
        found.end_wall = float(wall)
    elif kind == "timing":
        _take_timing(found, fact)
    elif kind == "cell" and isinstance(wall, (int, float)):
        found.cells.append([float(wall), math.inf])
    elif kind == "cell_ran" and isinstance(wall, (int, float)):
        found.cells = found.cells or [[found.began_wall, math.inf]]
        found.cells[-1][1] = float(wall)
    elif kind == "environment":
        found.environment.update(fact)
    elif kind == "memory" and isinstance(fact.get("peak_bytes"), int):
        found.memory_bytes = int(fact["peak_bytes"])
    elif kind == "resumed" and isinstance(fact.get("attempt"), int):
        checkpoint = fact.get("checkpoint")
        found.resumed[int(fact["attempt"])] = checkpoint.get(MAIN_PROCESS) if isinstance(checkpoint, dict) else None
    elif kind == "restored" and isinstance(fact.get("seconds"), (int, float)):
        found.restored.append((str(fact.get("manifest")), float(fact["seconds"])))


def _take_timing(found: _Read, fact: Mapping[str, Any]) -> None:
    first, totals, nested = int(fact["first"]), fact["total"], fact["nested"]
    key = key_of(fact.get("path") or [[fact["name"], int(fact["block"]), first]])
    main = found.mains.setdefault(key, _Main(key))
    wall = float(fact.get("wall") or found.last_wall)
    main.wall = main.wall or wall - sum(total for total, _ in main.times.values())
    for at, (total, inner) in enumerate(zip(totals, nested, strict=False)):
        main.times[first + at] = (float(total), float(inner))


def key_of(path: list[list[Any]]) -> Key:
    """The block of the innermost loop of a path, by where each loop was entered.

    >>> key_of([["fold", 0, 2], ["epoch", 1, 5]])
    (('fold', 0, 0), ('epoch', 1, 2))
    """
    above, key = 0, []
    for name, occurrence, iteration, *_ in path:
        key.append((str(name), int(occurrence), above))
        above = int(iteration)
    return tuple(key)


# -- manifests -----------------------------------------------------------------------------------------------------------


def _outside(manifest: Manifest) -> int:
    return int(manifest.stats.get("outside", 0))


def _note_kept(found: _Read, group: Checkpoint) -> None:
    first = group.members[0]
    if first.process != MAIN_PROCESS or group.part not in (INSIDE, BLOCK, ITERATION) or len(first.path) <= _outside(first):
        return
    key = key_of(first.path[: _outside(first) + 1])
    if group.part != ITERATION and len(first.path) != _outside(first) + 2:
        return
    iteration, ran_s = int(first.path[_outside(first)][2]), float(first.stats.get("compute_s") or 0.0)
    main = found.mains.setdefault(key, _Main(key, wall=first.wall - (ran_s if group.part == INSIDE else 0.0)))
    main.left = found.left.get(key, main.left)
    main.kept = max(main.kept, iteration - (group.part != ITERATION))
    if group.part == INSIDE:
        main.ran_s[iteration] = max(main.ran_s.get(iteration, 0.0), ran_s)
    found.nested[key] = max(found.nested.get(key, -1), iteration)


def _boundaries(store: Store, group: Checkpoint, numbers: Mapping[Key, int]) -> list[Boundary]:
    first = group.members[0]
    outside = _outside(first)
    number = numbers.get(key_of(first.path[: outside + 1])) if len(first.path) > outside else None
    if number is None or first.process != MAIN_PROCESS or group.part not in (BLOCK, ITERATION):
        return []
    usual = len(first.path) == outside + 1 if group.part == ITERATION else _is_first(first)
    whole = group.whole and not group.thinned and objects.path_of(store, first.tree).is_file()
    loop = str(first.path[-1][0]) if group.part == BLOCK else None
    size = sum(one.size_bytes for one in group.members)
    rows = [*(row for row in first.missing if row[2] != PENDING), *first.unlike]  # a tensor's value is there, if not its history
    lacks = tuple(str(row[0]) for row in rows)
    part = group.part if usual else OTHER
    return [Boundary(str(first.name), part, number, int(first.path[outside][2]), size, whole, first.ending, loop, lacks)]


def _is_first(manifest: Manifest) -> bool:
    """Whether a state is of a nested loop before which its iteration entered no other: one may have been left by `return`, and not kept.

    Else it is of another loop, of one deeper inside, or of a block marked by `rv.skip_block`.
    """
    depth = _outside(manifest) + 1
    if len(manifest.path) != depth + 1 or len(manifest.loops) <= depth:
        return False
    name, occurrence, *_ = manifest.path[-1]
    return not occurrence and bool(manifest.loops[depth].get("entered") == {str(name): 1})


def _inside(store: Store, run: RunId, group: Checkpoint, numbers: Mapping[Key, int], found: _Read) -> Boundary | None:
    """A state inside the first nested loop of an iteration, if everything can go on from it; else it only proves."""
    first = group.members[0]
    outside = _outside(first)
    if group.part != INSIDE or first.process != MAIN_PROCESS or len(first.path) != outside + 2 or not group.whole or group.thinned:
        return None
    number = numbers.get(key_of(first.path[: outside + 1]))
    loop, step = str(first.path[-1][0]), int(first.path[-1][2])
    if number is None or not _is_first(first):  # on the way to it other nested loops would be passed by
        return None
    if first.missing:  # also the program itself goes on from it, in the middle of something
        return None
    if _is_overtaken(run, first.name, found) or not objects.path_of(store, first.tree).is_file():
        return None
    size = sum(one.size_bytes for one in group.members)
    lacks = tuple(str(row[0]) for row in first.unlike)
    ran_s = float(first.stats.get("compute_s") or 0.0)
    return Boundary(str(first.name), INSIDE, number, int(first.path[outside][2]), size, True, None, loop, lacks, step, ran_s)


def _is_overtaken(run: RunId, name: ManifestName, found: _Read) -> bool:
    """Whether a later attempt went on from before a state: what it did since is the run, and the state is not of it."""
    for attempt, text in found.resumed.items():
        if attempt > name.attempt:
            known = ManifestName.parse(run, text.removesuffix(manifests.SUFFIX) + manifests.SUFFIX) if text else None
            if known is None or known.order < name.order:
                return True
    return False


# -- together ------------------------------------------------------------------------------------------------------------


def _ended_at(main: _Main) -> float:
    return main.left[2] if main.left is not None else main.wall + sum(total for total, _ in main.times.values())


def _block(found: _Read, main: _Main, before: _Main | None, killed: bool) -> MainBlock:
    entered = found.nested.get(main.key, -1)
    whole = max(max(main.times, default=-1) + 1, main.kept + 1)
    if main.left is not None:
        count, ending = max(main.left[0], whole), main.left[1]
    elif killed:
        count, ending = max(whole, entered) + 1, "left"
    else:
        count, ending = max(whole, entered + 1), "left"
    total_s, nested_s = _filled(main, count, entered >= 0)
    called = found.values.get(main.key, {})
    affine = found.affine.get(main.key)
    values = tuple(affine[0] + k * affine[1] if affine else _value(called.get(k)) for k in range(count))
    gap = found.ran_s(_ended_at(before), main.wall) if before is not None else 0.0
    around = tuple((name, occurrence, main.key[at + 1][2]) for at, (name, occurrence, _) in enumerate(main.key[:-1]))
    return MainBlock(main.name, total_s, nested_s, ending, gap, around, values, main.key[-1][1])


def _value(encoded: object) -> object:
    return decode(encoded) if isinstance(encoded, bytes) else None


def _filled(main: _Main, count: int, has_nested: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The times of all iterations: those that nobody measured are like the others."""
    if main.times:
        total = statistics.median(one for one, _ in main.times.values())
        nested = statistics.median(one for _, one in main.times.values())
    else:
        spent = _ended_at(main) - main.wall
        total = max(0.0, spent / count) if count else 0.0
        nested = total if has_nested else 0.0
    least = [main.ran_s.get(k, 0.0) for k in range(count)]
    times = [main.times.get(k, (max(total, least[k]), max(nested, least[k]))) for k in range(count)]
    return tuple(one for one, _ in times), tuple(min(one, inner) for one, inner in times)


def _memory(found: _Read, groups: list[Checkpoint]) -> int | None:
    """The most that the process had in memory, told as it ended. Else about: its state, its gradients and the like, and the libraries."""
    if found.memory_bytes is not None:
        return found.memory_bytes
    largest = max((one.size_bytes for group in groups for one in group.members), default=None)
    return None if largest is None else 3 * largest + (300 << 20)


def _threads(environment: Mapping[str, Any]) -> int | None:
    torch = environment.get("torch")
    threads = torch.get("threads") if isinstance(torch, dict) else None
    return threads if isinstance(threads, int) and threads > 0 else None
