"""Progress bars around what a loop runs over: `tqdm(loader)`. Known by their attributes; nothing is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rearview.state.iterating import generators, layers


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
