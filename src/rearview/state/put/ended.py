"""Iterators that have come to their end. What they say about how they are copied makes one that has not: over nothing, of another class.

That one gives nothing either, but it says something else about itself: a state put back would not be the state that was taken.
"""

from __future__ import annotations

import array
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

_EMPTY = (list, tuple, str)
_OF_CLASS: dict[str, Callable[[], Iterator[Any]]] = {
    "bytes_iterator": lambda: iter(b""),
    "bytearray_iterator": lambda: iter(bytearray()),
    "str_iterator": lambda: iter("\N{INFINITY}"),
    "arrayiterator": lambda: iter(array.array("b")),
    "iterator": lambda: iter(_Items()),
    "callable_iterator": lambda: iter(lambda: None, None),
    "list_reverseiterator": lambda: reversed([]),
    "dict_keyiterator": lambda: iter({}),
    "dict_valueiterator": lambda: iter({}.values()),
    "dict_itemiterator": lambda: iter({}.items()),
    "dict_reversekeyiterator": lambda: reversed({}),
    "dict_reversevalueiterator": lambda: reversed({}.values()),
    "dict_reverseitemiterator": lambda: reversed({}.items()),
    "set_iterator": lambda: iter(set()),
    "odict_iterator": lambda: iter(OrderedDict()),
}
"""One that gives nothing more, or at most one item, by the name of its class: those that are copied as another one."""


class _Items:
    """Nothing, by number."""

    def __getitem__(self, number: int) -> Any:
        raise IndexError(number)


def is_ended(function: Any, args: Any, has_state: bool) -> bool:
    """Whether an iterator that is copied by this call had come to its end: one that had not says where it is, or what over."""
    if function is itertools.islice:
        return len(args) == 2 and args[1] == 0
    if has_state:
        return False
    if function is itertools.chain:
        return not args
    return function in (iter, reversed) and len(args) == 1 and type(args[0]) in _EMPTY and not args[0]


def at_end(kind: Any, function: Any, args: Any) -> Any:
    """An iterator of a class that has come to its end."""
    make = _OF_CLASS.get(getattr(kind, "__name__", "")) if function in (iter, reversed) else None
    made = function(*args) if make is None else make()
    for _ in made:
        pass
    return made
