"""What workers did of a plan: which iterations, or parts of iterations, are finished and count. How they are run is for `conductor`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rearview.plan import scans
from rearview.plan.scans import Part, Range, Stretch
from rearview.plan.timeline import INSIDE, Place
from rearview.replay.running.progress import Seen
from rearview.replay.running.units import Unit


@dataclass(slots=True)
class Piece:
    """What one worker did."""

    unit: Unit
    stretch: Stretch
    seen: Seen
    code: int | None = None
    complete: bool = False
    went_beyond: bool = False
    """It passed the point up to which the run came: what it logged there is invented."""
    began_wall: float = 0.0
    seconds: float = 0.0
    printed: str = ""

    @property
    def covers(self) -> list[list[Any]]:
        """What of its stretch counts: all of it, or the iterations that were finished."""
        if self.went_beyond:
            return []
        done, ran = self.complete, self._ran
        wanted = [(block, k) for block, first, last in self.stretch.covers for k in range(first, last + 1)]
        places = wanted if done else [place for place in wanted if place in ran]
        head = [["prefix"]] if self.stretch.prefix and (done or ran) else []
        tail = [["end"]] if self.stretch.to_end and done else []
        return [*head, *(["iterations", *one] for one in scans.ranges(places)), *tail]

    @property
    def unfinished(self) -> list[Place]:
        ran = self._ran
        places = [(block, k) for block, first, last in self.stretch.covers for k in range(first, last + 1)]
        left = [part[:2] for part in self.stretch.parts if part not in self.parts]
        return [] if self.complete else sorted({*left, *(place for place in places if place not in ran)})

    @property
    def parts(self) -> frozenset[Part]:
        """What it has finished of iterations that it shares with others: up to their ends, or to its own."""
        if self.went_beyond:
            return frozenset()
        return frozenset(part for part in self.stretch.parts if self.complete or part[:2] in self._ran)

    @property
    def begins_inside(self) -> bool:
        """Whether it begins inside an iteration."""
        return self.stretch.start is not None and self.stretch.start.part == INSIDE

    @property
    def arrived(self) -> bool:
        """Whether the state that it begins with was put back."""
        return any(kind == "restore" for kind, _, _ in self.seen.measured)

    @property
    def _ran(self) -> set[Place]:
        """The iterations that it finished, but for one in which it was to end: coming to its end is another way than the record's."""
        ends_in = {self.stretch.last} if self.stretch.stop is not None else set()
        return set(self.seen.iterations) - ends_in


@dataclass(slots=True)
class Conducted:
    """How it went."""

    pieces: list[Piece]
    seconds: float
    interrupted: bool = False
    lost: list[str] = field(default_factory=list)
    """What was not run, and why; a sentence each."""
    notes: list[str] = field(default_factory=list)
    """What went otherwise than planned and did no harm."""
    output: str = ""
    """What the first worker that failed had printed."""
    shared: dict[Place, frozenset[Part]] = field(default_factory=dict)
    """Iterations that several stretches of the plan share, and in which parts."""

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Probes that raised, in program order; each place once."""
        found: dict[tuple[object, object], dict[str, Any]] = {}
        for piece in self.pieces:
            for fact in piece.seen.failed:
                found.setdefault((fact.get("file"), fact.get("line")), fact)
        return list(found.values())

    @property
    def covers(self) -> list[list[Any]]:
        parts = frozenset(part for piece in self.pieces for part in piece.parts)
        joined = sorted(place for place, wanted in self.shared.items() if wanted <= parts)
        return [*(one for piece in self.pieces for one in piece.covers), *(["iterations", *one] for one in scans.ranges(joined))]


def in_order(piece: Piece) -> tuple[Place, int, int]:
    """As the program runs; of an iteration that several share, the first part first."""
    start = piece.stretch.start
    step = start.step if start is not None and piece.begins_inside else -1
    return piece.stretch.first or (-1, -1), step, piece.unit.number


def come_to(pieces: list[Piece]) -> list[Piece]:
    """Of pieces in program order, those that a run with the statements comes to: up to the first in which one of them raises."""
    for at, piece in enumerate(pieces):
        if piece.seen.failed:
            return pieces[: at + 1]
    return pieces


def ranges_of(covers: list[list[Any]]) -> tuple[Range, ...]:
    """The iterations in a coverage as the planner has them."""
    return tuple((int(one[1]), int(one[2]), int(one[3])) for one in covers if one[0] == "iterations")
