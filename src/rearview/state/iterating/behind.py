"""What is behind an iterator: the objects of the program that it runs over, and the functions it calls.

Advancing it may change what they hold (a counter, a random generator). Whoever advances it again needs that as it was at the beginning.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any

from rearview.state import loaders
from rearview.state.iterating import simple
from rearview.state.iterating.parts import BY_PARTS
from rearview.state.take.attributes import own_dict

_SCALARS = (int, float, str, bytes, bool, complex, type(None))
_DEEPEST = 12
_MOST_ITEMS = 1000
"""Of a container that is searched for iterators."""


def of(iterator: Any, of_generator: Callable[[Any], Any]) -> Any:
    """What an iterator runs over and calls, down to what is no iterator: whose values an advance may change.

    `of_generator`: what a generator holds. An iterator of the program's own class stands for its attributes. The same for an iterator that
    was just made and for one that was advanced: of a chain, what it is in the middle of is left out.
    """
    seen: set[int] = set()

    def below(value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if kind in _SCALARS and depth > 1:  # how far an iterator is: told otherwise. The variables of a generator are its own
            return None
        if kind in (tuple, list) and len(value) <= _MOST_ITEMS and (kind is tuple or any(hasattr(type(one), "__next__") for one in value)):
            return [below(one, depth + 1) for one in value]
        if not hasattr(kind, "__next__"):
            return value
        if id(value) in seen or depth > _DEEPEST or loaders.is_iterator(value):  # those of loaders know by themselves what they change
            return None
        seen.add(id(value))
        if kind is types.GeneratorType:
            return {name: below(one, depth + 1) for name, one in of_generator(value).items()}
        if kind not in BY_PARTS and kind.__module__ != "builtins":
            return own_dict(value)
        try:
            _, *made = simple.reduced(value)
        except TypeError:
            return None
        return below(made[1][0] if kind is itertools.chain and len(made) > 1 else tuple(made), depth + 1)

    return below(iterator)
