"""Progress bars around what a loop runs over, `tqdm(loader)`, and around a loop, `tqdm(rv.loop(...))`. Known by their attributes and the
names of their libraries; nothing is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType
from typing import Any

from rearview.state.iterating import generators, layers

_LIBRARIES = ("tqdm", "rich", "fastprogress", "progressbar")
"""Their generators give on each item that they take."""
_COUNTS = {"tqdm": ("n",)}
"""The variable of such a generator that says how many there were."""


def is_of_a_bar(frame: FrameType) -> bool:
    """Whether a running function is the generator of a progress bar."""
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) and _library(frame) in _LIBRARIES


def is_only_shown(frame: FrameType, name: str) -> bool:
    """Whether a variable is one of a bar around a loop, and about what is shown, and when: no state of the program."""
    return is_of_a_bar(frame) and name not in _COUNTS.get(_library(frame), ())


def _library(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def is_bar(thing: Any) -> bool:
    """Whether this is a bar of tqdm around something."""
    of_tqdm = type(thing).__module__.startswith("tqdm") and hasattr(thing, "iterable")
    return of_tqdm and (hasattr(thing, "last_print_n") or getattr(thing, "disable", False) is True)  # one switched off has no counters


def within(bar: Any) -> Any:
    """What a bar runs over."""
    return bar.iterable.source if type(bar.iterable) is Ready else bar.iterable


def bar_iterator(bar: Any, iterator: Any) -> Any:
    """The iterator that a bar is in the middle of; None if it has none that tells where it is."""
    if type(bar.iterable) is Ready and bar.iterable.waiting is not None:  # put back, and nothing was taken from it since
        return bar.iterable.waiting
    if hasattr(type(bar.iterable), "__next__"):
        return bar.iterable
    if not generators.is_generator(iterator):
        return None
    held = generators.inside(iterator)
    return next((inner for inner in held if layers.describe(inner) is not None), None)


class Ready:
    """What a bar runs over, with an iterator that is already on its way. Afterwards it is what it was."""

    def __init__(self, iterator: Iterator[Any], source: Any) -> None:
        self.waiting: Iterator[Any] | None = iterator
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        iterator, self.waiting = self.waiting, None
        return iter(self.source) if iterator is None else iterator

    def __len__(self) -> int:
        return len(self.source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)
