"""Sharing what must run among workers: each share begins where something can begin, and the largest share is as small as can be. Pure.

Flor's section 5.4: with g pieces of equal cost, k workers need the time of ceil(g / k) of them: 200 epochs on 16 take 13, which is
15.38 x and not 16 x.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

_ENOUGH = 1.02
"""A worker more is taken only if it makes the whole so much faster."""
_STEPS = 60


@dataclass(frozen=True, slots=True)
class Piece:
    """What runs next, and what beginning a share with it costs."""

    seconds: float
    begin_s: float | None = None
    """None: no share can begin here."""
    first_s: float | None = None
    """What the piece itself takes as the first one of a share, if that differs."""


@dataclass(frozen=True, slots=True)
class Share:
    """A row of pieces that one process runs: those of `row` from `first` to `last`, both included."""

    row: int
    first: int
    last: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Partition:
    """Shares in the order of the program."""

    shares: tuple[Share, ...]
    workers: int
    seconds: float
    """Until the last worker is done."""

    @property
    def total_s(self) -> float:
        """Of all shares, one after the other."""
        return sum(share.seconds for share in self.shares)

    @property
    def largest_s(self) -> float:
        return max((share.seconds for share in self.shares), default=0.0)


def makespan(seconds: Sequence[float], workers: int) -> float:
    """How long whole pieces of work take on so many workers, the longest begun first.

    >>> makespan([3, 3, 2, 2, 2], 2)
    7
    """
    ends = [0.0] * max(1, workers)
    for one in sorted(seconds, reverse=True):
        heapq.heapreplace(ends, ends[0] + one)
    return max(ends)


def speedup(total_s: float, largest_s: float) -> float:
    """How much faster than one after the other.

    >>> round(speedup(200.0, 13.0), 2)
    15.38
    """
    return total_s / largest_s if largest_s else 1.0


def partition(rows: Sequence[Sequence[Piece]], workers: int) -> Partition:
    """Share rows of pieces among at most so many workers. The first piece of each row begins a share."""
    rows = [row for row in rows if row]
    if not rows:
        return Partition((), 0, 0.0)
    best = _best(rows, max(1, workers))
    least = sum(piece.seconds for row in rows for piece in row[1:])
    for fewer in range(1, best.workers):
        if least / fewer <= best.seconds * _ENOUGH:
            found = _best(rows, fewer)
            if found.seconds <= best.seconds * _ENOUGH:
                return found
    return best


def _best(rows: Sequence[Sequence[Piece]], workers: int) -> Partition:
    whole = [_share(row, number, 0, len(row) - 1) for number, row in enumerate(rows)]
    best = _packed(whole, workers)
    if workers == 1:
        return best
    low, high = max(best.total_s / workers / 2, 0.0), best.seconds
    for _ in range(_STEPS):
        middle = (low + high) / 2
        found = _packed(_cut(rows, middle), workers)
        if found.seconds <= middle * (1 + 1e-12):
            best, high = (found if found.seconds < best.seconds else best), middle
        else:
            low = middle
        if high - low <= 1e-9 * high:
            break
    return best


def _cut(rows: Sequence[Sequence[Piece]], limit_s: float) -> list[Share]:
    """Shares none of which is larger than the limit, where that can be: each goes on as far as it may."""
    shares = []
    for number, row in enumerate(rows):
        first = 0
        while first < len(row):
            last = _reach(row, first, limit_s)
            shares.append(_share(row, number, first, last))
            first = last + 1
    return shares


def _reach(row: Sequence[Piece], first: int, limit_s: float) -> int:
    """The last piece of a share that begins at `first`: behind it another share can begin, or the row ends."""
    seconds = _begun(row[first])
    good: int | None = None
    for at in range(first, len(row)):
        seconds += row[at].seconds if at > first else 0.0
        if at + 1 == len(row) or row[at + 1].begin_s is not None:
            if seconds > limit_s and good is not None:
                return good
            good = at
            if seconds > limit_s:
                return good
    assert good is not None
    return good


def _begun(piece: Piece) -> float:
    return (piece.begin_s or 0.0) + (piece.seconds if piece.first_s is None else piece.first_s)


def _share(row: Sequence[Piece], number: int, first: int, last: int) -> Share:
    return Share(number, first, last, _begun(row[first]) + sum(piece.seconds for piece in row[first + 1 : last + 1]))


def _packed(shares: Sequence[Share], workers: int) -> Partition:
    """When so many workers are done with these shares, the longest first."""
    loads = [0.0] * min(workers, len(shares))
    for share in sorted(shares, key=lambda one: -one.seconds):
        heapq.heappush(loads, heapq.heappop(loads) + share.seconds)
    return Partition(tuple(shares), len(loads), max(loads, default=0.0))
