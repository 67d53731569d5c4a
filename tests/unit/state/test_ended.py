"""Iterators in variables that have come to their end, and those over dicts and sets that have not."""

from __future__ import annotations

import array
import collections
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.testing.states import roots
from tests.unit.state.round_trip import put, taken


class _Numbers:
    def __getitem__(self, number: int) -> int:
        if number > 1:
            raise IndexError(number)
        return number


WAYS: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([1, 2]),
    "tuple": lambda: iter((1, 2)),
    "text": lambda: iter("ab"),
    "text beyond ASCII": lambda: iter("\N{INFINITY}b"),
    "bytes": lambda: iter(b"ab"),
    "bytearray": lambda: iter(bytearray(b"ab")),
    "array": lambda: iter(array.array("d", [1.0])),
    "range": lambda: iter(range(2)),
    "items by number": lambda: iter(_Numbers()),  # type: ignore[call-overload]
    "calls": lambda: iter(iter([1, 2]).__next__, 2),
    "backwards": lambda: reversed([1, 2]),
    "backwards over a tuple": lambda: reversed((1, 2)),
    "dict": lambda: iter({1: 2}),
    "dict backwards": lambda: reversed({1: 2}),
    "values": lambda: iter({1: 2}.values()),
    "items": lambda: iter({1: 2}.items()),
    "set": lambda: iter({1, 2}),
    "ordered": lambda: iter(collections.OrderedDict(a=1)),
    "deque": lambda: iter(collections.deque([1])),
    "enumerate": lambda: enumerate([1, 2]),
    "zip": lambda: zip([1, 2], "ab", strict=False),
    "map": lambda: map(str, (1, 2)),
    "chain": lambda: itertools.chain([1], [2]),
    "islice": lambda: itertools.islice(range(9), 2),
    "accumulate": lambda: itertools.accumulate([1, 2]),
    "starmap": lambda: itertools.starmap(pow, [(1, 2)]),
}


UNTOLD = ("chain", "islice", "accumulate", "starmap") if sys.version_info >= (3, 14) else ()
"""Those that do not tell what they are made of."""


@pytest.mark.parametrize("way", [way for way in WAYS if way not in UNTOLD])
def test_one_that_has_ended_is_put_back_as_one_that_has(way: str) -> None:
    ended = WAYS[way]()
    for _ in ended:
        pass
    assert not capture(roots(it=ended)).unlike

    made = put(taken(it=ended), it=WAYS[way]())["it"]  # with the digest of what was taken

    assert type(made) is type(ended)
    assert list(made) == []


@pytest.mark.parametrize("way", ["dict", "dict backwards", "values", "items", "set", "ordered"])
def test_one_over_a_dict_or_set_is_said_to_come_back_otherwise(way: str) -> None:
    assert [one.where for one in capture(roots(it=WAYS[way]())).unlike] == ["it"]
