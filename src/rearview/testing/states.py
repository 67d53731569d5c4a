"""States without a store: bytes of buffers in memory, and the question whether two object graphs are the same.

For tests of the project, and of adapters that others write.
"""

from __future__ import annotations

import array
import collections
import enum
import hashlib
import pathlib
import struct
import types
from collections.abc import Mapping
from typing import Any

from rearview.state.capture import Captured
from rearview.state.tree import RootKey, Tree, decode, encode, root_digests
from rearview.state.visible import of_buffers

_VALUES = (
    str, int, bytes, float, complex, type(None), type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.ModuleType,
    enum.Enum, range, slice, pathlib.PurePath,
)  # fmt: skip


class Kept:
    """A captured state as a store would keep it: the tree through its bytes, each buffer copied."""

    def __init__(self, captured: Captured) -> None:
        self.tree: Tree = decode(encode(captured.tree))
        self.data = [_bytes(buffer) for buffer in captured.buffers]
        self.digests = digests(captured)

    def into(self, index: int, dest: memoryview) -> None:
        """The bytes of a buffer."""
        dest[:] = self.data[index]

    def size(self, index: int) -> int:
        """How many there are."""
        return len(self.data[index])


def _bytes(buffer: Any) -> bytes:
    return bytes(buffer.memory()) if buffer.address or not buffer.nbytes else bytes(buffer.tensor().cpu().tolist())


def digests(captured: Captured) -> dict[RootKey, str]:
    """The digests of a state's roots."""
    spans = of_buffers(captured.tree)
    data = []
    for k, buffer in enumerate(captured.buffers):
        begin, end = spans.get(k, (0, buffer.nbytes))
        data.append(_bytes(buffer)[begin:end])
    return root_digests(captured.tree, [hashlib.blake2b(part, digest_size=16).digest() for part in data])


def roots(**named: object) -> dict[RootKey, object]:
    """Objects as they are given to `checkpointing`."""
    return {("given", name): value for name, value in named.items()}


def difference(first: Any, second: Any) -> str | None:
    """Where two object graphs differ: in values, types, order, or in what is the same object as what. None: nowhere."""
    forth: dict[int, Any] = {}
    back: dict[int, Any] = {}
    pending: list[tuple[str, Any, Any]] = [("", first, second)]
    while pending:
        where, one, other = pending.pop()
        if type(one) is not type(other):
            return f"{where}: {type(one).__name__} is not {type(other).__name__}"
        if isinstance(one, _VALUES):
            if type(one) in (float, complex) and not _same_bits(one, other):
                return f"{where}: {one!r} is not {other!r}"
            if type(one) not in (float, complex) and one != other:
                return f"{where}: {one!r} is not {other!r}"
            continue
        mutable = not isinstance(one, (tuple, frozenset))
        if mutable and (forth.get(id(one), other) is not other or back.get(id(other), one) is not one):
            return f"{where}: shared otherwise"
        if id(one) in forth:
            continue
        forth[id(one)], back[id(other)] = other, one
        parts = _parts(one), _parts(other)
        if len(parts[0]) != len(parts[1]):
            return f"{where}: {len(parts[0])} parts are not {len(parts[1])}"
        for (name, mine), (name_2, theirs) in zip(*parts, strict=True):
            if name != name_2:
                return f"{where}: {name} is not {name_2}"
            pending.append((where + name, mine, theirs))
    return None


def _same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, complex):
        return _same_bits(one.real, other.real) and _same_bits(one.imag, other.imag)
    return struct.pack("<d", one) == struct.pack("<d", other)


def _parts(value: Any) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        parts += [(f".{name}", getattr(value, name)) for name in names if hasattr(value, name)]
    if isinstance(value, Mapping):
        for k, (key, item) in enumerate(value.items()):
            parts += [(f"[key {k}]", key), (f"[{k}]", item)]
    elif isinstance(value, (set, frozenset)):
        plain = sorted((item for item in value if isinstance(item, (str, int, bytes, float, type(None), tuple))), key=repr)
        parts += [(f"{{{k}}}", item) for k, item in enumerate(plain)]
        parts.append(("{}", len(value)))
    elif isinstance(value, (list, tuple, collections.deque)):
        parts += [(f"[{k}]", item) for k, item in enumerate(value)]
    elif isinstance(value, (bytearray, array.array)):
        parts.append(("bytes", bytes(value)))
    if isinstance(value, collections.deque):
        parts.append(("maxlen", value.maxlen))
    if isinstance(value, collections.defaultdict):
        parts.append(("factory", value.default_factory))
    if isinstance(value, types.CellType):
        parts.append(("cell", value.cell_contents))
    return parts
