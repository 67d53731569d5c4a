"""The items of a nested loop: the code that chose them runs again on the way to a place in the loop, finds a later state, and may choose
others (the hardest examples first, say). Kept are plain data, and in which order it were objects that the state holds anyway.

Pure but for NumPy, which is used only if the program has it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rearview.state.tree import BESIDE

KIND = BESIDE[2]
"""Of the roots for objects that nested loops run over, by depth."""

_FIXED = frozenset((int, float, bool, type(None)))
_TEXTS = frozenset((str, bytes))
_MOST = 20_000
"""Numbers, and characters of texts; what has more is left to the code."""
_KINDS = "biuf"
"""Of NumPy's dtypes."""


def of(iterable: Any) -> list[Any] | None:
    """What a list, a tuple or an array of one dimension holds, as plain data; None for anything else."""
    kind = type(iterable)
    if kind in (list, tuple):
        return [kind.__name__, list(iterable)] if len(iterable) <= _MOST and _is_plain(iterable) else None
    numpy = sys.modules.get("numpy")
    if numpy is None or kind is not numpy.ndarray or iterable.ndim != 1 or len(iterable) > _MOST or iterable.dtype.kind not in _KINDS:
        return None
    return [iterable.dtype.str, iterable.tolist()]


def objects(iterable: Any) -> Sequence[Any] | None:
    """What a list or a tuple holds, where that is no plain data."""
    return iterable if type(iterable) in (list, tuple) and 0 < len(iterable) <= _MOST and of(iterable) is None else None


def _is_plain(values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether there are numbers and texts only, also in tuples, and not many: nobody changes these."""
    left, pending = _MOST, list(values)
    while pending and left >= 0:
        value = pending.pop()
        kind = type(value)
        if kind in _TEXTS:
            left -= len(value)
        elif kind is tuple:
            pending += value
        elif kind not in _FIXED:
            return False
        left -= 1
    return left >= 0


def as_they_were(iterable: Any, items: list[Any] | None, known: Sequence[Any] | None = None) -> Any:
    """What a loop runs over: what it is given now, or if that holds others than it ran over, those. `known`: those that are objects."""
    if known is not None and (given := objects(iterable)) is not None:
        return iterable if _same(tuple(given), tuple(known)) else type(iterable)(known)
    if items is None or (now := of(iterable)) is None or now == items:
        return iterable
    kind, values = items
    if kind in ("list", "tuple"):
        return values if kind == "list" else tuple(values)
    return sys.modules["numpy"].array(values, dtype=kind)


def _same(one: Any, other: Any) -> bool:
    """Whether it is the same objects."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is tuple:
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) in _FIXED | _TEXTS and bool(one == other)
