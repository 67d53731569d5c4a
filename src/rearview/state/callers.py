"""Variables of the functions that called the one with `checkpointing`, before any loop was gone through: plain data.

The code before the loops runs again when a run is resumed, and makes what they hold. It may make another one, if it asks the system for
randomness or the time. Objects are left to it: they are files and clients as often as state.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from rearview.state import frames as variables
from rearview.state.iterating.bars import is_only_shown
from rearview.state.take.walk import identity
from rearview.state.tree import CALLER, RootKey

_FIXED = frozenset((int, float, complex, str, bytes, bool, type(None)))
_MANY = (list, tuple, set, frozenset)
_MOST = 10_000
"""Of the items of containers: longer ones are left to the code."""


def roots_of(callers: Sequence[FrameType], held: Iterable[object]) -> Iterator[tuple[RootKey, object]]:
    """Their data, by name. `held`: what the state has anyway; it comes back into the same objects."""
    known = {identity(value) for value in held}
    for distance, frame in enumerate(callers):
        if variables.is_module(frame):
            continue
        for name, value in variables.variables(frame).items():
            if type(value) in _FIXED or (identity(value) not in known and _is_data(value) and not is_only_shown(frame, name)):
                yield (CALLER, distance, frame.f_code.co_qualname, name), value


def bind(callers: Sequence[FrameType], values: Mapping[RootKey, object]) -> None:
    """Give them the data that a restored state has for them: to the functions that had it, where they are."""
    for distance, frame in enumerate(callers):
        here = (CALLER, distance, frame.f_code.co_qualname)
        variables.assign(frame, {str(key[-1]): value for key, value in values.items() if key[:3] == here})


def _is_data(value: Any) -> bool:
    """Whether something is made of numbers and text only."""
    kind = type(value)
    if kind is dict:
        return len(value) <= _MOST and all(type(key) in _FIXED and _is_item(one) for key, one in list(value.items()))
    if kind in _MANY:
        return len(value) <= _MOST and all(_is_item(one) for one in list(value))
    return _is_array(value, kind)


def _is_item(value: Any) -> bool:
    return type(value) in _FIXED or _is_array(value, type(value))


def _is_array(value: Any, kind: type) -> bool:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and (kind is numpy.ndarray or issubclass(kind, numpy.generic)):
        return not value.dtype.hasobject
    return torch is not None and kind is torch.Tensor and not value.requires_grad
