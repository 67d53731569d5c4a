"""Iterators in layers: `zip(range(9), enumerate(loader))` is four of them. Each layer's position is plain data.

`describe` looks at an iterator and those below it without advancing any; None if one of them does not tell where it is.
`restore` brings a live iterator of the same build there: in place where its type allows it, else by making that layer anew around
the layers below. What an iterator runs over (a list, a function) is the live one's. Loaders and Python generators are layers too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rearview.state import loaders
from rearview.state.iterating import generators, simple

Shape = dict[str, Any]

_AROUND: dict[type, str] = {enumerate: "enumerate", zip: "zip", map: "map", filter: "filter", itertools.islice: "islice"}
_ONE_TO_ONE = ("enumerate", "zip", "map")
"""Layers that take one item of each layer below for each that they yield."""


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
    there: frozenset[int] = frozenset()
    """Generators that are where they were: whoever holds them in a variable had them put back."""

    def at_beginning(self) -> None:
        """Be at the beginning, if nothing has been drawn since."""
        if not self.begun[0]:
            self.begin()
        self.begun[0] = False

    def below(self, one_to_one: bool) -> Again:
        """The same for a layer below."""
        return self if one_to_one else Again(None, self.begin, self.said, self.begun, self.there)


def describe(iterator: Any) -> Shape | None:
    """Where an iterator is; None if that cannot be told."""
    if loaders.is_iterator(iterator):
        return loaders.take_live(iterator)
    if generators.is_generator(iterator):
        return generators.describe(iterator)
    kind = type(iterator)
    if kind in _AROUND:
        return _describe_around(iterator, _AROUND[kind])
    if kind is itertools.chain:
        return _describe_chain(iterator)
    return simple.describe(iterator)


def there(live: Any, shape: Shape) -> frozenset[int]:
    """The generators among a live iterator and those below it that are where they were."""
    if shape["kind"] == "generator":
        return frozenset({id(live)} if generators.is_generator(live) and generators.is_there(live, shape) else ())
    if shape["kind"] not in _AROUND.values() or _AROUND.get(type(live)) != shape["kind"]:
        return frozenset()
    parts = _parts(shape["kind"], simple.reduced(live)[1])
    return frozenset().union(*map(there, parts, shape["of"]))


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
    elif kind == "chain":
        if type(live) is itertools.chain:
            return _restore_chain(live, shape, again)
    else:
        return simple.restore(live, shape, again.said)
    again.said.append(f"a {type(live).__name__} is where a {kind} iterator was; it was left where it is")
    return live


# Layers around others


def _describe_around(iterator: Any, kind: str) -> Shape | None:
    try:
        _, args, *state = simple.reduced(iterator)
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
    if kind not in _ONE_TO_ONE:
        shape["inexact"] += _untold(parts)
    return shape


def _untold(parts: list[Shape | None]) -> list[str]:
    """Of layers below that give more items, or fewer, than the one above them."""
    return [sentence for part in parts if part is not None for sentence in generators.untold(part)]


def _restore_around(live: Any, shape: Shape, again: Again) -> Any:
    kind = shape["kind"]
    function, args, *state = simple.reduced(live)
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
            simple.set_state(made, shape["state"])
        return made
    if same:
        return live
    made = function(args[0], *new) if kind in ("map", "filter") else function(*new)
    if state:
        simple.set_state(made, state[0])
    return made


def _describe_chain(iterator: Any) -> Shape | None:
    """A chain over a fixed row of iterables: which one it is in, and where in that."""
    try:
        _, _, *state = simple.reduced(iterator)
    except TypeError:
        return None
    if not state:
        return {"kind": "ended"}
    source, *active = state[0]
    row = describe(source) if type(source).__name__ == "tuple_iterator" else None
    parts = [describe(part) for part in active]
    if row is None or any(part is None for part in parts):
        return None
    said = [sentence for part in parts if part is not None for sentence in part.get("inexact", ())]
    said += _untold(parts)
    return {"kind": "chain", "at": row["at"], "of": parts, "inexact": said}


def _restore_chain(live: Any, shape: Shape, again: Again) -> Any:
    _, _, *state = simple.reduced(live)
    if not state or type(state[0][0]).__name__ != "tuple_iterator":
        again.said.append("a chain has ended, or is over something else than what was recorded; it was left where it is")
        return live
    source, *active = state[0]
    row, at = source.__reduce__(), shape["at"]
    if shape["of"] and at != (row[2] if len(row) > 2 else None):
        simple.restore(source, {"kind": "index", "at": (len(row[1][0]) if at is None else at) - 1}, again.said)
        active = [iter(next(source))]
    elif not active and shape["of"]:
        active = [iter(next(source))]
    below = again.below(one_to_one=False)
    new = [restore(part, recorded, below) for part, recorded in zip(active, shape["of"], strict=True)]
    simple.set_state(live, (source, *new))
    return live


def _parts(kind: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if kind in ("map", "filter"):
        return args[1:]
    return args if kind == "zip" else args[:1]


class OnceMore:
    """Yields an item again, then goes on with an iterator, whose position is its own."""

    __slots__ = ("_item", "rest")

    def __init__(self, item: Any, rest: Iterator[Any]) -> None:
        self._item = [item]
        self.rest = rest

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._item.pop() if self._item else next(self.rest)
