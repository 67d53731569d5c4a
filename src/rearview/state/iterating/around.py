"""What the program put around a loop's iterator, brought on as far as the loop: `enumerate(rv.loop(...))`, `zip(rv.loop(...), labels)`.

A resumed loop begins at a later item; whoever counts along outside of it began anew. Such an iterator is found from below, through
the collector. Only what has a place of its own is touched: `enumerate` gets its number, the other iterators of a `zip` are advanced, as
many steps as the loop left out. Those that draw (loaders, generators) are not: their places are `taken` with the loop's, and `settle` puts
them back. A progress bar in between is looked through. To be called from inside the loop's `__next__`, before its next item is given.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType, GeneratorType
from typing import Any

from rearview.state import streams
from rearview.state.iterating import layers
from rearview.state.iterating.bars import is_of_a_bar

_WORD = ctypes.sizeof(ctypes.c_void_p)
_INDEX_AT, _INNER_AT = object.__basicsize__, object.__basicsize__ + _WORD
"""Where an `enumerate` object keeps its number and what it runs over; proved for each object before it is written to."""
_DEEPEST = 8
_BEFORE = "what stands before a loop in a zip begins anew where the program is resumed: put the loop first"
_DRAWING = ("loader", "generator")
"""Kinds of iterators that may draw when they are asked, and are put back in place."""


def taken(iterator: object) -> tuple[list[layers.Shape | None], list[str]]:
    """Where each iterator is that is zipped with this one and stands behind it; None for one that does not tell, or only counts. And a
    sentence, if one stands before it."""
    places = [_behind(thing, below) for thing, below in _outwards(iterator) if type(thing) is zip]
    shapes = [layers.describe(part) for _, behind in places for part in behind]
    found = [shape if shape is not None and shape["kind"] in _DRAWING else None for shape in shapes]
    return found, [_BEFORE] if any(at for at, _ in places) else []


def settle(iterator: object, shapes: Sequence[layers.Shape | None]) -> list[str]:
    """Put those back that were taken: after the program's state, before the random streams. What is inexact."""
    again = layers.Again()
    for part, shape in zip(_zipped(iterator), shapes, strict=False):
        if shape is not None:
            layers.restore(part, shape, again)
    return again.said


def bring_on(iterator: object, steps: int, shapes: Sequence[layers.Shape | None] = ()) -> list[str]:
    """Bring what is around an iterator on by as many steps, but what was taken; -1 takes one back. What could not be, a sentence each."""
    said: list[str] = []
    if steps == 0:
        return said
    others = zip(_zipped(iterator), shapes, strict=False) if shapes else ()
    left_alone = [part for part, shape in others if shape is not None]
    for thing, below in _outwards(iterator):
        said += _bring_on(thing, below, steps, left_alone)
    return said


def _outwards(iterator: object) -> Iterator[tuple[Any, list[object]]]:
    """What is around an iterator, and what is around that, each with what it was found by."""
    seen = {id(iterator)}
    below = [iterator, *_bars()]
    for _ in range(_DEEPEST):
        above = [thing for inner in below for thing in _around(inner) if id(thing) not in seen]
        seen.update(id(thing) for thing in above)
        for thing in above:
            yield thing, below
        below = above
        if not below:
            break


def _zipped(iterator: object) -> list[Any]:
    """The iterators that are zipped with this one, and stand behind it."""
    return [part for thing, below in _outwards(iterator) if type(thing) is zip for part in _behind(thing, below)[1]]


def _behind(thing: Any, below: list[object]) -> tuple[int, Sequence[Any]]:
    """The place of the loop in a zip, and what comes after it."""
    parts = _reduced(thing)[1]
    at = next((k for k, part in enumerate(parts) if any(part is one for one in below)), 0)
    return at, parts[at + 1 :]


def _bars() -> list[object]:
    """Generators of progress bars that are asking for an item now. While they do, the collector does not see what they run over."""
    frames: set[int] = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_of_a_bar(frame):
            frames.add(id(frame))
        frame = frame.f_back
    return [thing for thing in gc.get_objects() if type(thing) is GeneratorType and id(thing.gi_frame) in frames] if frames else []


def _around(inner: object) -> list[Any]:
    """The iterators that take their items from this one."""
    found: list[Any] = []
    for holder in gc.get_referrers(inner):
        if type(holder) in (enumerate, map, filter, itertools.islice):
            found.append(holder)
        elif type(holder) is tuple:  # in which zip and map keep what they run over
            found += [thing for thing in gc.get_referrers(holder) if type(thing) in (zip, map)]
    return found


def _bring_on(thing: Any, below: list[object], steps: int, left_alone: list[Any]) -> list[str]:
    if type(thing) is enumerate:
        return count_on(thing, steps)
    if type(thing) is zip:
        return _advance_others(thing, below, steps, left_alone)
    if type(thing) is itertools.islice:
        return ["an itertools.islice around a loop counts from where the program was resumed: put it inside, rv.loop(name, islice(...))"]
    return []


def count_on(thing: Any, steps: int) -> list[str]:
    """Set the number of an `enumerate`; a sentence if that cannot be."""
    inner, number = _reduced(thing)[1]
    address = id(thing)
    index = ctypes.c_ssize_t.from_address(address + _INDEX_AT)
    held = ctypes.c_void_p.from_address(address + _INNER_AT).value
    if held != id(inner) or index.value != number:
        return ["an enumerate around a loop counts from where the program was resumed: put it inside, rv.loop(name, enumerate(...))"]
    index.value = number + steps
    return []


def _advance_others(thing: Any, below: list[object], steps: int, left_alone: list[Any]) -> list[str]:
    """Advance what is zipped with the loop; it has to stand behind it, for what stands before it has given its item already."""
    if steps < 0:
        return ["what is zipped with a loop cannot go back a step: put it inside, rv.loop(name, zip(...))"]
    at, others = _behind(thing, below)
    before = streams.take()
    for other in others:
        if not any(other is one for one in left_alone):
            deque(itertools.islice(other, steps), maxlen=0)
    if streams.moved(before, streams.take()):
        return ["what is zipped with a loop draws at random, and may not give the same again: put it inside, rv.loop(name, zip(...))"]
    if at:
        return [_BEFORE]
    return []


def _reduced(thing: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iterators tell no more from 3.14 on
        return thing.__reduce__()
