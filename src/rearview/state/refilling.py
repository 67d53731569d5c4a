"""Putting values back once more: bringing a generator to its place runs code of the program, which may write to what was put back.

Whoever puts a state back says here how to do it again; whoever ran such code asks for it, before anything else is read from the state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

_ways: list[Callable[[], object]] = []


@contextlib.contextmanager
def by(again: Callable[[], object]) -> Iterator[None]:
    """Meanwhile, values are put back by this."""
    _ways.append(again)
    try:
        yield
    finally:
        _ways.pop()


def code_ran() -> None:
    """Code of the program ran that may have written to what was put back."""
    if _ways:
        _ways[-1]()
