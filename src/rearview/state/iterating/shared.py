"""Iterators that a variable holds and a loop runs over: put back as two objects, each would go on by itself.

Those that can be brought on in place stay one. Of the others it is known beforehand that they do not come back as they were.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from rearview.state import loaders
from rearview.state.iterating import around, generators, simple

_STAY = frozenset(("index", "range", "count", "repeat", "called"))
_DEEPEST = 8


def brought_on(live: Any, function: Any, args: Any, state: Any) -> bool:
    """Whether a live iterator is now, in place, where one is that is made by this call, and this state where there is one."""
    if type(live) is enumerate and function is enumerate:
        inner, number = simple.reduced(live)[1]
        return len(args) > 1 and args[0] is inner and not around.count_on(live, args[1] - number)
    if function is not iter and function is not itertools.count:
        return False
    made = function(*args)
    if state is not None:
        simple.set_state(made, state)
    shape = simple.describe(made)
    return (
        shape is not None and shape["kind"] in ("range", "count") and simple.stays(live, shape) and simple.restore(live, shape, []) is live
    )


def come_apart(source: Any, held: Iterable[object]) -> list[str]:
    """Sentences about a loop's iterator, or one below it, that a variable holds as well and that is put back as two."""
    if not hasattr(type(source), "__next__"):
        return []
    variables = set(map(id, held))
    names = {type(one).__name__: None for one in _below(source) if id(one) in variables and not _stays(one)}
    return [f"it runs over a {name} that a variable holds as well: these come back as two, and each goes on by itself" for name in names]


def _below(iterator: Any, depth: int = 0) -> Iterator[Any]:
    """An iterator, and those that it takes its items from."""
    yield iterator
    if depth < _DEEPEST:
        for part in _parts(iterator):
            if hasattr(type(part), "__next__"):
                yield from _below(part, depth + 1)


def _parts(iterator: Any) -> tuple[Any, ...]:
    if type(iterator).__module__ not in ("builtins", "itertools") or generators.is_generator(iterator):
        return ()
    try:
        args = simple.reduced(iterator)[1]
    except (TypeError, IndexError):
        return ()
    return args if isinstance(args, tuple) else ()


def _stays(iterator: Any) -> bool:
    """Whether it is one object again when a state is put back."""
    if loaders.is_iterator(iterator) or generators.is_generator(iterator):
        return True
    if type(iterator) in (enumerate, zip, map, filter):
        return all(_stays(part) for part in _parts(iterator) if hasattr(type(part), "__next__"))
    if type(iterator).__module__ not in ("builtins", "itertools"):
        return True  # an object of the program's own is put back in place
    shape = simple.describe(iterator)
    if shape is None or shape["kind"] not in _STAY:
        return False
    return all(type(number) is int for number in shape.get("args", ()))
