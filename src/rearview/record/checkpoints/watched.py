"""Memory of the program of which the kernel says whether it was written, so that nobody has to look at its bytes.

Buffers are watched by the whole pages in them: nothing else is on those. What stands on their first and last page, beside other memory, is
compared. Knows addresses and sizes, no states. Without a kernel that watches (`pages`) nothing is ever watched here.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rearview.record.checkpoints import pages, staging
from rearview.record.checkpoints.pages import PAGE, Span

SMALLEST = max(64 << 10, 16 * PAGE)
"""Below that it is sooner looked at."""
_GAP = 2 * PAGE
"""Between neighbours: watched with them. Each call costs as much as some hundred pages, and nothing that is watched is so small."""

Place = tuple[int, int]
"""An address and a size."""


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """A buffer that is watched from now on."""

    place: Place
    whole: Span
    head: bytes
    tail: bytes
    """Before its first whole page, and behind its last."""


class Watched:
    """All that is watched in this process."""

    def __init__(self) -> None:
        self._pages: pages.Pages | None = None
        self._asked = False
        self._copies: Copies | None = None
        self._live: dict[Watch, bool] = {}
        """Those that stand, and whether they were looked through for the copies that are watched as well."""

    def _kernel(self) -> pages.Pages | None:
        """Asked for when there is something to watch."""
        if not self._asked:
            self._asked = True
            self._pages = pages.here()
        return self._pages

    # -- for good ------------------------------------------------------------------------------------------------------

    def begin(self, places: Sequence[Place]) -> list[Watch | None]:
        """Watch buffers that nobody is expected to write to; None: one cannot be watched. What they hold is to be looked at afterwards."""
        kernel = self._kernel() if places else None
        if kernel is None:
            return [None] * len(places)
        whole = [_whole(place) for place in places]
        spans = _joined(whole)
        self._overtake(spans, list(self._live))
        watched = kernel.watch(spans)
        found = [
            _watch(place, span) if place[1] >= SMALLEST and _among(watched, span) else None
            for place, span in zip(places, whole, strict=True)
        ]
        self._live.update((watch, False) for watch in found if watch is not None)
        return found

    def unwritten(self, watches: Sequence[Watch]) -> list[bool]:
        """Of which of them nobody has written to since."""
        if self._pages is None or not watches:
            return [False] * len(watches)
        left = self._pages.unwritten(_joined([watch.whole for watch in watches]))
        return [
            watch in self._live and _among(left, watch.whole) and _ends(watch.place, watch.whole) == (watch.head, watch.tail)
            for watch in watches
        ]

    def _overtake(self, spans: Sequence[Span], live: Iterable[Watch]) -> None:
        """These are watched anew: what a watch of before has seen on them is forgotten. Its memory was freed, and is another's now."""
        for watch in live:
            if _overlaps(spans, watch.whole):
                del self._live[watch]

    # -- from a copy until a moment later ----------------------------------------------------------------------------------

    def copied(self, places: Sequence[Place], copies: Sequence[int]) -> bool:
        """Watch buffers that were copied just now, to these addresses, until it is asked about them. All of them are large enough. Whether
        there is a watch."""
        kernel = self._kernel() if places else None
        if kernel is None:
            return False
        now = self._copies
        if now is None or now.places != places or now.copies != copies:  # mostly they are those of the checkpoint before
            self._copies = now = Copies.of(places, copies)
            self._live = dict.fromkeys(self._live, False)
        new = [watch for watch, is_known in self._live.items() if not is_known]
        self._overtake(now.spans, new)
        self._live.update((watch, True) for watch in new if watch in self._live)
        now.watched = kernel.watch(now.spans)
        return True

    def unwritten_copied(self, still: Sequence[bool]) -> list[bool] | None:
        """Of which of them nobody has written to since they were copied, in their order; they are let go. None: nothing was watched.
        `still`: whether each is where it was; the memory of others may be gone, and is not touched."""
        now, kernel = self._copies, self._pages
        if now is None or kernel is None or not now.watched:
            return None
        watched, now.watched = now.watched, []
        left = kernel.unwritten(watched)
        kernel.let_go(watched)
        is_whole = left == now.spans
        alike = [is_there and (is_whole or _among(left, span)) for is_there, span in zip(still, now.whole, strict=True)]
        ends = [(number, end) for number, end in zip(now.of_end, now.ends, strict=True) if still[number]]
        for place in staging.unequal([end for _, end in ends]):
            alike[ends[place][0]] = False
        return alike

    def let_go(self) -> None:
        """Copied buffers that nobody asked about are written as if nobody looked."""
        if self._copies is not None and self._pages is not None and self._copies.watched:
            self._pages.let_go(self._copies.watched)
            self._copies.watched = []

    def end(self) -> None:
        """Nothing is watched any more. Asked again, it begins anew."""
        if self._pages is not None:
            self._pages.close()
        self._pages = self._copies = None
        self._asked = False
        self._live.clear()


@dataclass(slots=True)
class Copies:
    """Buffers and their copies, with what is to be asked and compared, worked out once."""

    places: Sequence[Place]
    copies: Sequence[int]
    whole: list[Span]
    spans: list[Span]
    ends: list[staging.Piece]
    """What is beside whole pages, and where its copy is."""
    of_end: list[int]
    """Of which buffer each of these is."""
    watched: list[Span]

    @classmethod
    def of(cls, places: Sequence[Place], copies: Sequence[int]) -> Copies:
        """Nothing is watched yet."""
        whole = [_whole(place) for place in places]
        ends, of_end = [], []
        for number, ((address, size), copy, (start, end)) in enumerate(zip(places, copies, whole, strict=True)):
            for first, last in (address, start), (end, address + size):
                if first < last:
                    ends.append((first, copy + first - address, last - first))
                    of_end.append(number)
        return cls(places, copies, whole, _joined(whole), ends, of_end, [])


def _whole(place: Place) -> Span:
    """The pages that belong to a buffer alone.

    >>> _whole((4000, 20_000))
    (4096, 20480)
    """
    address, size = place
    return -(-address // PAGE) * PAGE, (address + size) // PAGE * PAGE


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Neighbours together, in their order in memory.

    >>> _joined([(40960, 81920), (0, 32768), (122880, 163840)])
    [(0, 81920), (122880, 163840)]
    """
    joined: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start - joined[-1][1] <= _GAP:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _among(spans: Sequence[Span], span: Span) -> bool:
    """Whether one of these, which are in order, has all of it."""
    place = bisect.bisect_right(spans, span[0], key=_start) - 1
    return place >= 0 and span[1] <= spans[place][1]


def _overlaps(spans: Sequence[Span], span: Span) -> bool:
    """Whether one of these, which are in order, has a part of it."""
    place = bisect.bisect_left(spans, span[1], key=_start) - 1
    return place >= 0 and span[0] < spans[place][1]


def _start(span: Span) -> int:
    return span[0]


def _ends(place: Place, whole: Span) -> tuple[bytes, bytes]:
    address, size = place
    start, end = whole
    return ctypes.string_at(address, start - address), ctypes.string_at(end, address + size - end)


def _watch(place: Place, whole: Span) -> Watch:
    return Watch(place, whole, *_ends(place, whole))
