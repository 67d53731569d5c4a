"""From which checkpoints a run can go on: whole over its ranks, verified, the newest first.

Reads manifests and chunks; unpickles nothing. Must not know what a state means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from rearview.errors import Damaged, NotFound
from rearview.model import RunId
from rearview.record.checkpoints.at_work import AT_WORK
from rearview.record.checkpoints.boundaries import ITERATION
from rearview.record.checkpoints.on_the_way import HELD
from rearview.record.resume import in_vain
from rearview.record.resume.in_vain import Attempt
from rearview.state import tree as trees
from rearview.state.take.histories import PENDING
from rearview.store import manifests, objects
from rearview.store.layout import Store
from rearview.store.manifests import Checkpoint, Manifest
from rearview.store.packs import ChunkRef, Known
from rearview.store.packs.reading import ChunkReader

_REFUSED = 2
"""States that may come back otherwise than they were, one after the other, before the newest of them is gone on with."""

_AT_ONCE = 64 << 20


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """One boundary of a run that it can go on from."""

    run: RunId
    attempt: int
    number: int
    part: str
    members: tuple[Manifest, ...]
    told: frozenset[int] = frozenset()
    """The depths at which the run has several loops of one name: there is said which is meant."""

    @property
    def first(self) -> Manifest:
        """The part of the first rank: paths and moments are told by it."""
        return self.members[0]

    @property
    def wall(self) -> float:
        """When it was taken."""
        return self.first.wall

    @property
    def size_bytes(self) -> int:
        """What is read to restore it."""
        return sum(one.size_bytes for one in self.members)

    @property
    def iteration(self) -> list[list[Any]]:
        """The iteration of the main loop that it is in, or at the end of: its path, without what is deeper inside."""
        return [level[:3] for level in self.first.path[: int(self.first.stats.get("outside", 0)) + 1]]

    @property
    def files(self) -> list[Any]:
        """The output files at that moment, each with its process behind it; one that several ranks write is the first one's."""
        rows: dict[str, Any] = {}
        for one in self.members:
            for row in one.files:
                rows.setdefault(str(row[0]), [*row, *([None] * 8)][:8] + [str(one.process)])
        return list(rows.values())

    @property
    def lacks(self) -> list[str]:
        """What it does not hold, a sentence each."""
        return _sentences(row for one in self.members for row in one.missing)

    @property
    def unlike(self) -> list[str]:
        """What comes back otherwise than it was, a sentence each."""
        return _sentences(row for one in self.members for row in one.unlike)

    @property
    def is_halfway(self) -> bool:
        """Whether the program was on its way to a backward pass: its tensors are there, but not what that pass would go over."""
        return any(row[2] == PENDING for one in self.members for row in one.missing)

    @property
    def at_work(self) -> list[str]:
        """What its iteration had started beside the training, by name: on the way there it would be started again, and wait for ever."""
        return list(dict.fromkeys(str(row[0]) for one in self.members for row in one.missing if row[2] == AT_WORK))

    @property
    def held(self) -> list[str]:
        """What the program held on the way there, and no state has, by name: it would be another one."""
        return list(dict.fromkeys(str(row[0]) for one in self.members for row in one.missing if row[2] in HELD))

    @property
    def place(self) -> str:
        """In people's words: `after epoch=3`, `epoch=4, after step=120`, in one of several loops of a name `after epoch[2]=3`."""
        path = self.first.path
        named = [[f"{loop}[{nth + 1}]" if k in self.told else loop, nth, *rest] for k, (loop, nth, *rest) in enumerate(path)]
        return in_words(self.part, named)

    def checkpoint(self) -> dict[str, str]:
        """Process number -> name of its manifest."""
        return {str(one.process): str(one.name) for one in self.members}

    def origin(self) -> dict[str, Any]:
        """What the fact `resumed` says about where an attempt began."""
        return {
            "from": {"attempt": self.attempt, "number": self.number, "part": self.part},
            "path": self.first.path,
            "place": self.place,
            "wall": self.wall,
            "taken_at": {str(one.process): one.taken_at for one in self.members},
        }


def in_words(part: str, path: list[list[Any]]) -> str:
    """Where a state was taken.

    >>> in_words("iteration", [["epoch", 0, 2, 3]])
    'after epoch=3'
    >>> in_words("inside", [["epoch", 0, 2, 3], ["step", 0, 119, None]])
    'epoch=3, after step#119'
    >>> in_words("block", [["epoch", 0, 2, 3], ["step", 0, 119, 119]])
    'epoch=3, behind the loop step'
    """
    shown = [f"{name}#{iteration}" if value is None else f"{name}={value}" for name, _, iteration, value in path]
    if part == "block" and path:
        return "/".join(shown[:-1]) + f"{', ' if len(shown) > 1 else ''}behind the loop {path[-1][0]}"
    around = "/".join(shown[:-1])
    return f"{around}{', ' if around else ''}after {shown[-1]}" if shown else "the beginning"


def of_run(store: Store, run: RunId) -> tuple[list[RestorePoint], list[str]]:
    """The places a run can go on from, newest first, and a sentence for each damaged manifest."""
    damaged: list[Damaged] = []
    every = list(manifests.grouped(store, run, damaged))
    told = manifests.telling(_loops(one) for one in every)
    found = [one for one in every if _can_restart(one)]
    points = [RestorePoint(run, one.attempt, one.number, one.part, one.members, told(_loops(one))) for one in found]
    points.sort(key=lambda point: (point.attempt, point.number, manifests.PARTS.index(point.part)), reverse=True)
    return points, [str(problem) for problem in damaged]


def _can_restart(checkpoint: Checkpoint) -> bool:
    """Whether a program can be brought there again: whole, its bytes still there, of ranks and not of processes below them."""
    first = checkpoint.members[0]
    skippable = first.ending in (None, "exhausted")
    """A loop that was left by break cannot be ended by an empty one: its `else` would run."""
    return checkpoint.whole and not checkpoint.thinned and first.process.isdigit() and skippable


def problem_of(store: Store, point: RestorePoint) -> str | None:
    """What is wrong with the bytes of a checkpoint, as a sentence; None if every one of them is what was written. Reads them all."""
    problem = damage(store, point.members)
    return None if problem is None else f"checkpoint {point.first.name} of run {point.run} ({point.place}) is damaged: {problem}"


def damage(store: Store, members: Sequence[Manifest]) -> Damaged | NotFound | None:
    """What is wrong with the bytes of these."""
    refs = {ref.digest: ref for one in members for buffer in one.buffers for ref in buffer.refs()}
    memory = memoryview(bytearray(min(_AT_ONCE, sum(ref.size for ref in refs.values()))))
    try:
        for one in members:
            objects.get(store, one.tree)
        with ChunkReader(store, Known(store)) as reader:
            for piece in _pieces(list(refs.values()), len(memory)):
                reader.into(piece, memory[: sum(ref.size for ref in piece)])
    except (Damaged, NotFound) as problem:
        return problem
    return None


def _pieces(refs: list[ChunkRef], at_most: int) -> Iterator[list[ChunkRef]]:
    """Chunks in groups of some bytes: a large state need not fit into memory twice."""
    piece: list[ChunkRef] = []
    size = 0
    for ref in refs:
        if piece and size + ref.size > at_most:
            yield piece
            piece, size = [], 0
        piece.append(ref)
        size += ref.size
    if piece:
        yield piece


def orders_by_hash(store: Store, point: RestorePoint) -> bool:
    """Whether the state holds sets that another hash seed orders otherwise."""
    return any(trees.orders_by_hash(trees.decode(objects.get(store, one.tree))) for one in point.members)


def newest_sound(store: Store, points: list[RestorePoint]) -> tuple[RestorePoint | None, list[str]]:
    """The newest checkpoint whose bytes are whole, and a sentence for each one that was passed over.

    One that is halfway to a backward pass is taken only if there is no other.
    """
    said: list[str] = []
    for point in sorted(points, key=lambda point: point.is_halfway):
        problem = problem_of(store, point)
        if problem is None:
            return point, said
        said.append(problem)
    return None, said


def to_be_missed(points: Sequence[RestorePoint], missed: Set[str], otherwise: Set[str]) -> Set[str]:
    """The checkpoints that are not tried again: all that were missed, but for the newest of those that did not come back as they were,
    where older ones did not either, or there is no other. What a program loses in every state is better lost in the newest."""
    refused = [point for point in points if otherwise & set(point.checkpoint().values())]
    others = [point for point in points if not missed & set(point.checkpoint().values())]
    if not refused or (others and len(refused) < _REFUSED):
        return missed
    return missed - set(refused[0].checkpoint().values())


def reachable(
    points: list[RestorePoint], missed: Set[str] = frozenset(), attempts: Sequence[Attempt] = (), *, edited: bool = False
) -> tuple[list[RestorePoint], list[str]]:
    """Those of some points, newest first, to which a program comes again without waiting for ever, and with all that it had; a sentence if
    others are newer.

    `missed`: those that an attempt did not come to; others of the same iteration are tried only if there is nothing else. `attempts`: what
    became of those that came to theirs. In the end there is none left, and the run begins anew. `edited`: another source goes on, of which
    nobody knows that it fails.
    """
    found = [point for point in points if not point.at_work and not point.held]
    failed = [point for point in points if missed & set(point.checkpoint().values())]
    iterations = [point.iteration for point in failed if point.part != ITERATION]
    vain = {} if edited else in_vain.led_nowhere(found, attempts)
    untried = [point for point in found if point not in failed and in_vain.key_of(point) not in vain]
    left = [point for point in untried if point.part == ITERATION or point.iteration not in iterations]
    left = left or (found if edited else untried)
    newest = points[0] if points else None
    if newest is None or newest in left:
        return left, []
    which = f"checkpoint {newest.first.name} ({newest.place})"
    if newest.held:
        said = f"{', '.join(newest.held)} had begun before, and no state has what that came to"
    elif newest.at_work:
        work = f"{', '.join(newest.at_work)} {'was' if len(newest.at_work) == 1 else 'were'} at work beside the loop"
        said = f"{work}, and would be started again, to wait for ever"
    elif (attempt := vain.get(in_vain.key_of(newest))) is not None:
        said = f"attempt {attempt.number}, which went on from there, failed ({attempt.failure}) and kept no newer state"
    else:
        said = "an attempt to go on from it did not come there"
    return left, [f"{which}: {said}"]


def _sentences(rows: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(f"{where} ({kind}): {why}" for where, kind, why in rows))


def _loops(checkpoint: manifests.Checkpoint) -> manifests.Loops:
    return tuple((name, nth) for name, nth, *_ in checkpoint.members[0].path)
