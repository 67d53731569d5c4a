"""How far a loop has come in what it iterates over, as plain data, and an iterator that goes on from there.

`begin` before a loop's iterator is made, `take` at a checkpoint, `put_back` in a later process. The position of layers that tell
where they are (loaders, `enumerate`, `zip`, ranges, lists, Python generators) is set; anything else is made anew under the random
streams of its beginning and advanced as many steps. `Iterators` does the same for iterators that the program holds in variables.
A position that cannot be exact says why, a sentence each under "inexact"; putting it back may add to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rearview.errors import RestoredOtherwise
from rearview.state import loaders, streams
from rearview.state.iterating import behind, generators, layers, simple
from rearview.state.iterating.adapter import Iterators, describe_iterator, restore_iterator
from rearview.state.iterating.bars import Ready, bar_iterator, is_bar, within
from rearview.state.iterating.layers import Again, there
from rearview.state.loading import holdings, plain
from rearview.state.loading.holdings import Values
from rearview.state.loading.notes import Position

__all__ = [
    "Birth",
    "Iterators",
    "adapters",
    "begin",
    "describe_iterator",
    "put_back",
    "put_back_live",
    "restore_iterator",
    "take",
    "take_live",
]

_SIMPLE = (range, list, tuple, str, bytes, bytearray, dict, set, frozenset)
_ITERATORS = ("builtins", "itertools")
_LARGEST = 200_000
"""Items of a list, or bytes of an array, that are copied when a loop begins."""

take_live = loaders.take_live
put_back_live = loaders.put_back_live


@dataclass(frozen=True)
class Birth:
    """What was true just before a loop's iterator was made."""

    iterable: Any
    streams: streams.Streams
    values: Values


def begin(iterable: Any) -> Birth | None:
    """To be called just before `iter(iterable)`; None if nothing needs to be remembered. Cheap for what loops usually run over."""
    loaders.watch()
    if type(iterable) in _SIMPLE or loaders.is_loader(iterable):
        return None
    return Birth(iterable, streams.take(), holdings.take(_root(iterable), most=_LARGEST))


def born_as(iterable: Any, position: Position) -> Birth | None:
    """The birth of an iterator that was put back: that of the one whose position was taken."""
    if "streams" not in position:
        return None
    return Birth(iterable, position["streams"], {**holdings.take(_root(iterable), most=_LARGEST), **position["values"][0]})


def _root(iterable: Any) -> Any:
    if is_bar(iterable):  # what it shows, and when it last did, is no state
        return _root(within(iterable))
    return behind.of(iterable, generators.holds) if type(iterable).__module__ in _ITERATORS else iterable


def adapters(elsewhere: Iterable[object] = ()) -> list[Iterators]:
    """For the walk over a program's state; `elsewhere` are the iterators of loops, which have positions of their own."""
    return [Iterators(elsewhere)]


def take(iterator: Any, birth: Birth | None, count: int) -> Position:
    """The position of a loop's iterator after `count` items."""
    if type(iterator) is layers.OnceMore:
        iterator = iterator.rest
    position: Position = {"kind": "layers", "count": count, "inexact": []}
    if birth is not None and is_bar(birth.iterable):
        position["kind"] = "bar"
        inner = bar_iterator(birth.iterable, iterator)
        shape = None if inner is None else layers.describe(inner)
    else:
        shape = layers.describe(iterator)
    if shape is None:
        position["kind"] = "replay"
    else:
        position["shape"] = shape
        position["inexact"] = list(shape.get("inexact", ()))
    if birth is not None:
        position["streams"] = birth.streams
        now = holdings.take(_root(birth.iterable), most=_LARGEST)
        position["values"] = list(holdings.changes(birth.values, now))
        if shape is None:
            position["after"] = {name: plain.digest(state) for name, state in streams.take().items()}
    return position


def put_back(iterable: Any, position: Position) -> Iterator[Any]:
    """An iterator over the same iterable, of this process, that yields the item after the first `count`.

    Leaves the global streams and the iterable's own generators as it found them. The program's objects (datasets, samplers) must
    have been restored before: workers that are started here take a copy of them. `born_as` gives the birth for the next `take`.
    """
    outside = streams.take()
    try:
        if position["kind"] == "replay":
            return _replay(iterable, position)
        return _put_back_layers(iterable, position)
    finally:
        streams.put_back(outside)
        _values(iterable, position, 1)


def _values(iterable: Any, position: Position, which: int) -> None:
    """The generators and small values of the iterable: 0, at the beginning; 1, at the position."""
    if "values" in position:
        holdings.put_back(_root(iterable), position["values"][which], most=_LARGEST)


def _beginning(iterable: Any, position: Position) -> Callable[[], None]:
    def begin_again() -> None:
        streams.put_back(position.get("streams", {}))
        _values(iterable, position, 0)

    return begin_again


def _put_back_layers(iterable: Any, position: Position) -> Iterator[Any]:
    shape, bar = position["shape"], iterable if position["kind"] == "bar" else None
    source = iterable if bar is None else bar.iterable
    again = Again(position["count"], _beginning(iterable, position), position["inexact"])
    if hasattr(type(source), "__next__"):  # others are made anew
        again.there = there(source, shape)
    again.begin()
    again.begun[0] = True
    if shape["kind"] == "loader" and loaders.is_loader(source):
        made = loaders.put_back(source, shape)
        again.said += [sentence for sentence in shape["inexact"] if sentence not in again.said]
    else:
        made = layers.restore(iter(source), shape, again)
    if bar is None:
        return made  # type: ignore[no-any-return]
    bar.iterable = Ready(made, source)
    bar.n = bar.last_print_n = position["count"]
    return iter(bar)


def _replay(iterable: Any, position: Position) -> Iterator[Any]:
    """Made anew under the streams of its beginning, and advanced."""
    count, said = position["count"], position["inexact"]
    if hasattr(type(iterable), "__next__") and _is_there(iterable, position):
        return iterable  # type: ignore[no-any-return]  # an object that is its own iterator, and was restored as an object
    _beginning(iterable, position)()
    before = streams.take()
    iterator: Iterator[Any] = iter(iterable)
    done = simple.skip(iterator, count)
    if done < count:
        raise RestoredOtherwise([f"{_name(iterable)} ended after {done} of the {count} items that were taken from it"])
    after = streams.take()
    if hasattr(type(iterable), "__next__") and _is_there(iterable, position):
        return iterator  # whatever it drew, it holds what it held
    for name in streams.moved(before, after):
        if plain.digest(after[name]) != position.get("after", {}).get(name):
            said.append(
                f"{_name(iterable)} draws from the random stream of {name}, and so does other code: it may not yield the same again"
            )
    return iterator


def _is_there(iterable: Any, position: Position) -> bool:
    recorded = position["values"][1] if "values" in position else {}
    live = holdings.take(iterable, most=_LARGEST) if recorded else {}
    return bool(recorded) and all(live.get(name) == value for name, value in recorded.items())


def _name(iterable: Any) -> str:
    return f"a {type(iterable).__module__}.{type(iterable).__qualname__}".replace("builtins.", "")
