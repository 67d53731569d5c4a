"""An iteration of a main loop in parts: where states inside its nested loop are kept, one stretch can end and another begin. Pure.

Exact is that only where the way to the state is: the program runs from the beginning of the iteration to its nested loop before the
state is put back, so the state that the iteration began with must be there too, or be the program's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from rearview.plan.stretches import Need, Part
from rearview.plan.timeline import ITERATION, Boundary, History, Place, Segment

Usable = Callable[[Boundary], bool]


def split(history: History, need: Need, segments: Sequence[Segment], runs: Callable[[Segment], bool], usable: Usable) -> list[Segment]:
    """The segments, with the iterations that can be cut in parts; `runs`: whether the nested block of one is run at all."""
    if need.unparted or (need.whole and not need.proof):  # a statement that may run anywhere may run where loaders work ahead
        return list(segments)
    return [part for segment in segments for part in _parts(history, segment, runs, usable)]


def _parts(history: History, segment: Segment, runs: Callable[[Segment], bool], usable: Usable) -> Iterator[Segment]:
    place = segment.place
    inside = history.inside.get(place, ()) if place is not None else ()
    if place is None or not inside or not runs(segment) or not _way_is_exact(history, place, usable):
        yield segment
        return
    cuts = [None, *filter(usable, inside), None]
    for since, until in pairwise(cuts):
        yield Segment(*place, since, until)


def _way_is_exact(history: History, place: Place, usable: Usable) -> bool:
    block, iteration = place
    if iteration == 0:
        return block == 0
    before = history.boundary(ITERATION, block, iteration - 1)
    return before is not None and before.restorable and usable(before)


def needs(need: Need, segment: Segment) -> bool:
    """Whether a part of an iteration that is wanted has something in it that is asked for.

    States inside are of the first nested loop: what is before it is in the first part, everything behind it in the last.
    """
    known = segment.since or segment.until
    if known is None or need.goes_into(known.loop):
        return True
    return (segment.since is None and need.before) or (segment.until is None and (need.after or bool(need.nested)))


def named(segment: Segment) -> Part:
    """A part by its numbers."""
    assert segment.iteration is not None
    since, until = (-1 if one is None else one.step for one in (segment.since, segment.until))
    return segment.block, segment.iteration, since, until
