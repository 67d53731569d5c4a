"""Iterators that the program holds in variables, as an adapter of the walk over its state.

Taking one gives what the walk goes on with: plain data, and the live things that are needed to make the iterator anew. Putting
one back has two steps, because workers take a copy of the dataset when they start: `put` names the object to use, `settle`, once
everything else is restored and before the random streams are, brings each to its place. Loaders come first: generators run over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType, GeneratorType
from typing import Any

from rearview.state import loaders, streams
from rearview.state.iterating import generators, layers
from rearview.state.iterating.liveness import alive
from rearview.state.loading import watched
from rearview.state.take.walk import Uncapturable

Described = dict[str, Any]


def describe_iterator(iterator: Any) -> Described | None:
    """What is to be kept of an iterator of a loader, or of a Python generator; None for anything else, or one that is running."""
    if loaders.is_iterator(iterator):
        position = loaders.take_live(iterator)
        return {"kind": "loader", "loader": loaders.loader_of(iterator), "position": position, "inexact": position["inexact"]}
    if not generators.is_generator(iterator):
        return None
    shape = generators.describe(iterator)
    if shape is None:
        return None
    described: Described = {"kind": "generator", "shape": shape, "inexact": [*shape["inexact"], *generators.untold(shape)]}
    if not shape["finished"]:
        described |= _made_of(iterator)
    return described


def _made_of(generator: GeneratorType[Any, Any, Any]) -> Described:
    """The function and arguments it was made of, and the variables that still matter."""
    variables = generators.variables_of(generator)
    code = generator.gi_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    matter = alive(code, -1 if generator.gi_frame is None else generator.gi_frame.f_lasti)
    return {
        "function": generators.function_of(generator),
        "args": [variables.get(name) for name in names[: code.co_argcount]],
        "options": {name: variables.get(name) for name in names[code.co_argcount :]},
        "lists": generators.lists_in(generator),
        "variables": {name: value for name, value in variables.items() if name in matter and not hasattr(type(value), "__next__")},
    }


def restore_iterator(live: Any, described: Described, said: list[str] | None = None) -> Any:
    """Bring an iterator to where the described one was; a live one in place. Leaves the global streams as it found them."""
    sentences: list[str] = [] if said is None else said
    outside = streams.take()
    try:
        if described["kind"] == "loader":
            position = described["position"]
            made = loaders.put_back_live(live, position, described["loader"])
            sentences += position["inexact"]
            return made
        live = _generator(live, described)
        if live is None:
            sentences.append(f"the generator {described['shape']['code']} is not there and could not be made again")
            return None
        generators.restore(live, described["shape"], layers.Again(said=sentences), described.get("variables"), described.get("lists", ()))
        return live
    finally:
        streams.put_back(outside)


def _generator(live: Any, described: Described) -> Any:
    if generators.is_generator(live) and live.__qualname__ == described["shape"]["code"]:
        return live
    function = described.get("function")
    if isinstance(function, FunctionType) and not _is_expression(function):
        return function(*described["args"], **described["options"])
    return None


def _is_expression(function: FunctionType) -> bool:
    """Whether a function makes a generator expression: it wants an iterator, and crashes the process with anything else."""
    return function.__code__.co_varnames[:1] == (".0",)


class _Lost:
    """Stands where an iterator was: whoever draws from it is told, instead of going on with something else."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise RuntimeError(f"{self._name} was not kept, and could not be made again when the state was put back")


class Iterators:
    """The adapter. One object for each capture or restore."""

    name = "iterator"

    def __init__(self, elsewhere: Iterable[object] = ()) -> None:
        self._elsewhere = list(elsewhere)
        """Iterators whose positions are kept with the loops they are in."""
        self.inexact: list[str] = []
        """What was taken, or put back, and may not be exact."""
        self._waiting: list[tuple[Any, Described]] = []

    def fits(self, kind: type) -> bool:
        """Whether it takes objects of that type."""
        return kind is GeneratorType or loaders.is_iterator_type(kind)

    def take(self, value: Any) -> Described:
        """What is to be kept of an iterator; the walk goes on with it."""
        if any(value is iterator for iterator in self._elsewhere):
            return {"kind": "elsewhere"}
        described = describe_iterator(value)
        if described is None:
            raise Uncapturable("a generator that is running")
        self.inexact += described["inexact"]
        return described

    def put(self, live: Any, state: Described) -> Any:
        """The object to use; it is brought to its place by `settle`."""
        if state["kind"] == "elsewhere":
            return live
        if state["kind"] == "loader":
            made = live if loaders.is_iterator(live) else watched.shell(state["loader"])
        else:
            made = _generator(live, state)
        if made is not None:
            self._waiting.append((made, state))
        else:
            self.inexact.append(f"an iterator ({state['kind']}) is not there and could not be made again")
            made = _Lost(str(state["shape"]["code"]))  # not nothing: code written in C may take it for an iterator without looking
        return made

    def settle(self) -> list[str]:
        """Bring every iterator to its place: after everything else is restored, before the random streams are. What is inexact."""
        waiting, self._waiting = self._waiting, []
        for made, state in sorted(waiting, key=lambda pair: pair[1]["kind"] != "loader"):
            restore_iterator(made, state, self.inexact)
        self.inexact = list(dict.fromkeys(self.inexact))
        return self.inexact
