"""Iterators in layers: `zip(range(9), enumerate(loader))` is four of them. Each layer's position is plain data.

`describe` looks at an iterator and those below it without advancing any; None if one of them does not tell where it is.
`restore` brings a live iterator of the same build there: in place where its type allows it, else by making that layer anew around
the layers below. What an iterator runs over (a list, a function) is the live one's. Loaders and Python generators are layers too.
"""

from __future__ import annotations

import ast
import itertools
import operator
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rearview.state import loaders
from rearview.state.iterating import generators
from rearview.state.loaders import UNKNOWN

Shape = dict[str, Any]

_INDEXED = frozenset(
    "list_iterator tuple_iterator str_iterator str_ascii_iterator bytes_iterator bytearray_iterator list_reverseiterator reversed".split()
)
"""Types with one index into a sequence, which can be set."""
_COUNTED = frozenset(
    "dict_keyiterator dict_valueiterator dict_itemiterator dict_reversekeyiterator dict_reversevalueiterator dict_reverseitemiterator "
    "set_iterator _collections._deque_iterator _deque_iterator odict_iterator".split()
)
"""Types that tell only how many items are left."""
_RANGES = ("range_iterator", "longrange_iterator")
_AROUND: dict[type, str] = {enumerate: "enumerate", zip: "zip", map: "map", filter: "filter", itertools.islice: "islice"}
_ONE_TO_ONE = ("enumerate", "zip", "map")
"""Layers that take one item of each layer below for each that they yield."""

IN_PLACE = frozenset(("loader", "index", "range", "left", "generator"))
"""Kinds that are never made anew: whoever holds the iterator goes on with it."""


@dataclass
class Again:
    """What is known for advancing an iterator again from its beginning."""

    steps: int | None = None
    """How many items were taken; None: that is not known."""
    begin: Callable[[], None] = lambda: None
    """Puts streams and generators to where they were at the beginning."""
    said: list[str] = field(default_factory=list)
    """What could not be exact, a sentence each."""
    begun: list[bool] = field(default_factory=lambda: [False])
    """Whether it is the beginning right now."""

    def at_beginning(self) -> None:
        """Be at the beginning, if nothing has been drawn since."""
        if not self.begun[0]:
            self.begin()
        self.begun[0] = False

    def below(self, one_to_one: bool) -> Again:
        """The same for a layer below."""
        return self if one_to_one else Again(None, self.begin, self.said, self.begun)


def describe(iterator: Any) -> Shape | None:
    """Where an iterator is; None if that cannot be told."""
    if loaders.is_iterator(iterator):
        return loaders.take_live(iterator)
    if generators.is_generator(iterator):
        return generators.describe(iterator)
    kind, name = type(iterator), type(iterator).__name__
    if kind in _AROUND:
        return _describe_around(iterator, _AROUND[kind])
    if kind is itertools.count:
        args = _count_args(iterator)
        return {"kind": "count", "args": list(args)} if all(type(number) in (int, float) for number in args) else None
    if kind is itertools.repeat:
        return {"kind": "repeat", "left": operator.length_hint(iterator, -1)}
    if kind.__module__ not in ("builtins", "collections", "_collections"):
        return None
    if name in _INDEXED:
        reduced = iterator.__reduce__()
        return {"kind": "index", "at": reduced[2] if len(reduced) > 2 else None}
    if name in _RANGES:
        rest = _rest(iterator)
        return {"kind": "range", "rest": [rest.start, rest.stop, rest.step]}
    if name in _COUNTED:
        return {"kind": "left", "left": operator.length_hint(iterator)}
    return None


def restore(live: Any, shape: Shape, again: Again) -> Any:
    """Bring a live iterator there; the iterator to go on with."""
    kind = shape["kind"]
    if kind in ("loader", "unwatched"):
        if loaders.is_iterator(live):
            made = loaders.put_back_live(live, shape)
            again.said += shape["inexact"]
            return made
    elif kind == "generator":
        if generators.is_generator(live):
            generators.restore(live, shape, again)
            return live
    elif kind in _AROUND.values():
        if _AROUND.get(type(live)) == kind:
            return _restore_around(live, shape, again)
    elif kind in ("count", "ended"):
        return itertools.count(*shape["args"]) if kind == "count" else iter(())
    else:
        return _restore_simple(live, shape, again)
    again.said.append(f"a {type(live).__name__} is where a {kind} iterator was; it was left where it is")
    return live


def _restore_simple(live: Any, shape: Shape, again: Again) -> Any:
    kind, name = shape["kind"], type(live).__name__
    if kind == "repeat" and type(live) is itertools.repeat:
        return live if operator.length_hint(live, -1) == shape["left"] else itertools.repeat(_reduced(live)[1][0], shape["left"])
    if kind == "index" and name in _INDEXED:
        end = -1 if "reverse" in name else sys.maxsize
        live.__setstate__(end if shape["at"] is None else shape["at"])
        return live
    if kind == "range" and name in _RANGES:
        return _restore_range(live, range(*shape["rest"]))
    if kind == "left" and name in _COUNTED:
        ahead = operator.length_hint(live) - shape["left"]
        if ahead < 0:
            again.said.append(f"a {name} has {-ahead} items fewer left than were recorded")
        skip(live, ahead)
        return live
    again.said.append(f"a {name} is where an iterator of kind {kind} was; it was left where it is")
    return live


# Ranges


def _rest(iterator: Any) -> range:
    _, (whole,), *state = iterator.__reduce__()
    return whole[state[0] or 0 :] if state else whole  # type: ignore[no-any-return]


def _restore_range(live: Any, rest: range) -> Iterator[int]:
    _, (whole,), *_ = live.__reduce__()
    ahead, odd = divmod(rest.start - whole.start, whole.step) if whole.step == rest.step else (-1, 0)
    if ahead < 0 or odd or (whole.stop != rest.stop and len(whole) != ahead + len(rest)):
        return iter(rest)  # the program's range is another one now
    live.__setstate__(ahead)
    return live  # type: ignore[no-any-return]


# Layers around others


def _describe_around(iterator: Any, kind: str) -> Shape | None:
    try:
        _, args, *state = _reduced(iterator)
    except TypeError:
        return None  # from 3.14 on some do not tell
    if kind == "islice" and args[1:] == (0,):  # how one says that it has ended
        return {"kind": "ended"}
    parts = [describe(part) for part in _parts(kind, args)]
    if any(part is None for part in parts):
        return None
    shape: Shape = {"kind": kind, "of": parts}
    if kind == "enumerate":
        shape["index"] = args[1]
    elif kind == "islice":
        shape["args"] = list(args[1:])
        shape["state"] = state[0] if state else None
    shape["inexact"] = [sentence for part in parts if part is not None for sentence in part.get("inexact", ())]
    return shape


def _restore_around(live: Any, shape: Shape, again: Again) -> Any:
    kind = shape["kind"]
    function, args, *state = _reduced(live)
    parts = _parts(kind, args)
    if len(parts) != len(shape["of"]):
        again.said.append(f"a {kind} over {len(parts)} iterators is where one over {len(shape['of'])} was; it was left where it is")
        return live
    below = again.below(kind in _ONE_TO_ONE)
    new = [restore(part, recorded, below) for part, recorded in zip(parts, shape["of"], strict=True)]
    same = all(after is before for after, before in zip(new, parts, strict=True))
    if kind == "enumerate":
        return live if same and args[1] == shape["index"] else enumerate(new[0], shape["index"])
    if kind == "islice":
        made: Any = itertools.islice(new[0], *shape["args"])
        if shape["state"] is not None:
            made.__setstate__(shape["state"])
        return made
    if same:
        return live
    made = function(args[0], *new) if kind in ("map", "filter") else function(*new)
    if state:
        made.__setstate__(state[0])
    return made


def _parts(kind: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if kind in ("map", "filter"):
        return args[1:]
    return args if kind == "zip" else args[:1]


def _reduced(iterator: Any) -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 announces that 3.14 will not tell
        return iterator.__reduce__()  # type: ignore[no-any-return]


def _count_args(iterator: Any) -> tuple[Any, ...]:
    try:
        return _reduced(iterator)[1]  # type: ignore[no-any-return]
    except TypeError:
        return ast.literal_eval(f"({repr(iterator).removeprefix('count(').removesuffix(')')},)")  # type: ignore[no-any-return]


def skip(iterator: Iterator[Any], steps: int) -> int:
    """Take and throw away; how many there were."""
    before = itertools.count()
    deque(zip(itertools.islice(iterator, max(0, steps)), before, strict=False), maxlen=0)
    return next(before)


# The last item again


class OnceMore:
    """Yields an item, then goes on with an iterator."""

    __slots__ = ("_item", "rest")

    def __init__(self, item: Any, rest: Iterator[Any]) -> None:
        self._item = [item]
        self.rest = rest

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._item.pop() if self._item else next(self.rest)


def last_item(live: Any, shape: Shape) -> Any:
    """What an iterator yielded last before the described position, over the things of a live one; UNKNOWN if that cannot be told.

    A loader's batch is made of the same examples; what was drawn for it is drawn anew.
    """
    kind = shape["kind"]
    if kind == "loader":
        return loaders.last_batch(live, shape)
    if kind in ("enumerate", "zip") and _AROUND.get(type(live)) == kind:
        items = [last_item(part, below) for part, below in zip(_reduced(live)[1], shape["of"], strict=False)]
        if any(item is UNKNOWN for item in items) or len(items) != len(shape["of"]):
            return UNKNOWN
        return (shape["index"] - 1, items[0]) if kind == "enumerate" else tuple(items)
    if kind == "range" and type(live).__name__ in _RANGES:
        return shape["rest"][0] - shape["rest"][2]
    if kind == "index" and type(live).__name__ in ("list_iterator", "tuple_iterator") and shape["at"]:
        return live.__reduce__()[1][0][shape["at"] - 1]
    return UNKNOWN
