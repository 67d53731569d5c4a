"""Where an iterator is, by what it consists of: enough to know the place again, not to set it.

For iterators that a generator is in the middle of (`for a, b in product(...)`), which nobody can put elsewhere: a fresh generator is
advanced until they look the same. Iterators of `itertools` tell what they are made of (up to Python 3.13), objects of the program's own
classes tell it by their attributes. A file, or a reader of one, tells nothing.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any

from rearview.state.iterating import simple
from rearview.state.take.attributes import own_dict

Shape = dict[str, Any]
Describe = Callable[[Any], Shape | None]

BY_PARTS = (
    itertools.accumulate, itertools.chain, itertools.combinations, itertools.combinations_with_replacement, itertools.compress,
    itertools.cycle, itertools.dropwhile, itertools.filterfalse, itertools.islice, itertools.permutations, itertools.product,
    itertools.starmap, itertools.takewhile, itertools.zip_longest, enumerate, filter, map, zip,
)  # fmt: skip
_SCALARS = (int, float, str, bytes, bool, complex, type(None))
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_MOST_ITEMS = 1000
"""Of a container: of a longer one only the length."""


class _Untold(Exception):
    pass


def describe(iterator: Any, below: Describe) -> Shape | None:
    """What tells where an iterator is; None if something in it does not. `below` describes those it runs over."""
    kind = type(iterator)
    try:
        if kind in BY_PARTS:
            _, *parts = simple.reduced(iterator)
            # The rest is what it was made of, or has kept of that: how far it is, the iterators below and the numbers tell.
            told = _told(parts, below, lambda value: type(value).__qualname__)
        elif isinstance(kind.__dict__.get("__next__"), types.FunctionType) and (attributes := own_dict(iterator)):
            told = _told(dict(attributes), below, _give_up)
        else:
            return None
    except (_Untold, TypeError, RecursionError):
        return None
    return {"kind": "parts", "type": kind.__qualname__, "told": told}


def _told(value: Any, below: Describe, otherwise: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind in (list, tuple):
        return [_told(one, below, otherwise) for one in value] if len(value) <= _MOST_ITEMS else len(value)
    if kind is dict and len(value) <= _MOST_ITEMS:
        return [[_told(key, below, otherwise), _told(one, below, otherwise)] for key, one in value.items()]
    if isinstance(value, _NAMED):
        return getattr(value, "__qualname__", value.__name__)
    if hasattr(kind, "__next__"):
        shape = below(value)
        if shape is None:
            raise _Untold
        return shape
    return otherwise(value)


def _give_up(_value: Any) -> Any:
    raise _Untold
