"""In what order checkpoints go when bytes must: moments in, an order out. Pure; it does not know what a checkpoint holds.

Dropping one leaves a gap, the time from the moment before it to the moment after it (before the first: from the start of the
run), which a later question would have to run again. The smallest gap goes first, so that what is left stays evenly spread.
A gap in an older run counts less: in the newest run whole, in the next half, then a third, and so on.

Gaps only grow as moments go: each one taken leaves at least the (weighted) gap of the one taken before it. The order does not
depend on how far it is followed, so a smaller budget keeps a subset of what a larger one keeps.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """The moments of one run that have a checkpoint, oldest first. The last one never goes."""

    began: float
    times: Sequence[float]
    fixed: Sequence[bool]
    """Those that must stay."""


@dataclass(frozen=True, slots=True)
class Step:
    """One moment that goes: of which row, the how-many-th there, and the gap it leaves."""

    row: int
    place: int
    gap_s: float


def order(rows: Sequence[Row]) -> Iterator[Step]:
    """The moments in the order they go; `rows` are runs, the newest first."""
    line = _Line(rows)
    while (step := line.next()) is not None:
        yield step


def weight(rank: int) -> float:
    """What a second of gap counts in the run that is the `rank`-th newest, from 0.

    >>> [round(weight(rank), 2) for rank in range(4)]
    [1.0, 0.5, 0.33, 0.25]
    """
    return 1.0 / (1 + rank)


class _Line:
    """All rows as linked lists in one heap; an entry that no longer fits its neighbours is passed over."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.times = [_rising(row) for row in rows]
        self.before = [list(range(-1, len(row.times) - 1)) for row in rows]
        self.after = [list(range(1, len(row.times) + 1)) for row in rows]
        self.gone: set[tuple[int, int]] = set()
        places = [(k, place) for k, row in enumerate(rows) for place in range(len(row.times))]
        self.heap = [(self._gap(k, place) * weight(k), k, place) for k, place in places if self._may_go(k, place)]
        heapq.heapify(self.heap)

    def _may_go(self, row: int, place: int) -> bool:
        return place >= 0 and self.after[row][place] < len(self.times[row]) and not self.rows[row].fixed[place]

    def _gap(self, row: int, place: int) -> float:
        times, before = self.times[row], self.before[row][place]
        since = times[before] if before >= 0 else min(self.rows[row].began, times[place])
        return times[self.after[row][place]] - since

    def next(self) -> Step | None:
        while self.heap:
            weighted, row, place = heapq.heappop(self.heap)
            if (row, place) in self.gone:
                continue
            gap = self._gap(row, place)
            if gap * weight(row) != weighted:
                continue  # a neighbour has gone meanwhile: a newer entry says how it stands
            self.gone.add((row, place))
            before, after = self.before[row][place], self.after[row][place]
            self.before[row][after] = before
            if before >= 0:
                self.after[row][before] = after
            for neighbour in (before, after):
                if self._may_go(row, neighbour):
                    heapq.heappush(self.heap, (self._gap(row, neighbour) * weight(row), row, neighbour))
            return Step(row, place, gap)
        return None


def _rising(row: Row) -> list[float]:
    """Clocks are set back; a gap is never negative."""
    times: list[float] = []
    for time in row.times:
        times.append(max(time, times[-1]) if times else time)
    return times
