"""Many plain values at once: long lists, tuples and dicts of numbers and texts as columns of bytes, also in rows of tuples.

A million of them cost milliseconds instead of seconds, and what stays the same is stored once. Values are taken for what they are:
which of two equal texts a list holds nobody can tell.
"""

from __future__ import annotations

import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rearview.state.take.walk import Walk
from rearview.state.tree import Node

PACK_FROM = 64
"""Shorter containers are not worth a packing of their own."""

_PLAIN = frozenset((int, float, str, bool, bytes, type(None)))
_ORDER = (int, float, str, bool, bytes, type(None))
_WIDEST_ROW = 16
_DEEPEST_ROW = 3


@dataclass(slots=True)
class Column:
    """Values of one type, of several, or rows of them: what is written once all of them are known to fit. `data` is bytes and arrays."""

    kind: str
    count: int
    data: list[Any] = field(default_factory=list)
    parts: list[Column] = field(default_factory=list)


def column(items: Sequence[Any], depth: int = 0) -> Column | None:
    """A column of values; None if they are no plain values."""
    kinds = set(map(type, items))
    if len(kinds) > 1:
        return _mixed(items, kinds) if kinds <= _PLAIN else None
    kind = kinds.pop() if kinds else type(None)
    if kind is tuple:
        return _rows(items, depth)
    data = _leaf(items, kind) if kind in _PLAIN else None
    return None if data is None else Column(kind.__name__, len(items), data)


def _leaf(items: Sequence[Any], kind: type) -> list[Any] | None:
    """The bytes of values of one type; None for integers that no machine word holds."""
    if kind is str:
        return ["".join(items).encode("utf-8", "surrogatepass"), array.array("Q", map(len, items))]
    if kind is bytes:
        return [b"".join(items), array.array("Q", map(len, items))]
    if kind is bool:
        return [bytes(items)]
    if kind is type(None):
        return []
    try:
        return [array.array("q" if kind is int else "d", items)]
    except OverflowError:
        return None


def _rows(items: Sequence[Any], depth: int) -> Column | None:
    """Tuples of one length: a column for each place."""
    lengths = set(map(len, items))
    if len(lengths) != 1 or depth >= _DEEPEST_ROW:
        return None
    width = lengths.pop()
    if not 0 < width <= _WIDEST_ROW:
        return None
    parts = _columns(zip(*items, strict=True), depth + 1)
    return None if parts is None else Column("rows", len(items), [], parts)


def _columns(several: Iterable[Sequence[Any]], depth: int) -> list[Column] | None:
    parts: list[Column] = []
    for items in several:
        part = column(items, depth)
        if part is None:
            return None
        parts.append(part)
    return parts


def _mixed(items: Sequence[Any], kinds: set[type]) -> Column | None:
    """Values of several types: which is of which, and a column for each type."""
    present = [kind for kind in _ORDER if kind in kinds]
    codes = {kind: number for number, kind in enumerate(present)}
    parts = _columns(([item for item in items if type(item) is kind] for kind in present), 0)
    return None if parts is None else Column("mixed", len(items), [bytes(codes[type(item)] for item in items)], parts)


def _write(walk: Walk, packed: Column) -> int:
    data = [walk.blob(part) for part in packed.data]
    return walk.add(("column", (*walk.slots((packed.kind, packed.count)), *data, *(_write(walk, part) for part in packed.parts))))


def packed_sequence(walk: Walk, container: str, items: Sequence[Any]) -> Node | None:
    """A long list or tuple as a column."""
    packed = column(items)
    return None if packed is None else ("packed", (walk.slot(container), _write(walk, packed)))


def packed_dict(walk: Walk, head: tuple[int, int], items: Sequence[tuple[Any, Any]]) -> Node | None:
    """A long dict as a column of keys and one of values."""
    if type(items[0][0]) not in _PLAIN and type(items[0][0]) is not tuple:
        return None
    parts = _columns(([key for key, _ in items], [value for _, value in items]), 0)
    return None if parts is None else ("table", (*head, *(_write(walk, part) for part in parts)))
