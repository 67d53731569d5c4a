"""Objects of all sorts: attributes, slots, protocols, names, iterators; and what cannot be kept."""

from __future__ import annotations

import abc
import argparse
import collections
import contextvars
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import itertools
import logging
import logging.handlers
import pathlib
import queue
import random
import re
import threading
import time
import types
import typing
import uuid
from typing import Any

import pytest

from rearview.errors import RestoreRefused
from rearview.state.restore import plan
from rearview.testing.states import roots
from tests.unit.state.round_trip import Reducing, Settings, put, taken


class Level(enum.IntEnum):
    LOW = 1


class Flags(enum.Flag):
    A = 1
    B = 2


class Count(int):
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0


class Slots:
    __slots__ = ("__dict__", "__private", "value")

    def __init__(self) -> None:
        self.__private = [1]
        self.extra = 2

    def private(self) -> list[int]:
        return self.__private


class AttrDict(dict):  # type: ignore[type-arg]
    """The trick that many training programs use."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.__dict__ = self


class Guarded:
    """Refuses attributes from outside, and counts what is asked of it."""

    asked = 0

    def __init__(self) -> None:
        object.__setattr__(self, "value", [1])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("frozen")

    def __getattr__(self, name: str) -> Any:
        type(self).asked += 1
        raise AttributeError(name)

    @property
    def expensive(self) -> int:
        type(self).asked += 1
        return 1


class Stateful:
    def __init__(self, items: list[int]) -> None:
        self.items, self.lock = items, threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"items": self.items}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.items = state["items"]
        self.lock = threading.Lock()


class Special(abc.ABC):
    registry: typing.ClassVar[list[int]] = []

    @abc.abstractmethod
    def run(self) -> None: ...


VALUES: list[Any] = [
    Level.LOW, Flags.A | Flags.B, Flags.A, Count(5), Point(1.0), Settings(names=["a"]), pathlib.Path("a/b"), dt.datetime(2020, 1, 2,
        tzinfo=dt.UTC),
    dt.timedelta(3), dt.date(2020, 1, 1), decimal.Decimal("1.50"), fractions.Fraction(1, 3), uuid.UUID(int=5), re.compile(r"a+",
        re.IGNORECASE),
    argparse.Namespace(lr=0.1, layers=[1, 2]), types.SimpleNamespace(a=1, b=[2]), collections.ChainMap({"a": 1}, {}),
    collections.UserDict(a=1),
    collections.Counter("abca"), time.struct_time(range(9)), functools.partial(int, base=2), functools.partial(print, sep="-"),
    ValueError("bad", 3), range(2, 9, 3), slice(1, 2), memoryview, type, int, dict[str, int], list[int] | None, typing.Optional[int],  # noqa: UP045
    Special, Special.registry, ..., NotImplemented, frozenset({1, "a"}), {1, 2}, bytearray(b"ab"), logging.getLogger("a.b"), 10**50,
    "\ud800", b"\0",
    itertools.count(5), itertools.cycle([1, 2]), queue.SimpleQueue, random.Random(3), types.MappingProxyType, str.join, {}.keys, print,
    "x" * 100_000,
    b"y" * 100_000, list(range(1000)), [0.5] * 100, ["a", "bü"] * 50, [True] * 70, tuple(range(100)), [2**70] * 70, (), [], {},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values(value: Any) -> None:
    kept = taken(value=value)
    for live in ({}, {"value": value}, {"value": None}):
        back = put(kept, **live)["value"]
        assert type(back) is type(value)
        assert str(back)[:500] == str(value)[:500] or " at 0x" in str(value)
        if not isinstance(
            value, (random.Random, BaseException, functools.partial, itertools.count, itertools.cycle, types.BuiltinFunctionType)
        ):
            assert back == value


def backwards(a: int, b: int) -> int:
    return b - a


def test_keys_made_of_a_comparison() -> None:
    key: Any = functools.cmp_to_key(backwards)
    kept = taken(key=key, heap=[key(5), key(2)])
    for live in ({}, {"key": key, "heap": None}):
        back = put(kept, **live)
        assert sorted([1, 3, 2], key=back["key"]) == [3, 2, 1]
        assert [one.obj for one in back["heap"]] == [5, 2]
        assert back["heap"][0] < back["heap"][1]


def test_attributes_in_place_and_in_order() -> None:
    o = Settings(names=["a"])
    o.later = {"k": [1]}  # type: ignore[attr-defined]
    kept = taken(o=o)
    names = o.names
    del o.lr
    o.names.append("b")
    o.lr, o.junk = 5.0, 1  # type: ignore[attr-defined]
    assert put(kept, o=o)["o"] is o
    assert o.names is names
    assert list(vars(o)) == ["lr", "names", "later"]
    assert vars(o) == {"lr": 0.1, "names": ["a"], "later": {"k": [1]}}


def test_slots_private_names_and_empty_ones() -> None:
    o = Slots()
    kept = taken(o=o)
    private = o.private()
    o.private().append(2)
    o.value = 3
    o.extra = 9
    assert put(kept, o=o)["o"] is o
    assert o.private() is private
    assert private == [1]
    assert not hasattr(o, "value")
    assert o.extra == 2


def test_frozen_and_guarded_objects_are_not_asked() -> None:
    o = Guarded()
    Guarded.asked = 0
    kept = taken(o=o, p=Point(1.0, 2.0))
    o.value.append(2)
    back = put(kept, o=o, p=Point(5.0))
    assert back["o"] is o
    assert o.value == [1]
    assert back["p"] == Point(1.0, 2.0)
    assert Guarded.asked == 0


def test_an_object_that_is_its_own_dict() -> None:
    o = AttrDict(lr=0.1, inner=AttrDict(a=1))
    kept = taken(o=o)
    for live in ({}, {"o": o}, {"o": AttrDict(lr=3, junk=1)}):
        back = put(kept, **live)["o"]
        assert back.lr == 0.1
        assert back.inner.a == 1
        back.new = 5
        assert back["new"] == 5
        assert back.__dict__ is back
        del back["new"]


def test_objects_that_give_out_their_state() -> None:
    o = Stateful([1, 2])
    kept = taken(o=o)
    items = o.items
    o.items.append(3)
    back = put(kept, o=o)["o"]
    assert back is o
    assert o.items is items
    assert items == [1, 2]
    assert put(kept)["o"].items == [1, 2]


def test_objects_with_their_own_way_of_being_copied() -> None:
    o = Reducing("a")
    kept = taken(o=o)
    notes = o.notes
    o.notes.append("b")
    before = Reducing.made
    back = put(kept, o=o)["o"]
    assert back is o
    assert o.notes is notes
    assert notes == ["a"]
    assert Reducing.made == before
    other = Reducing("z")
    assert put(kept, o=other)["o"].name == "a"


class Made:
    """Copied by a call that gives it attributes, with others put in afterwards."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.more: list[int] = []

    def __reduce__(self) -> Any:
        return Made, (self.size,), {name: value for name, value in vars(self).items() if name != "size"}


def test_attributes_that_the_copying_call_gives_stay_beside_those_of_the_state() -> None:
    then, same, other = Made(3), Made(3), Made(4)
    then.more.append(1)
    kept = taken(it=then)
    same.since = True  # type: ignore[attr-defined]

    for live in (same, other):
        made = put(kept, it=live)["it"]
        assert vars(made) == {"size": 3, "more": [1]}
        assert (made is live) == (live is same)


def test_dict_order_keys_and_types_of_keys() -> None:
    o: dict[Any, Any] = {"b": 1, "a": 2, 1: "int", (1, "x"): "tuple", Level.LOW.name: 3, None: 4, 2.5: 5, Flags.B: 6, int: 7}
    kept = taken(o=o)
    o.pop("b")
    o["b"] = 9
    o["c"] = 1
    back = put(kept, o=o)["o"]
    assert back is o
    assert list(o.items()) == [("b", 1), ("a", 2), (1, "int"), ((1, "x"), "tuple"), ("LOW", 3), (None, 4), (2.5, 5), (Flags.B, 6), (int, 7)]
    flags: dict[Any, Any] = {True: "yes"}
    kept = taken(o=flags)
    live: dict[Any, Any] = {1: "yes"}
    back = put(kept, o=live)["o"]
    assert [type(key) for key in back] == [bool]


def test_sets_are_left_alone_if_nothing_changed() -> None:
    o = {"abc", "def", "ghi", "jkl"}
    order = list(o)
    kept = taken(o=o)
    put(kept, o=o)
    assert list(o) == order
    o.discard("abc")
    put(kept, o=o)
    assert o == {"abc", "def", "ghi", "jkl"}


def test_iterators_go_on_where_they_were() -> None:
    data = [10, 20, 30, 40]
    o = {"list": iter(data), "range": iter(range(5)), "enum": enumerate(data), "zip": zip(data, "abcd", strict=False),
        "rev": reversed(data),
         "map": map(str, iter(data)), "chain": itertools.chain(data, [1]), "count": itertools.count(3, 2), "cycle": itertools.cycle([1,
             2, 3]),
         "str": iter("abc"), "tuple": iter((1, 2, 3)), "dict": iter({"a": 1, "b": 2}), "data": data}  # fmt: skip
    for name, iterator in o.items():
        if name != "data":
            next(iterator)
    kept = taken(o=o)
    want = {name: list(itertools.islice(iterator, 6)) for name, iterator in o.items() if name != "data"}
    for live in ({}, {"o": o}):
        back = plan(kept.tree, roots(**live), kept).apply()["given", "o"]
        assert {name: list(itertools.islice(iterator, 6)) for name, iterator in back.items() if name != "data"} == want


def test_a_group_that_was_begun_does_not_come_again() -> None:
    def tens(values: range) -> Any:
        return itertools.groupby(iter(values), key=lambda n: n // 10)

    begun, within, between, fresh = (tens(range(40)) for _ in range(4))
    next(next(begun)[1])  # the group itself is forgotten
    _, group = next(within)
    next(group)
    next(between)
    o = {"begun": begun, "within": within, "group": group, "between": between, "fresh": fresh}
    kept = taken(o=o)
    for live in ({}, {"o": o}):
        back = plan(kept.tree, roots(**live), kept).apply()["given", "o"]
        assert list(back["group"]) == list(range(1, 10))
        assert [[key for key, _ in back[name]] for name in ("begun", "within", "between", "fresh")] == [[1, 2, 3]] * 3 + [[0, 1, 2, 3]]


def test_a_class_made_inside_a_function_is_found_at_the_live_objects() -> None:
    class Local:
        def __init__(self, n: int) -> None:
            self.n = n

    kept = taken(o=[Local(1), Local(2)])
    back = put(kept, o=[Local(5)])["o"]
    assert [type(item) for item in back] == [Local, Local]
    assert [item.n for item in back] == [1, 2]
    with pytest.raises(RestoreRefused, match="made inside a function"):
        plan(kept.tree, {}, kept)


def test_exceptions_and_modules() -> None:
    error = KeyError("k")
    error.note = [1]  # type: ignore[attr-defined]
    kept = taken(e=error, m=re, s=[re, time])
    back = put(kept, e=error)
    assert back["m"] is re
    assert back["s"] == [re, time]
    assert back["e"].args == ("k",)


DEPTH: contextvars.ContextVar[Any] = contextvars.ContextVar("DEPTH", default=0)


def test_variables_of_the_context_are_set() -> None:
    def inside() -> None:
        held = [1]
        unset = contextvars.ContextVar[int]("unset")
        DEPTH.set(held)
        kept = taken(depth=DEPTH, held=held, unset=unset)
        held.append(2)
        DEPTH.set([9])
        back = put(kept, depth=DEPTH, held=held, unset=unset)
        assert back["depth"] is DEPTH
        assert DEPTH.get() is held
        assert held == [1]
        assert back["unset"] is unset
        assert unset.get(5) == 5
        anew = put(kept, depth=None)
        assert anew["depth"].name == "DEPTH"
        assert anew["depth"].get() is anew["held"]

    contextvars.copy_context().run(inside)
