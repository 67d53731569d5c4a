"""Iterators of the language over one thing: sequences, ranges, dicts, `count`, `repeat`. Where they are, and back there.

Set in place where the type allows it. Knows what each type tells of itself, from Python 3.11 on; from 3.14 on some tell less.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import sys
import types
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any

Shape = dict[str, Any]

_INDEXED = frozenset(
    "list_iterator tuple_iterator str_iterator str_ascii_iterator bytes_iterator bytearray_iterator list_reverseiterator reversed "
    "iterator".split()
)
"""Types with one index into a sequence, which can be set. The last one is over anything that only has `__getitem__`: arrays, datasets."""
_COUNTED = frozenset(
    "dict_keyiterator dict_valueiterator dict_itemiterator dict_reversekeyiterator dict_reversevalueiterator dict_reverseitemiterator "
    "set_iterator _deque_iterator odict_iterator".split()
)
"""Types that tell only how many items are left."""
RANGES = ("range_iterator", "longrange_iterator")
_CALLING = "callable_iterator"
_MOST_AHEAD = 10_000_000
"""A count is moved so far number by number: a third of a second."""


def describe(iterator: Any) -> Shape | None:
    """Where an iterator is; None if it is none of these."""
    kind, name = type(iterator), type(iterator).__name__
    if kind is itertools.count:
        args = _count_args(iterator)
        return {"kind": "count", "args": list(args)} if all(type(number) in (int, float) for number in args) else None
    if kind is itertools.repeat:
        return {"kind": "repeat", "left": operator.length_hint(iterator, -1)}
    if kind.__module__ not in ("builtins", "collections", "_collections"):
        return None
    if name in _INDEXED:
        _, _, *at = iterator.__reduce__()
        return {"kind": "index", "at": at[0] if at else None}
    if name in RANGES:
        rest = _rest(iterator)
        return {"kind": "range", "rest": [rest.start, rest.stop, rest.step]}
    if name in _COUNTED:
        return {"kind": "left", "left": operator.length_hint(iterator)}
    return _called(reduced(iterator)[1]) if name == _CALLING else None


def _called(args: tuple[Any, ...]) -> Shape | None:
    """`iter(function, sentinel)`: how far that is only the function knows, which is restored by itself, unless it hides that in C."""
    if len(args) < 2:
        return {"kind": "ended"}
    function: Any = args[0]
    while isinstance(function, functools.partial):
        function = function.func
    owner = type(getattr(function, "__self__", None))
    known = isinstance(function, (types.FunctionType, types.MethodType)) or owner in (list, dict, set, deque) or owner.__module__ == "_io"
    return {"kind": "called"} if known else None


def restore(live: Any, shape: Shape, said: list[str]) -> Any:
    """Bring a live iterator there; the iterator to go on with. What could not be done is said."""
    kind, name = shape["kind"], type(live).__name__
    if kind == "count":
        ahead = _counts_ahead(live, shape)
        skip(live, ahead or 0)
        return live if ahead is not None else itertools.count(*shape["args"])
    if kind == "ended":
        return iter(())
    if kind == "called" and name == _CALLING:
        return live
    if kind == "repeat" and type(live) is itertools.repeat:
        return live if operator.length_hint(live, -1) == shape["left"] else itertools.repeat(reduced(live)[1][0], shape["left"])
    if kind == "index" and name in _INDEXED:
        end = -1 if "reverse" in name else sys.maxsize - 1  # at the very last one, some say that there are too many
        live.__setstate__(end if shape["at"] is None else shape["at"])
        return live
    if kind == "range" and name in RANGES:
        return _restore_range(live, range(*shape["rest"]))
    if kind == "left" and name in _COUNTED:
        ahead = operator.length_hint(live) - shape["left"]
        if ahead < 0:
            said.append(f"a {name} has {-ahead} items fewer left than were recorded")
        skip(live, ahead)
        return live
    said.append(f"a {name} is where an iterator of kind {kind} was; it was left where it is")
    return live


def list_of(iterator: Any) -> list[Any] | None:
    """The list that an iterator runs over, if it does and has not ended."""
    if type(iterator).__name__ not in ("list_iterator", "list_reverseiterator"):
        return None
    _, args, *at = reduced(iterator)
    return args[0] if at and type(args[0]) is list else None


def _rest(iterator: Any) -> range:
    _, (whole,), *state = iterator.__reduce__()
    return whole[state[0] or 0 :] if state else whole  # type: ignore[no-any-return]


def _restore_range(live: Any, rest: range) -> Iterator[int]:
    ahead = _ahead(live, rest)
    if ahead is None:
        return iter(rest)  # the program's range is another one now
    live.__setstate__(ahead)
    return live  # type: ignore[no-any-return]


def _ahead(live: Any, rest: range) -> int | None:
    """How many items a range has given when that is its rest; None if it is the rest of another range."""
    _, (whole,), *_ = live.__reduce__()
    ahead, odd = divmod(rest.start - whole.start, whole.step) if whole.step == rest.step else (-1, 0)
    return None if ahead < 0 or odd or (whole.stop != rest.stop and len(whole) != ahead + len(rest)) else ahead


def _counts_ahead(live: Any, shape: Shape) -> int | None:
    """How many numbers a count has to give until it is there; None if it does not come there, or not soon."""
    now, then = (*_count_args(live), 1)[:2] if type(live) is itertools.count else (None, None), (*shape["args"], 1)[:2]
    if not all(type(number) is int for number in (*now, *then)) or now[1] != then[1] or not then[1]:
        return None
    ahead, odd = divmod(then[0] - now[0], then[1])
    return ahead if not odd and 0 <= ahead <= _MOST_AHEAD else None


def stays(live: Any, shape: Shape) -> bool:
    """Whether a live iterator can be put there in place, as far as that depends on what it runs over."""
    if shape["kind"] == "count":
        return _counts_ahead(live, shape) is not None
    return shape["kind"] != "range" or (type(live).__name__ in RANGES and _ahead(live, range(*shape["rest"])) is not None)


def reduced(iterator: Any) -> tuple[Any, ...]:
    """What an iterator is made of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 announces that 3.14 will not tell
        return iterator.__reduce__()  # type: ignore[no-any-return]


def set_state(iterator: Any, state: Any) -> None:
    """Put an iterator of `itertools` to where one was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        iterator.__setstate__(state)


def _count_args(iterator: Any) -> tuple[Any, ...]:
    try:
        return reduced(iterator)[1]  # type: ignore[no-any-return]
    except TypeError:
        return ast.literal_eval(f"({repr(iterator).removeprefix('count(').removesuffix(')')},)")  # type: ignore[no-any-return]


def advanced(source: Any, steps: int) -> Iterator[Any]:
    """An iterator over something plain that has given so many items: of the same kind as one that was advanced."""
    items: Iterator[Any] = iter(source)
    if type(source) in (range, list, tuple):
        vars(type(items))["__setstate__"](items, steps)
    else:
        skip(items, steps)
    return items


def skip(iterator: Iterator[Any], steps: int) -> int:
    """Take and throw away; how many there were."""
    taken = itertools.count()
    deque(zip(itertools.islice(iterator, max(0, steps)), taken, strict=False), maxlen=0)
    return next(taken)
