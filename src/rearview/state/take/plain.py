"""Containers and plain values of Python itself, and classes derived from them.

Payloads begin with the class (NONE: the type itself) and the attributes that an object of a derived class has beside its
content (NONE: none). A long list of numbers or texts is packed, so that a million of them cost milliseconds.
"""

from __future__ import annotations

import array
import collections
import enum
import itertools
import operator
from collections.abc import Callable
from typing import Any

from rearview.state.take import sets
from rearview.state.take.attributes import attributes
from rearview.state.take.packing import PACK_FROM, packed_dict, packed_sequence
from rearview.state.take.walk import Taker, Uncapturable, Walk
from rearview.state.tree import NONE, Node


def extra(walk: Walk, value: Any) -> int:
    """The attributes of an object of a derived class, as a node that stands for no object of its own."""
    payload = attributes(walk, value)
    return NONE if payload == [NONE] else walk.add(("extra", tuple(payload)))


def _class(walk: Walk, value: Any, plain: type) -> tuple[int, int]:
    return (NONE, NONE) if type(value) is plain else (walk.slot(type(value)), extra(walk, value))


def take_list(walk: Walk, value: list[Any]) -> Node:
    """A list; a long one of numbers or texts packed."""
    items = list.copy(value)
    if len(items) >= PACK_FROM and type(value) is list:
        packed = packed_sequence(walk, "list", items)
        if packed is not None:
            return packed
    return ("list", (*_class(walk, value, list), *walk.slots(items)))


def take_tuple(walk: Walk, value: tuple[Any, ...]) -> Node:
    """A tuple, also a named one."""
    if len(value) >= PACK_FROM and type(value) is tuple:
        packed = packed_sequence(walk, "tuple", value)
        if packed is not None:
            return packed
    return ("tuple", (*_class(walk, value, tuple), *walk.slots(tuple.__iter__(value))))


def _pairs(walk: Walk, value: Any, items: Callable[[Any], Any]) -> tuple[int, ...]:
    return walk.slots([part for pair in walk.without(_items(value, items), "[{!r}]".format) for part in pair])


def _items(value: Any, items: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    for _ in range(8):
        try:
            return list(items(value))
        except RuntimeError:  # another thread changed it meanwhile
            continue
    raise Uncapturable("it kept changing while it was read")


def take_plain_dict(walk: Walk, value: dict[Any, Any]) -> Node:
    """A dict that is nothing else; the order of the keys is kept."""
    if walk.omit is not None or len(value) >= PACK_FROM:
        return take_dict(walk, value)
    try:
        parts = list(itertools.chain.from_iterable(value.items()))
    except RuntimeError:  # another thread changed it meanwhile
        return take_dict(walk, value)
    return ("dict", (NONE, NONE, *walk.slots(parts)))


def take_dict(walk: Walk, value: dict[Any, Any]) -> Node:
    """A dict and what derives from it; the order of the keys is kept."""
    items = collections.OrderedDict.items if isinstance(value, collections.OrderedDict) else dict.items
    if isinstance(value, collections.defaultdict):
        head = _class(walk, value, collections.defaultdict)
        return ("defaultdict", (*head, walk.slot(value.default_factory), *_pairs(walk, value, items)))
    head = _class(walk, value, dict)
    if len(value) >= PACK_FROM and items is dict.items:
        packed = packed_dict(walk, head, _items(value, items))
        if packed is not None:
            return packed
    return ("dict", (*head, *_pairs(walk, value, items)))


def take_set(walk: Walk, value: set[Any]) -> Node:
    """A set, its elements in an order that fills it to what it is."""
    for _ in range(8):
        try:
            items, exact = sets.recipe(value)
            break
        except RuntimeError:  # another thread changed it meanwhile
            continue
    else:
        raise Uncapturable("it kept changing while it was read")
    if not exact:
        walk.differs(value, sets.UNLIKE)
    return ("set", (*_class(walk, value, set), *walk.slots(items)))


def take_frozenset(walk: Walk, value: frozenset[Any]) -> Node:
    """A frozen set."""
    items, exact = sets.frozen_recipe(value)
    if not exact:
        walk.differs(value, sets.UNLIKE)
    return ("frozenset", (*_class(walk, value, frozenset), *walk.slots(items)))


def take_deque(walk: Walk, value: collections.deque[Any]) -> Node:
    """A deque with its limit."""
    items = list(collections.deque.__iter__(value))
    return ("deque", (*_class(walk, value, collections.deque), walk.slot(value.maxlen), *walk.slots(items)))


def take_bytearray(walk: Walk, value: bytearray) -> Node:
    """Bytes that change."""
    return ("bytearray", (*_class(walk, value, bytearray), walk.blob(bytes(memoryview(value)))))


def take_array(walk: Walk, value: array.array[Any]) -> Node:
    """An `array.array`."""
    return ("pyarray", (*_class(walk, value, array.array), walk.slot(value.typecode), walk.blob(value.tobytes())))


def take_float(_walk: Walk, value: float) -> Node:
    """A float with its sign and payload."""
    return ("float", value)


def take_complex(_walk: Walk, value: complex) -> Node:
    """A complex number."""
    return ("complex", value)


def take_range(walk: Walk, value: Any) -> Node:
    """A range or a slice."""
    return (type(value).__name__, walk.slots((value.start, value.stop, value.step)))


def take_enum(walk: Walk, value: enum.Enum) -> Node:
    """A member of an enum by its name; a combination of flags by its value."""
    name = value._name_ if value._name_ in type(value).__members__ else None
    return ("enum", (walk.slot(type(value)), walk.slot(name), walk.slot(value._value_ if name is None else None)))


def _take_value(plain: type) -> Taker:
    def take(walk: Walk, value: Any) -> Node:
        base = plain.__new__(plain, plain.__str__(value)) if plain is str else _plain_of(plain, value)
        return ("value", (walk.slot(type(value)), walk.slot(base), extra(walk, value)))

    return take


def _plain_of(plain: type, value: Any) -> Any:
    if plain is int:
        return int.__index__(value)
    if plain is float:
        return float.__float__(value)
    if plain is complex:
        return complex.__pos__(value)
    return bytes(memoryview(value))


_TAKERS: dict[type, Taker] = {
    list: take_list,
    tuple: take_tuple,
    dict: take_plain_dict,
    collections.OrderedDict: take_dict,
    collections.defaultdict: take_dict,
    collections.Counter: take_dict,
    set: take_set,
    frozenset: take_frozenset,
    collections.deque: take_deque,
    bytearray: take_bytearray,
    array.array: take_array,
    float: take_float,
    complex: take_complex,
    range: take_range,
    slice: take_range,
}

EMPTIES: dict[type, tuple[Node, Callable[[Any], bool]]] = {
    dict: (("dict", (NONE, NONE)), operator.not_),
    set: (("set", (NONE, NONE)), sets.untouched),
}
"""Containers without anything, and whether one is as one that was never filled: a set may have gaps in its table."""

_DERIVED: tuple[tuple[type, Taker], ...] = (
    (enum.Enum, take_enum),
    (list, take_list), (tuple, take_tuple), (dict, take_dict), (set, take_set), (frozenset, take_frozenset),
    (collections.deque, take_deque), (bytearray, take_bytearray), (array.array, take_array),
    (int, _take_value(int)), (str, _take_value(str)), (float, _take_value(float)),
    (bytes, _take_value(bytes)), (complex, _take_value(complex)),
)  # fmt: skip


def takers() -> dict[type, Taker]:
    """Who takes exactly these types."""
    return _TAKERS


def decide(kind: type) -> Taker | None:
    """Who takes a class derived from a plain type."""
    if issubclass(kind, tuple) and hasattr(kind, "n_sequence_fields"):
        return None  # made in C, with fields that are no items
    return next((taker for base, taker in _DERIVED if issubclass(kind, base)), None)
