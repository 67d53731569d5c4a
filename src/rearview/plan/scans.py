"""Which pieces of a run are run again for a question, from which checkpoints, and why (FlorDB section 5.2). Pure: values in, a plan out.

Restored is the state at the *start* of what runs. A nested block is put back instead of run exactly where its end state is kept and
nothing that is asked for happens inside it. One that is run may be shared: states inside it are where stretches end and begin. What was
not asked for runs only where it lies between a restore point and what was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rearview.plan import partition, parts
from rearview.plan.cost import NOTHING, Costs, Rates, Seconds
from rearview.plan.partition import Piece
from rearview.plan.stretches import (
    ANY_LOOP,
    PREFIX,
    PSEUDORESUME,
    RANGE,
    RESUME,
    RUNGS,
    START,
    SUFFIX,
    VALIDATION,
    Need,
    Part,
    Plan,
    Range,
    Scan,
    Stretch,
    ranges,
)
from rearview.plan.timeline import BLOCK, BREAK, ITERATION, Boundary, History, Place, Segment

__all__ = [
    "ANY_LOOP", "PREFIX", "PSEUDORESUME", "RANGE", "RESUME", "RUNGS", "START", "SUFFIX", "VALIDATION", "Need", "Part", "Plan", "Range",
    "Scan", "Stretch", "plan", "ranges",
]  # fmt: skip


def plan(history: History, need: Need, workers: int = 1, rung: str = RESUME, rates: Rates | None = None) -> Plan:
    """What runs again for a need, by at most so many workers, on a rung of the ladder."""
    return _Planning(history, need, rung, rates or Rates()).plan(workers)


@dataclass(slots=True)
class _Row:
    """Segments that run one after the other: at the first of them something can begin."""

    first: int
    last: int


@dataclass(slots=True)
class _Planning:
    history: History
    need: Need
    rung: str
    rates: Rates
    segments: list[Segment] = field(init=False)
    unreached: list[Segment] = field(init=False)
    """Of a run that went on from another's state: what comes before the first state that something can begin with."""
    needed: list[bool] = field(init=False)
    by_place: dict[Place, list[int]] = field(init=False)
    """The segments of each iteration: one, or its parts."""
    begins: list[int] = field(init=False)
    """For each segment the nearest one, not behind it, at which something can begin."""
    costs: Costs = field(init=False)

    def __post_init__(self) -> None:
        self.segments, self.unreached = self.history.segments(), []
        if self.rung == RESUME:
            self.segments = parts.split(
                self.history, self.need, self.segments, lambda segment: self._put_back(segment) is None, self._may_be_used
            )
        if self.history.went_on:
            known = next((at for at in range(len(self.segments)) if self._start(at) is not None), len(self.segments))
            self.unreached, self.segments = self.segments[:known], self.segments[known:]
        self.by_place = {}
        for at, segment in enumerate(self.segments):
            if segment.place is not None:
                self.by_place.setdefault(segment.place, []).append(at)
        self.costs = Costs(self.history, self.rates)
        self.needed = [self._needs(segment) for segment in self.segments]
        for at in range(len(self.segments) - 1, -1, -1):
            if self.needed[at] and self._is_between(at):  # a stretch ends with an iteration: the next one runs too, if there is one
                following = at + 1 < len(self.segments) and self.segments[at + 1]
                if following and following.iteration is not None:
                    self.needed[at + 1] = True
                else:
                    self.needed[at] = bool(following) and self.needed[at + 1]
        self.begins = []
        for at in range(len(self.segments)):
            self.begins.append(at if at == 0 or self._start(at) is not None else self.begins[-1])

    def plan(self, workers: int) -> Plan:
        rows = self._rows()
        shared = partition.partition([self._pieces(row) for row in rows], workers if self.rung == RESUME else 1)
        shares = [(rows[one.row].first + one.first, rows[one.row].first + one.last) for one in shared.shares]
        stretches = [self._stretch(*self._trimmed(first, last)) for first, last in shares]
        bounded = bool(self.history.blocks) or not self.history.killed or bool(self.history.cut)
        if (bounded and self.need.wants_prefix) or (stretches and not self.history.blocks):
            head = stretches[0] if stretches else self._timed(Stretch(skip=self._skips, runs_inside=self._inside), [])
            stretches[:1] = [replace(head, prefix=True)]
        seconds = self._together(stretches, shared)
        return Plan(
            self.rung, tuple(stretches), tuple(self._scans()), max(shared.workers, 1 if stretches else 0), seconds, self.history.plain_s,
            tuple(self._left_out()),
        )  # fmt: skip

    # -- what is needed ------------------------------------------------------------------------------------------------

    def _needs(self, segment: Segment) -> bool:
        need, blocks = self.need, len(self.history.blocks)
        if segment.iteration is not None:
            return need.wants(segment.block, segment.iteration) and parts.needs(need, segment)
        if segment.block == blocks - 1:
            unseen = not blocks and not need.end_answered  # without main blocks what came to the end ran everything
            return need.wants_end or (unseen and (need.wants_prefix or need.wants(0, 0)))
        # Between two main blocks: behind the one, before the other.
        return need.wants_end or need.wants_prefix

    def _is_between(self, at: int) -> bool:
        return self.segments[at].iteration is None and self.segments[at].block < len(self.history.blocks) - 1

    def _rows(self) -> list[_Row]:
        rows: list[_Row] = []
        for at, needed in enumerate(self.needed):
            if not needed:
                continue
            begin = self.begins[at]
            if rows and (begin <= rows[-1].last + 1 or not self._worth_a_process(rows[-1].last + 1, begin)):
                rows[-1].last = at
            else:
                rows.append(_Row(begin, at))
        return rows

    def _worth_a_process(self, behind: int, begin: int) -> bool:
        """Whether beginning anew is cheaper than running what nobody asked for, between two places that somebody did."""
        between = sum(self._segment_s(at) for at in range(behind, begin))
        return between > self.costs.begin_s(self._start(begin))

    # -- where something can begin -------------------------------------------------------------------------------------

    @property
    def _skips(self) -> bool:
        return self.rung != START and ANY_LOOP not in self.need.inside

    @property
    def _inside(self) -> tuple[str, ...]:
        return () if ANY_LOOP in self.need.inside else tuple(sorted(self.need.nested))

    def _start(self, at: int) -> Boundary | None:
        """The state that a stretch which begins with a segment begins with; None: nothing is kept there (or it is the beginning)."""
        if self.rung != RESUME:
            return None
        segment = self.segments[at]
        if segment.since is not None:
            return segment.since
        before = segment.block, (self._last_of(segment.block) if segment.iteration is None else segment.iteration - 1)
        found = self._usable(ITERATION, *before)
        if found is not None and (segment.iteration is None or found.ending != BREAK):
            return found
        return self._late(at)

    def _late(self, at: int) -> Boundary | None:
        """The end of an iteration's nested block, where nothing that happens before it is asked for."""
        segment = self.segments[at]
        if segment.iteration is None or self.need.before or self.need.whole:
            return None
        return self._skipped(at)

    def _last_of(self, block: int) -> int:
        return self.history.blocks[block].iterations - 1 if 0 <= block < len(self.history.blocks) else -1

    def _usable(self, part: str, block: int, iteration: int) -> Boundary | None:
        found = self.history.boundary(part, block, iteration)
        return found if found is not None and found.restorable and self._may_be_used(found) else None

    def _may_be_used(self, boundary: Boundary) -> bool:
        return boundary.name not in self.need.lacking and boundary.name not in self.need.lost

    def _skipped(self, at: int) -> Boundary | None:
        """The end state that is put back instead of running the first nested block of an iteration."""
        return self._put_back(self.segments[at])

    def _put_back(self, segment: Segment) -> Boundary | None:
        if segment.iteration is None or not self._skips:
            return None
        found = self._usable(BLOCK, segment.block, segment.iteration)
        return found if found is not None and not self.need.goes_into(found.loop) else None

    # -- what it costs -------------------------------------------------------------------------------------------------

    def _segment_s(self, at: int) -> float:
        return self.costs.segment_s(self.segments[at], self._skipped(at))

    def _pieces(self, row: _Row) -> list[Piece]:
        pieces = []
        for at in range(row.first, row.last + 1):
            start, late = self._start(at), self._late(at)
            can = start is not None or at == row.first
            first_s = self.costs.segment_s(self.segments[at], None, late=True) if start is not None and start is late else None
            pieces.append(Piece(self._segment_s(at), self.costs.begin_s(start) if can else None, first_s))
        return pieces

    def _timed(self, stretch: Stretch, ats: Sequence[int]) -> Stretch:
        late = stretch.start is not None and stretch.start.part == BLOCK
        seconds = self.costs.begin_s(stretch.start) + sum(
            self.costs.segment_s(self.segments[at], self._skipped(at), late=late and at == ats[0]) for at in ats
        )
        ran = [(self.segments[at], self._skipped(at) is not None) for at in ats]
        return replace(stretch, seconds=self.costs.interval(seconds, ran))

    def _together(self, stretches: Sequence[Stretch], shared: partition.Partition) -> Seconds:
        """Until the last worker is done: as its shares are packed, with the interval of the largest."""
        if not stretches:
            return NOTHING
        largest = max((stretch.seconds for stretch in stretches), key=lambda seconds: seconds.expected)
        rounds = shared.seconds / shared.largest_s if shared.largest_s else 1.0
        return largest.scaled(max(1.0, rounds))

    # -- the stretches -------------------------------------------------------------------------------------------------

    def _trimmed(self, first: int, last: int) -> tuple[int, int]:
        """A share without what nobody asked for at its ends."""
        wanted = [at for at in range(first, last + 1) if self.needed[at]]
        if not wanted:
            return first, last
        begin = self.begins[wanted[0]]
        return max(first, begin), wanted[-1]

    def _stretch(self, first: int, last: int) -> Stretch:
        ats = range(first, last + 1)
        start = self._start(first)
        places = list(dict.fromkeys(place for at in ats if (place := self.segments[at].place) is not None))
        whole, shared = self._shared(ats, places)
        end = self.segments[last]
        put_back = sum(self._skipped(at) is not None for at in ats)
        skips = self._skips and not any(self._lacks(at) for at in ats)
        stretch = Stretch(
            start, places[0] if places else None, places[-1] if places else None,
            to_end=end.iteration is None and end.block == len(self.history.blocks) - 1,
            until=self.history.stops_in(end), skip=skips, runs_inside=self._inside, put_back=put_back if skips else 0,
            must_run=tuple(dict.fromkeys(place for at in ats if (place := self._must_run(at)) is not None)), covers=ranges(whole),
            stop=end.until, parts=shared,
        )  # fmt: skip
        return self._timed(stretch, ats)

    def _shared(self, ats: range, places: Sequence[Place]) -> tuple[list[Place], tuple[Part, ...]]:
        """The iterations of which a stretch runs all that is asked for (or all of it, if nothing is), and its parts of the others."""
        whole: list[Place] = []
        shared: list[Part] = []
        for place in places:
            mine = self.by_place[place]
            asked = [at for at in mine if self.needed[at]]
            if all(at in ats for at in asked or mine):
                whole.append(place)
            else:
                shared += [parts.named(self.segments[at]) for at in asked if at in ats]
        return whole, tuple(shared)

    def _lacks(self, at: int) -> bool:
        """Whether an end state is kept that must not be put back, because it lacks what a statement reads."""
        place = self.segments[at].place
        found = None if place is None else self.history.boundary(BLOCK, *place)
        return found is not None and found.name in self.need.lacking

    def _must_run(self, at: int) -> Place | None:
        segment = self.segments[at]
        if segment.iteration is None or self._skipped(at) is not None or not self._skips:
            return None
        block = self.history.blocks[segment.block]
        known = self.history.boundary(BLOCK, segment.block, segment.iteration)
        if self.need.inside and (known is None or self.need.goes_into(known.loop)):
            return None  # it runs because something in it is asked for
        return segment.place if block.nested_s[segment.iteration] > 0 else None

    # -- in words ------------------------------------------------------------------------------------------------------

    def _scans(self) -> list[Scan]:
        need, found = self.need, []
        if need.proof:
            return [Scan(RANGE, "everything that was logged and kept is compared")]
        into = any(self.needed[at] and self.segments[at].iteration is not None for at in range(len(self.segments)))
        if need.wants_prefix:
            found.append(Scan(PREFIX, "it may run before the main loop" if need.whole else "a statement is before the main loop"))
        if into and need.inside:
            loops = ", ".join(sorted(need.nested))
            why = "it may run anywhere in the main loop" if ANY_LOOP in need.inside else f"a statement is inside the nested loop {loops}"
            found.append(Scan(RANGE, why))
        elif into and self.rung == START:
            found.append(Scan(RANGE, "everything is run once more, from the start"))
        elif into and need.in_iterations:
            found.append(Scan(VALIDATION, "a statement is in the main loop, outside its nested loops"))
        if any(self.needed[at] and self.segments[at].iteration is None for at in range(len(self.segments))):
            why = "it may run after the main loop" if need.whole else "a statement is after the main loop"
            unknown = "where its loops are is not known: there are no checkpoints"
            found.append(Scan(SUFFIX, why if self.history.blocks else unknown))
        return found

    def _left_out(self) -> list[str]:
        said = []
        history, need = self.history, self.need
        if any(self._needs(segment) for segment in self.unreached) or (history.went_on and not self.segments):
            said.append(f"the run went on from {history.went_on}, and what it did before a state that this can begin with is left out")
        number = len(history.blocks) - 1
        if history.is_cut(number):
            last = history.blocks[number].iterations - 1
            what = "what comes after its last record" if history.cut else "it has no record, and"
            if need.wants(number, last):
                said.append(f"{history.blocks[number].name}#{last} was cut short when the run was killed: {what} is left out")
            if need.wants_end and not need.whole:
                said.append("the run was killed: it never came to what is after the main loop")
        elif history.killed and not history.cut:
            known = "nothing was logged after the main loop" if history.blocks else "nothing was logged"
            said.append(f"the run was killed, and {known}: how far it came there is not known, and it is left out")
        return said
