"""What thousands of tensors are, asked of all of them at once: is each what it was, and where is its memory?

Only of plain tensors: a leaf of a dense layout, with memory and without attributes. Whoever asks has told torch to be quiet.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rearview.state.buffers import LiveBuffer
from rearview.state.take.levels import Changed
from rearview.state.take.walk import Walk

_of_object = object.__getattribute__


def is_plain(tensor: Any, kind: type) -> bool:
    """Whether all that a tensor is can be asked here."""
    torch = sys.modules["torch"]
    return (
        (kind is torch.Tensor or kind is torch.nn.Parameter)
        and tensor.is_leaf
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_meta
        and not tensor.is_inference()
        and not tensor.dtype.is_complex
        and not _of_object(tensor, "__dict__")
        and tensor.untyped_storage().nbytes() > 0
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """Where the memory of tensors is now."""

    storages: list[Any]
    versions: list[int]
    grads: list[Any]


@dataclass(frozen=True, slots=True)
class _Allocation:
    """One stretch of memory."""

    key: Any
    nbytes: int
    address: int
    """On this machine; 0 on another device."""
    number: int
    """Of its node."""
    tensors: tuple[int, ...]
    """The places of those that lie in it."""
    constant: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Of some tensors."""

    _told: list[list[Any]]
    _places: list[tuple[int, int]]
    _buffers: list[_Allocation]
    _small: list[_Allocation]

    @staticmethod
    def of(tensors: Sequence[Any], numbers: Sequence[int], walk: Walk) -> Facts | None:
        """Of tensors that were walked just now, with the numbers of their nodes; None if the walk has met other memory as well."""
        places, _ = _memory(tensors)
        by_number: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            by_number.setdefault(walk.nodes[number][1][_MEMORY_AT], []).append(place)
        buffers: list[_Allocation] = []
        small: list[_Allocation] = []
        for key, number in walk.buffer_nodes.items():
            within = tuple(by_number.get(number, ()))
            if not within:
                return None
            address, nbytes = places[within[0]]
            kind, index = walk.nodes[number]
            buffer = walk.buffers[index] if kind == "buffer" else None
            on_cpu = buffer is None or buffer.address != 0
            one = _Allocation(key, nbytes, address if on_cpu else 0, number, within, buffer is not None and buffer.constant_hint)
            (small if buffer is None else buffers).append(one)
        return Facts(_told(tensors), places, buffers, small)

    def read(self, tensors: Sequence[Any]) -> Memory:
        """The same tensors again; `Changed` if one is another, or lies elsewhere."""
        if _told(tensors) != self._told or any(map(_of_object, tensors, itertools.repeat("__dict__"))):
            raise Changed
        places, storages = _memory(tensors)
        if places != self._places:
            raise Changed
        ask = _asking()
        return Memory(storages, list(map(ask["_version"], tensors)), list(map(ask["grad"], tensors)))

    @property
    def allocations(self) -> tuple[int, int]:
        """How many stretches of memory there are, and how many of them are buffers."""
        return len(self._buffers) + len(self._small), len(self._buffers)

    def lay_out(self, walk: Walk, memory: Memory) -> None:
        """Have the walk know the memory, as it is now."""
        versions, storages = memory.versions, memory.storages
        for one in self._buffers:
            storage = storages[one.tensors[0]]
            buffer = LiveBuffer(one.key, one.nbytes, storage, one.address, walk.places, one.number, storage)
            buffer.constant_hint = one.constant
            within = one.tensors
            buffer.version = versions[within[0]] if len(within) == 1 else max(versions[place] for place in within)
            walk.buffers.append(buffer)
            walk.tree.buffers.append(one.nbytes)
            walk.buffer_nodes[one.key] = one.number
        for one in self._small:
            walk.nodes[one.number] = ("small", ctypes.string_at(one.address, one.nbytes))
            walk.buffer_nodes[one.key] = one.number
            walk.keep.append(storages[one.tensors[0]])


_MEMORY_AT = 2
"""Where the node of a tensor names its memory."""
_ASKED = ("dtype", "device", "requires_grad", "is_leaf")


@functools.cache
def _asking() -> dict[str, Callable[[Any], Any]]:
    """What to call for each: the methods of C, which no subclass is asked about."""
    torch = sys.modules["torch"]
    base = torch._C.TensorBase
    found = {name: getattr(base, name).__get__ for name in (*_ASKED, "_version", "grad")}
    return {**found, **{name: getattr(base, name) for name in ("size", "stride", "storage_offset", "is_neg")}}


def _told(tensors: Sequence[Any]) -> list[list[Any]]:
    """All that is in the nodes of tensors but for their memory and gradients."""
    ask = _asking()
    return [list(map(ask[name], tensors)) for name in (*_ASKED, "size", "stride", "storage_offset", "is_neg")]


def _memory(tensors: Sequence[Any]) -> tuple[list[tuple[int, int]], list[Any]]:
    """Address and size of what each lies in, and that itself."""
    torch = sys.modules["torch"]
    kind = torch.UntypedStorage
    storages = list(map(torch._C.TensorBase.untyped_storage, tensors))
    return list(zip(map(kind.data_ptr, storages), map(kind.nbytes, storages), strict=True)), storages
