"""What a stretch will take: process start, code before the loop, restores, what runs, and the comparison with the record. Pure.

FlorDB section 5.2 sums the recorded times of what runs; here also what replays really took is learned from: seconds per byte of putting a
state back and of digesting one, the pace of the program, and how far predictions were off.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rearview.plan.timeline import BLOCK, INSIDE, ITERATION, Boundary, History, Segment

_UNSURE = 0.10
"""How far a prediction may be off before any replay of the run is known: part of it, to either side."""
_GUESSED = 0.35
"""The same where the times of iterations were not measured."""
_FEW = 3
"""Replays that say little about the next one."""
_SPREAD = 1.645
"""Standard deviations to either side that nine of ten sums of iterations stay within."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What a replay adds to the program's own time."""

    worker_s: float = 0.3
    """To become a worker and to end: private folder, recorded code, what is kept looked up."""
    restore_s: float = 0.02
    restore_s_per_byte: float = 1 / 1.0e9
    """Before the first iteration."""
    put_back_s: float = 0.01
    put_back_s_per_byte: float = 1 / 1.0e9
    """The end state of a nested block, in its place."""
    digest_s: float = 0.003
    digest_s_per_byte: float = 1 / 2.0e9
    """Of the state at a boundary, for the comparison."""
    pace: float = 1.0
    """What an iteration takes here, as a part of what it took when it was recorded: the machine, and the statement that is asked."""
    ratios: tuple[float, ...] = ()
    """What earlier replays of the run took, as a part of what was predicted."""

    def restoring(self, boundary: Boundary | None) -> float:
        return 0.0 if boundary is None else self.restore_s + boundary.size_bytes * self.restore_s_per_byte

    def putting_back(self, boundary: Boundary) -> float:
        return self.put_back_s + boundary.size_bytes * self.put_back_s_per_byte

    def digesting(self, boundary: Boundary | None) -> float:
        return 0.0 if boundary is None else self.digest_s + boundary.size_bytes * self.digest_s_per_byte


FREE = Rates(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Only the program's own time: for comparing plans as data."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """A predicted time and the interval that it should be in."""

    expected: float
    low: float
    high: float

    def scaled(self, factor: float) -> Seconds:
        return Seconds(self.expected * factor, self.low * factor, self.high * factor)


NOTHING = Seconds(0.0, 0.0, 0.0)


def learn(facts: Iterable[tuple[str, int, float]], ratios: Sequence[float] = (), known: Rates | None = None) -> Rates:
    """Rates from what was measured: (`restore`, `put_back`, `digest` or `worker`; bytes; seconds), (`pace`, 0, ratio)."""
    known = known or Rates()
    by_kind: dict[str, list[tuple[int, float]]] = {}
    for kind, size, seconds in facts:
        by_kind.setdefault(kind, []).append((size, seconds))
    restore = _line(by_kind.get("restore", ()), known.restore_s, known.restore_s_per_byte)
    put_back = _line(by_kind.get("put_back", ()), known.put_back_s, known.put_back_s_per_byte)
    digest = _line(by_kind.get("digest", ()), known.digest_s, known.digest_s_per_byte)
    worker = [seconds for _, seconds in by_kind.get("worker", ())]
    pace = [ratio for _, ratio in by_kind.get("pace", ()) if 0.1 < ratio < 10.0]
    return Rates(
        statistics.median(worker) if worker else known.worker_s, *restore, *put_back, *digest,
        statistics.median(pace) if pace else known.pace, tuple(ratio for ratio in ratios if 0.5 < ratio < 2.0),
    )  # fmt: skip


def _line(points: Iterable[tuple[int, float]], fixed: float, per_byte: float) -> tuple[float, float]:
    """Seconds = fixed + bytes * rate, by the typical measurement: states of a run are of nearly one size."""
    points = list(points)
    if not points:
        return fixed, per_byte
    size = statistics.median(size for size, _ in points)
    seconds = statistics.median(seconds for _, seconds in points)
    guessed = fixed + size * per_byte
    return fixed * seconds / guessed, per_byte * seconds / guessed


class Costs:
    """The seconds of each piece of one run's replay."""

    def __init__(self, history: History, rates: Rates) -> None:
        self._history = history
        self._rates = rates
        self._outer = [block.outer_s for block in history.blocks]
        self._variances = [(_variance(outer), _variance(block.total_s)) for outer, block in zip(self._outer, history.blocks, strict=True)]
        """Of each block: of its outer bodies, and of its whole iterations."""

    def begin_s(self, start: Boundary | None) -> float:
        """From the start of a process to the first segment that counts: all code outside the main loops on the way runs again."""
        history = self._history
        passed = 0 if start is None else start.block
        gaps = sum(block.gap_s for block in history.blocks[1 : passed + 1])
        own = history.start_s + history.prefix_s + gaps
        began = history.boundary(ITERATION, start.block, start.iteration - 1) if start is not None and start.part == INSIDE else None
        return own + self._rates.worker_s + self._rates.restoring(start) + self._rates.restoring(began)

    def segment_s(self, segment: Segment, skipped: Boundary | None, late: bool = False) -> float:
        """One segment; `skipped` is the nested block's end state if that is put back, `late` if the stretch began with it."""
        history, rates = self._history, self._rates
        if segment.iteration is None:
            following = segment.block + 1
            return history.blocks[following].gap_s if following < len(history.blocks) else history.suffix_s
        block, outer, at = history.blocks[segment.block], self._outer[segment.block], segment.iteration
        if segment.until is not None:
            return self._share(segment) * block.total_s[at] * rates.pace + rates.digesting(segment.until)
        end = rates.digesting(history.boundary(ITERATION, segment.block, at))
        if late:
            return outer[at] * rates.pace + end
        if skipped is not None:
            return outer[at] * rates.pace + rates.putting_back(skipped) + end
        ran_s = self._share(segment) * block.total_s[at] * rates.pace
        return ran_s + rates.digesting(history.boundary(BLOCK, segment.block, at)) + end

    def _share(self, segment: Segment) -> float:
        """How much of its iteration a segment is."""
        if segment.iteration is None or not segment.is_part:
            return 1.0
        whole_s = self._history.blocks[segment.block].total_s[segment.iteration]
        since_s = 0.0 if segment.since is None else min(segment.since.ran_s, whole_s)
        until_s = whole_s if segment.until is None else min(segment.until.ran_s, whole_s)
        return max(0.0, until_s - since_s) / whole_s if whole_s > 0 else 0.0

    def interval(self, seconds: float, ran: Sequence[tuple[Segment, bool]]) -> Seconds:
        """A prediction with its interval: the spread of the iterations that run, and how far earlier predictions were off."""
        spread = _SPREAD * math.sqrt(sum(self._variance(segment, skipped) for segment, skipped in ran))
        ratios = (1.0, *self._rates.ratios)  # what these replays taught is in the rates: how far they were off says how sure this is
        if len(ratios) <= _FEW:
            unsure = _UNSURE if self._history.measured else _GUESSED
            ratios += 1.0 - unsure, 1.0 + unsure
        return Seconds(seconds, max(0.0, seconds * min(ratios) - spread), seconds * max(ratios) + spread)

    def _variance(self, segment: Segment, skipped: bool) -> float:
        if segment.iteration is None or not 0 <= segment.block < len(self._history.blocks):
            return 0.0
        outer, whole = self._variances[segment.block]
        return outer if skipped else whole * self._share(segment)


def _variance(times: tuple[float, ...]) -> float:
    # The first iteration warms up caches and allocators: it would widen every interval.
    steady = times[1:] if len(times) > 2 else times
    return statistics.pvariance(steady) if len(steady) > 1 else 0.0
