"""What a plan is made of: what is needed, the scans, the stretches that run, the whole with its cost. Values only.

How one follows from the other is for `scans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rearview.plan import partition
from rearview.plan.cost import NOTHING, Seconds
from rearview.plan.timeline import INSIDE, Boundary, Place

RESUME, PSEUDORESUME, START = "resume", "pseudoresume", "start"
RUNGS = (RESUME, PSEUDORESUME, START)
"""The ladder of trust: from a checkpoint; from the main loop's beginning with every block's end state; everything once more."""

PREFIX, SUFFIX, VALIDATION, RANGE = "prefix", "suffix", "validation", "range"
ANY_LOOP = "*"

Range = tuple[int, int, int]
"""Iterations of a main block: block, first, last, both included."""

Part = tuple[int, int, int, int]
"""Of an iteration that several stretches share: block, iteration, and the steps of its nested loop after which it begins and ends; -1:
with the iteration itself."""


@dataclass(frozen=True, slots=True)
class Need:
    """Where the statements that are asked for run, and what of that is wanted."""

    prefix: bool = False
    before: bool = False
    """In an iteration of the main loop, before its first nested loop."""
    after: bool = False
    """In an iteration, behind it."""
    nested: frozenset[str] = frozenset()
    """In these loops directly in the main loop; `*`: in any."""
    suffix: bool = False
    whole: bool = False
    """It cannot be told where: anywhere."""
    only: tuple[Range, ...] | None = None
    """The iterations that are wanted, and nothing before or after the loops; None: everything."""
    answered: tuple[Range, ...] = ()
    prefix_answered: bool = False
    end_answered: bool = False
    lacking: frozenset[str] = frozenset()
    """Manifests of states that do not hold something which a statement reads."""
    lost: frozenset[str] = frozenset()
    """Manifests of states from which the program itself cannot go on: a file that it reads again had a content which nobody kept, or it
    goes back through a history that a state does not keep."""
    proof: bool = False
    """No statement is asked for: everything is compared with the record."""
    unparted: bool = False
    """Added statements carry something from one step of a nested loop to the next: an iteration is run in one go."""

    @property
    def in_iterations(self) -> bool:
        return self.before or self.after or bool(self.nested) or self.whole

    @property
    def inside(self) -> frozenset[str]:
        return frozenset((ANY_LOOP,)) if self.whole else self.nested

    def goes_into(self, loop: str | None) -> bool:
        """Whether something is asked for inside a nested loop."""
        return bool(self.inside) and (ANY_LOOP in self.inside or loop is None or loop in self.inside)

    def wants(self, block: int, iteration: int) -> bool:
        """Whether an iteration is asked for and not answered."""
        return self.in_iterations and (self.only is None or _within(self.only, block, iteration)) and not self.has(block, iteration)

    def has(self, block: int, iteration: int) -> bool:
        """Whether an iteration is answered already."""
        return _within(self.answered, block, iteration)

    @property
    def wants_prefix(self) -> bool:
        return (self.prefix or self.whole) and self.only is None and not self.prefix_answered

    @property
    def wants_end(self) -> bool:
        return (self.suffix or self.whole) and self.only is None and not self.end_answered


def _within(ranges: Sequence[Range], block: int, iteration: int) -> bool:
    return any(block == one and first <= iteration <= last for one, first, last in ranges)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one worker runs."""

    start: Boundary | None = None
    """The state it begins with; None: the program's beginning."""
    first: Place | None = None
    last: Place | None = None
    to_end: bool = False
    prefix: bool = False
    skip: bool = True
    runs_inside: tuple[str, ...] = ()
    until: bool = False
    """It ends at the last record of a run that was killed."""
    put_back: int = 0
    """Nested blocks whose end state is put back, with that of a start in the middle of an iteration."""
    must_run: tuple[Place, ...] = ()
    """Nested blocks that run only because their end state is not kept."""
    covers: tuple[Range, ...] = ()
    """Iterations of which it runs everything that is asked for."""
    stop: Boundary | None = None
    """It ends with this state inside an iteration, the last of its own; None: with the iteration."""
    parts: tuple[Part, ...] = ()
    """What it runs of iterations that it shares with other stretches."""
    seconds: Seconds = NOTHING

    @property
    def in_whole_iterations(self) -> bool:
        return self.stop is None and (self.start is None or self.start.part != INSIDE)

    @property
    def size(self) -> int:
        """Iterations and parts of iterations that it runs."""
        return sum(last - first + 1 for _, first, last in self.covers) + len(self.parts)


@dataclass(frozen=True, slots=True)
class Scan:
    """One of the four scans, and why it is needed."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be run for one run of the record."""

    rung: str
    stretches: tuple[Stretch, ...] = ()
    scans: tuple[Scan, ...] = ()
    workers: int = 0
    seconds: Seconds = NOTHING
    plain_s: float = 0.0
    """Running the whole program once more, without rearview."""
    left_out: tuple[str, ...] = ()
    """What was asked for and cannot be run, a sentence each."""

    @property
    def must_run(self) -> tuple[Place, ...]:
        return tuple(dict.fromkeys(place for stretch in self.stretches for place in stretch.must_run))

    @property
    def shared(self) -> dict[Place, frozenset[Part]]:
        """Iterations that several stretches share, each with all of its parts that are asked for."""
        found: dict[Place, set[Part]] = {}
        for part in (part for stretch in self.stretches for part in stretch.parts):
            found.setdefault(part[:2], set()).add(part)
        return {place: frozenset(parts) for place, parts in found.items()}

    @property
    def put_back(self) -> int:
        return sum(stretch.put_back for stretch in self.stretches)

    @property
    def total_s(self) -> float:
        """Of all workers together."""
        return sum(stretch.seconds.expected for stretch in self.stretches)

    @property
    def speedup(self) -> float:
        """By sharing among workers."""
        return partition.speedup(self.total_s, self.seconds.expected)

    @property
    def is_empty(self) -> bool:
        return not self.stretches


def ranges(places: Sequence[Place]) -> tuple[Range, ...]:
    """Places in order as ranges of each block."""
    found: list[Range] = []
    for block, iteration in places:
        if found and found[-1][0] == block and found[-1][2] == iteration - 1:
            found[-1] = (block, found[-1][1], iteration)
        else:
            found.append((block, iteration, iteration))
    return tuple(found)
