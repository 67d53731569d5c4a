"""A run as the planner sees it: what ran before, in, between and after its main loops, how long that took, and what is kept of it. Pure.

A *segment* is the smallest piece that a worker runs or does not run: an iteration of a main loop or a part of one, what runs between two
main loops, or what runs after the last one. What runs before the first runs whenever a process starts, so it is no segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]
"""Which main block of the run, in program order from 0, and which of its iterations."""

BLOCK, ITERATION = "block", "iteration"
"""Boundaries: the first nested loop of an iteration was left; the iteration itself ended."""
INSIDE = "inside"
"""An iteration of the first nested loop ended, with more of them to come."""
OTHER = "other"
"""Boundaries that no plan begins with: of blocks deeper inside, or marked by `rv.skip_block`. Workers put them back where they may."""
BREAK = "break"
IN_ITERATION, OUTSIDE = "in iteration", "outside"
"""Where the last record of a killed run is: in the iteration that was cut short, or behind the last main loop (or there is none)."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """A checkpoint of a run, or the digests that are left of one."""

    name: str
    """Of its manifest."""
    part: str
    block: int
    iteration: int
    size_bytes: int = 0
    restorable: bool = True
    """Whole, sound, and its bytes are there. Otherwise it only proves."""
    ending: str | None = None
    """How the loop ended that was left here: the nested one, or for an iteration the main one."""
    loop: str | None = None
    """The nested loop that was left."""
    lacks: tuple[str, ...] = ()
    """What of the program's state it does not hold, by name."""
    pending: tuple[str, ...] = ()
    """Tensors that a backward pass was still to go through: their values are there, how they were computed is not."""
    halfway: bool = False
    """The program went on to such a pass, or to something else that the state cannot give it: it cannot go on from here."""
    unplaced: tuple[str, ...] = ()
    """Variables with iterators that the program drew from, which are not brought to where they stood."""
    at_work: tuple[str, ...] = ()
    """What the iteration had started beside the nested loop, to feed it: where that loop is not run, it would wait for ever."""
    held: tuple[str, ...] = ()
    """What had gathered the items of the nested loop, and is in no state: without that loop it has gathered nothing."""
    step: int = -1
    """Of one inside a nested loop: the iteration of that which had ended."""
    ran_s: float = 0.0
    """Of one inside a nested loop: how long the iteration of the main loop had run."""

    @property
    def place(self) -> Place:
        return self.block, self.iteration


@dataclass(frozen=True, slots=True)
class MainBlock:
    """One execution of a main loop."""

    name: str
    total_s: tuple[float, ...]
    """Of each iteration that was begun."""
    nested_s: tuple[float, ...]
    """Of these, in the first nested loop."""
    ending: str = "exhausted"
    gap_s: float = 0.0
    """What ran between the main block before and this one."""
    path: tuple[tuple[str, int, int, object], ...] = ()
    """The loops around it: name, occurrence, iteration, and what that is called."""
    values: tuple[object, ...] = ()
    """What each iteration is called, where that is known."""
    occurrence: int = 0
    """How many loops of its name the loop around it had before, in that iteration."""

    @property
    def iterations(self) -> int:
        return len(self.total_s)

    @property
    def outer_s(self) -> tuple[float, ...]:
        """Of each iteration, outside the first nested loop."""
        return tuple(max(0.0, total - nested) for total, nested in zip(self.total_s, self.nested_s, strict=True))


@dataclass(frozen=True, slots=True)
class Segment:
    """An iteration, or what runs between two main blocks (`iteration` is None, `block` the one before it), or after the last."""

    block: int
    iteration: int | None = None
    since: Boundary | None = None
    """Of a part of an iteration: the state inside it that the part begins with; None: the iteration's beginning."""
    until: Boundary | None = None
    """The one that it ends with; None: the iteration's end."""

    @property
    def place(self) -> Place | None:
        return None if self.iteration is None else (self.block, self.iteration)

    @property
    def is_part(self) -> bool:
        return self.since is not None or self.until is not None


@dataclass(frozen=True, slots=True)
class History:
    """What a run did, and what is kept of it."""

    start_s: float = 0.0
    """From the start of the process to the first call."""
    prefix_s: float = 0.0
    """From there to the first main loop."""
    blocks: tuple[MainBlock, ...] = ()
    suffix_s: float = 0.0
    boundaries: tuple[Boundary, ...] = ()
    status: str = "finished"
    """`finished`, `failed` or `killed`: a killed one has no end, and its last iteration was cut short."""
    measured: bool = True
    """The times were measured, not guessed from records."""
    memory_bytes: int | None = None
    """The most that the process had in memory."""
    threads: int | None = None
    cut: str = ""
    """Of a killed run: where it is known to have come to; what is there is run up to the last record."""
    went_on: str = ""
    """The run that this one, of other code, went on from, in words: nothing of it can be run from the program's beginning."""
    since: Place = (0, 0)
    """The first iteration of which the run itself ran anything."""
    by_place: Mapping[tuple[str, int, int], Boundary] = field(init=False, repr=False, compare=False)
    """(part, block, iteration) -> the boundary there, a restorable one if there is one."""
    inside: Mapping[Place, tuple[Boundary, ...]] = field(init=False, repr=False, compare=False)
    """Iteration -> the restorable states inside it, in order."""

    def __post_init__(self) -> None:
        known: dict[tuple[str, int, int], Boundary] = {}
        inside: dict[Place, dict[int, Boundary]] = {}
        for one in self.boundaries:
            if one.part == INSIDE:
                if one.restorable:
                    inside.setdefault(one.place, {})[one.step] = one
                continue
            key = (one.part, one.block, one.iteration)
            if key not in known or one.restorable or not known[key].restorable:
                known[key] = one
        object.__setattr__(self, "by_place", known)
        ordered = {place: tuple(theirs[step] for step in sorted(theirs)) for place, theirs in inside.items()}
        object.__setattr__(self, "inside", ordered)

    @property
    def killed(self) -> bool:
        return self.status == "killed"

    @property
    def plain_s(self) -> float:
        """What running all of it once more takes."""
        inside = sum(block.gap_s + sum(block.total_s) for block in self.blocks)
        return self.start_s + self.prefix_s + inside + self.suffix_s

    def boundary(self, part: str, block: int, iteration: int) -> Boundary | None:
        """What is kept at a place."""
        return self.by_place.get((part, block, iteration))

    def whole_iterations(self, block: int) -> int:
        """How many iterations of a main block can be run to their end: not the one in which the run was killed."""
        mine = self.blocks[block]
        return max(0, mine.iterations - 1) if self.is_cut(block) else mine.iterations

    def is_cut(self, block: int) -> bool:
        """Whether the run was killed in an iteration of a main block."""
        last = self.killed and bool(self.blocks) and block == len(self.blocks) - 1
        return last and self.blocks[block].iterations > 0 and self.blocks[block].ending not in ("exhausted", BREAK, "return")

    def stops_in(self, segment: Segment) -> bool:
        """Whether a segment is run only up to the last record of a killed run."""
        last = len(self.blocks) - 1
        if segment.until is not None:
            return False
        if self.cut == IN_ITERATION:
            return segment.block == last and segment.iteration == self.blocks[last].iterations - 1
        return self.cut == OUTSIDE and segment.iteration is None and segment.block == last

    def segments(self) -> list[Segment]:
        """Everything behind the first main loop's beginning, in order. Without any main loop: one, the whole program."""
        return list(self._segments())

    def _segments(self) -> Iterator[Segment]:
        begun, first = self.since
        for number in range(begun, len(self.blocks)):
            if number > begun:
                yield Segment(number - 1)
            for iteration in range(first if number == begun else 0, self.whole_iterations(number)):
                yield Segment(number, iteration)
        if self.cut == IN_ITERATION:
            yield Segment(len(self.blocks) - 1, self.blocks[-1].iterations - 1)
        if not self.killed or self.cut == OUTSIDE:
            yield Segment(len(self.blocks) - 1)
