"""Arguments as they are now: what a call made later gets to see is what was there when it was asked for.

Tensors, arrays and what can be changed are copied, what cannot be changed is passed as it is. Knows torch and NumPy only if the
program loaded them. What cannot be copied (a generator, a file, a figure) is said by `Uncopyable`, and its call is made at once.
"""

from __future__ import annotations

import collections
import copy
import enum
import sys
import types
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

PLAIN = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, range, type, type(...), type(NotImplemented),
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.MethodWrapperType,
    }
)  # fmt: skip
"""Types whose values cannot change, or are code."""

_ITEM_BYTES = 32
"""What an element of a container is reckoned at."""


class Uncopyable(Exception):
    """An argument that cannot be kept as it is now."""


class Copier:
    """Copies the arguments of one call. An object that occurs twice is copied once."""

    def __init__(self) -> None:
        self._memo: dict[int, Any] = {}
        self.arrivals: list[Callable[[], None]] = []
        """To be waited for before the copies are used: copies from a GPU that are under way."""

    def of(self, value: Any) -> Any:
        """The value, safe from later changes."""
        kind = type(value)
        if kind in PLAIN:
            return value
        known = self._memo.get(id(value))
        if known is not None:
            return known
        made = self._copy(value, kind)
        self._memo[id(value)] = made
        return made

    def _copy(self, value: Any, kind: type) -> Any:
        if kind in (list, tuple, set, frozenset, collections.deque):
            return self._sequence(value, kind)
        if kind in (dict, collections.OrderedDict, collections.defaultdict, collections.Counter):
            return self._mapping(value)
        if isinstance(value, (enum.Enum, PurePath)):
            return value
        if isinstance(value, tuple) and hasattr(value, "_make"):
            return value._make(map(self.of, value))
        if (torch := sys.modules.get("torch")) is not None and isinstance(value, torch.Tensor):
            return self._tensor(value, torch)
        if (numpy := sys.modules.get("numpy")) is not None:
            if isinstance(value, numpy.generic):
                return value
            if isinstance(value, numpy.memmap):
                return value if value.mode == "r" else numpy.array(value, copy=True, subok=False)
            if kind is numpy.ndarray and not value.dtype.hasobject:
                return value.copy(order="K")
        if kind is memoryview:
            return bytes(value)
        if kind.__module__.startswith("matplotlib."):
            raise Uncopyable(f"a {kind.__name__} belongs to the thread that drew it")
        return self._anything(value, kind)

    def _sequence(self, value: Any, kind: type) -> Any:
        if set(map(type, value)) <= PLAIN:
            return value if kind in (tuple, frozenset) else value.copy()
        if kind is list:  # known before its elements are: a list may contain itself
            made: list[Any] = []
            self._memo[id(value)] = made
            made.extend(map(self.of, value))
            return made
        if kind is collections.deque:
            return collections.deque(map(self.of, value), value.maxlen)
        return kind(map(self.of, value))

    def _mapping(self, value: Any) -> Any:
        made = value.copy()
        self._memo[id(value)] = made
        if not set(map(type, value.values())) <= PLAIN:
            for key, held in value.items():
                made[key] = self.of(held)
        return made

    def _tensor(self, value: Any, torch: Any) -> Any:
        """Without its history. One on a GPU arrives in host memory, copied beside the computing where that can be."""
        try:
            plain = value.detach()
            if plain.device.type != "cuda" or plain.layout is not torch.strided:
                return plain.clone() if plain.device.type in ("cpu", "meta") else plain.cpu()
            host = torch.empty(plain.shape, dtype=plain.dtype, device="cpu", pin_memory=True)
            host.copy_(plain, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record(torch.cuda.current_stream(plain.device))
            self.arrivals.append(arrived.synchronize)
        except RuntimeError as problem:  # a tensor of a kind that knows no copy
            raise Uncopyable(str(problem)) from problem
        return host

    def _anything(self, value: Any, kind: type) -> Any:
        try:
            return copy.deepcopy(value, self._memo)
        except Exception as problem:  # whatever a class of the user's raises
            raise Uncopyable(f"{kind.__name__}: {problem}") from problem


def nbytes_of(value: Any, depth: int = 4) -> int:
    """About how much memory a copy takes: exact for tensors, arrays, text and bytes, reckoned for the rest."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return len(value)
    if kind in PLAIN:
        return 0
    try:
        size = getattr(value, "nbytes", None)
    except (RuntimeError, NotImplementedError):  # a sparse tensor does not say
        size = value.numel() * value.element_size()
    if isinstance(size, int):
        return size
    if depth and kind in (list, tuple, set, frozenset, collections.deque):
        return _of_many(value, depth)
    if depth and isinstance(value, dict):
        return _of_many(value.values(), depth)
    return _ITEM_BYTES


def _of_many(values: Any, depth: int) -> int:
    whole = len(values) * _ITEM_BYTES
    if set(map(type, values)) <= PLAIN - {str, bytes}:
        return whole
    return whole + sum(nbytes_of(held, depth - 1) for held in values)
