"""The items of a nested loop, where they are plain data: the code that chose them runs again on the way to a place in the loop, finds a
later state, and may choose others (the hardest examples first, say).

Pure but for NumPy, which is used only if the program has it.
"""

from __future__ import annotations

import sys
from typing import Any

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


def as_they_were(iterable: Any, items: list[Any] | None) -> Any:
    """What a loop runs over: what it is given now, or if that holds others than it ran over, those."""
    if items is None or (now := of(iterable)) is None or now == items:
        return iterable
    kind, values = items
    if kind in ("list", "tuple"):
        return values if kind == "list" else tuple(values)
    return sys.modules["numpy"].array(values, dtype=kind)
