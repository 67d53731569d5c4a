"""What a run did, for the planner: put together from what its journals (`told`) and manifests say. Executes and unpickles nothing."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from rearview.errors import Damaged
from rearview.model import MAIN_PROCESS, RunId
from rearview.plan.timeline import BLOCK, INSIDE, ITERATION, OTHER, Boundary, History, MainBlock
from rearview.record.checkpoints.at_work import AT_WORK
from rearview.record.checkpoints.on_the_way import GATHERING, HELD
from rearview.replay.journals import drawn
from rearview.replay.journals.told import Key, Main, Told, journals, key_of
from rearview.state.take.histories import PENDING
from rearview.store import manifests, objects, runs
from rearview.store.encoding import decode
from rearview.store.journal import parts_of
from rearview.store.layout import Store
from rearview.store.manifests import Checkpoint, Manifest, ManifestName

START_S = 0.08
"""An interpreter that has come to our launcher, for runs that do not say when they began. Measured by replays, and better known then."""
_STARTED = ("script", "module", "command", "stdin")
"""Programs that begin to run when their process does; a kernel waits for somebody."""


def read(store: Store, run: RunId, status: str, damaged: list[str] | None = None) -> History:
    """The history of a run; sentences about damaged manifests go into `damaged`."""
    found = journals(store.run(run))
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
    left = {(group.attempt, group.number): _pending(group) for group in groups if group.part == ITERATION}
    unplaced = drawn.unplaced(groups)
    boundaries = [one for group in groups for one in _boundaries(store, group, numbers, left.get((group.attempt, group.number)), unplaced)]
    boundaries += [one for group in groups if found.alone and (one := _inside(store, run, group, numbers, found)) is not None]
    origin = _origin(store, found, numbers)
    boundaries += origin
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
        went_on=f"a state of run {found.went_on[0]}" if found.went_on is not None else "",
        since=(origin[0].block, origin[0].iteration + (origin[0].part == ITERATION)) if origin else (0, 0),
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
    for name, seconds in journals(store.run(run)).restored:
        known = manifests.ManifestName.parse(run, name + manifests.SUFFIX)
        if known is not None:
            try:
                found.append(("restore", manifests.read(store, known).size_bytes, seconds))
            except (Damaged, LookupError):
                continue
    return found


# -- manifests -----------------------------------------------------------------------------------------------------------


def _outside(manifest: Manifest) -> int:
    return int(manifest.stats.get("outside", 0))


def _note_kept(found: Told, group: Checkpoint) -> None:
    first = group.members[0]
    if first.process != MAIN_PROCESS or group.part not in (INSIDE, BLOCK, ITERATION) or len(first.path) <= _outside(first):
        return
    key = key_of(first.path[: _outside(first) + 1])
    if group.part != ITERATION and len(first.path) != _outside(first) + 2:
        return
    iteration, ran_s = int(first.path[_outside(first)][2]), float(first.stats.get("compute_s") or 0.0)
    main = found.mains.setdefault(key, Main(key, wall=first.wall - (ran_s if group.part == INSIDE else 0.0)))
    main.left = found.left.get(key, main.left)
    main.kept = max(main.kept, iteration - (group.part != ITERATION))
    if group.part == INSIDE:
        main.ran_s[iteration] = max(main.ran_s.get(iteration, 0.0), ran_s)
    found.nested[key] = max(found.nested.get(key, -1), iteration)


def _pending(group: Checkpoint) -> tuple[str, ...]:
    return tuple(str(row[0]) for row in group.members[0].missing if row[2] == PENDING)


def _boundaries(
    store: Store, group: Checkpoint, numbers: Mapping[Key, int], left: Collection[str] | None, not_placed: Mapping[str, tuple[str, ...]]
) -> list[Boundary]:
    """`left`: what a backward pass was still to go through at the end of the iteration; None if that is not known."""
    first = group.members[0]
    outside = _outside(first)
    number = numbers.get(key_of(first.path[: outside + 1])) if len(first.path) > outside else None
    if number is None or first.process != MAIN_PROCESS or group.part not in (BLOCK, ITERATION):
        return []
    usual = len(first.path) == outside + 1 if group.part == ITERATION else _is_first(first)
    whole = group.whole and not group.thinned and objects.path_of(store, first.tree).is_file()
    loop = str(first.path[-1][0]) if group.part == BLOCK else None
    size = sum(one.size_bytes for one in group.members)
    # A tensor's value is there, if not its history; and a loop has no variable of its name that a position would be in.
    rows = [*(row for row in first.missing if row[2] not in (PENDING, AT_WORK, *HELD) and row[1] != drawn.POSITION), *first.unlike]
    unplaced = not_placed.get(str(first.name), ())
    lacks = (*(str(row[0]) for row in rows), *unplaced, *_files(first))
    part = group.part if usual else OTHER
    pending = _pending(group)
    # A pass lets go of the history it goes through: what still has it at the end of the iteration was not gone through.
    at_work = tuple(str(row[0]) for row in first.missing if row[2] == AT_WORK)
    # What else was held on the way is there: a replay runs the bodies of outer iterations, and only puts the end of the nested loop back.
    held = tuple(str(row[0]) for row in first.missing if row[2] == GATHERING)
    halfway = bool(unplaced or at_work or held) or (group.part == BLOCK and not set(pending).issubset(left or ()))
    return [
        Boundary(
            str(first.name), part, number, int(first.path[outside][2]), size, whole, first.ending, loop, lacks, pending, halfway, unplaced,
            at_work, held,
        )
    ]  # fmt: skip


def _files(manifest: Manifest) -> list[str]:
    """Variables that are files: what one had read is in no state; one that was closed is made anew without its encoding and newlines."""
    return [root.rpartition("/")[2] for root, told in manifest.roots.items() if len(told) > 2 and told[2] == "file"]


def _is_first(manifest: Manifest) -> bool:
    """Whether a state is of a nested loop before which its iteration entered no other: one may have been left by `return`, and not kept.

    Else it is of another loop, of one deeper inside, or of a block marked by `rv.skip_block`.
    """
    depth = _outside(manifest) + 1
    if len(manifest.path) != depth + 1 or len(manifest.loops) <= depth:
        return False
    name, occurrence, *_ = manifest.path[-1]
    return not occurrence and bool(manifest.loops[depth].get("entered") == {str(name): 1})


def _origin(store: Store, found: Told, numbers: Mapping[Key, int]) -> list[Boundary]:
    """The state of another run that this one went on from, named with that run; none if it did not, or it is gone."""
    if found.went_on is None:
        return []
    run, name = RunId(found.went_on[0]), found.went_on[1]
    groups = manifests.grouped(store, run, [])
    unplaced = drawn.unplaced(groups)
    for group in groups:
        if str(group.members[0].name) == name:
            inside = _inside(store, run, group, numbers, found)
            theirs = [inside] if inside is not None else _boundaries(store, group, numbers, _pending(group), unplaced)
            return [replace(one, name=f"{run}/{one.name}") for one in theirs if one.part != OTHER]
    return []


def _inside(store: Store, run: RunId, group: Checkpoint, numbers: Mapping[Key, int], found: Told) -> Boundary | None:
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
    lacks = (*(str(row[0]) for row in first.unlike), *_files(first))
    ran_s = float(first.stats.get("compute_s") or 0.0)
    return Boundary(
        str(first.name), INSIDE, number, int(first.path[outside][2]), size, True, None, loop, lacks, step=step, ran_s=ran_s
    )  # fmt: skip


def _is_overtaken(run: RunId, name: ManifestName, found: Told) -> bool:
    """Whether a later attempt went on from before a state: what it did since is the run, and the state is not of it."""
    for attempt, text in found.resumed.items():
        if attempt > name.attempt:
            known = ManifestName.parse(run, text.removesuffix(manifests.SUFFIX) + manifests.SUFFIX) if text else None
            if known is None or known.order < name.order:
                return True
    return False


# -- together ------------------------------------------------------------------------------------------------------------


def _ended_at(main: Main) -> float:
    return main.left[2] if main.left is not None else main.wall + sum(total for total, _ in main.times.values())


def _block(found: Told, main: Main, before: Main | None, killed: bool) -> MainBlock:
    entered = found.nested.get(main.key, -1)
    whole = max(max(main.times, default=-1) + 1, main.kept + 1)
    if main.left is not None:
        count, ending = max(main.left[0], whole), main.left[1]
    elif killed:
        count, ending = max(whole, entered) + 1, "left"
    else:
        count, ending = max(whole, entered + 1), "left"
    total_s, nested_s = _filled(main, count, entered >= 0)
    values = tuple(_value(found, main.key, k) for k in range(count))
    gap = found.ran_s(_ended_at(before), main.wall) if before is not None else 0.0
    around = tuple(
        (name, occurrence, inner[2], _value(found, main.key[: at + 1], inner[2]))
        for at, ((name, occurrence, _), inner) in enumerate(itertools.pairwise(main.key))
    )
    return MainBlock(main.name, total_s, nested_s, ending, gap, around, values, main.key[-1][1])


def _value(found: Told, loop: Key, iteration: int) -> object:
    """What an iteration is called, if that is known."""
    if loop in found.affine:
        first, step = found.affine[loop]
        return first + iteration * step
    encoded = found.values.get(loop, {}).get(iteration)
    return decode(encoded) if isinstance(encoded, bytes) else None


def _filled(main: Main, count: int, has_nested: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
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


def _memory(found: Told, groups: list[Checkpoint]) -> int | None:
    """The most that the process had in memory, told as it ended. Else about: its state, its gradients and the like, and the libraries."""
    if found.memory_bytes is not None:
        return found.memory_bytes
    largest = max((one.size_bytes for group in groups for one in group.members), default=None)
    return None if largest is None else 3 * largest + (300 << 20)


def _threads(environment: Mapping[str, Any]) -> int | None:
    torch = environment.get("torch")
    threads = torch.get("threads") if isinstance(torch, dict) else None
    return threads if isinstance(threads, int) and threads > 0 else None
