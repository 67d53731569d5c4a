"""Iterators that a loop runs over and a variable holds: which stay one object, and that they are brought on in place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rearview.state.iterating.shared import come_apart
from tests.unit.state.round_trip import put, taken

DATA = [3, 1, 2, 5, 4]
STAY: dict[str, Callable[[], Iterator[Any]]] = {
    "range": lambda: iter(range(2, 20, 3)),
    "list": lambda: iter(DATA),
    "enumerate": lambda: enumerate(DATA, 7),
    "count": lambda: itertools.count(4, 2),
    "zip": lambda: zip(DATA, itertools.count(), strict=False),
    "map": lambda: map(abs, iter(range(9))),
}
APART: dict[str, Callable[[], Iterator[Any]]] = {
    "cycle": lambda: itertools.cycle(DATA),
    "dict": lambda: iter(dict.fromkeys(DATA)),
    "zip over a cycle": lambda: zip(DATA, itertools.cycle(DATA), strict=False),
    "fractions": lambda: itertools.count(0.5, 0.25),
    "islice": lambda: itertools.islice(DATA, 4),
}


@pytest.mark.parametrize("make", STAY.values(), ids=STAY)
def test_one_that_stays_is_brought_on_where_it_is(make: Callable[[], Iterator[Any]]) -> None:
    then = make()
    skipped = [next(then), next(then)]
    kept = taken(it=then)
    rest = list(itertools.islice(then, 2))
    live = make()
    assert put(kept, it=live)["it"] is live
    assert list(itertools.islice(live, 2)) == rest != skipped
    assert come_apart(live, [live]) == []


@pytest.mark.parametrize("make", APART.values(), ids=APART)
def test_one_that_comes_back_as_two_is_named_where_a_variable_holds_it(make: Callable[[], Iterator[Any]]) -> None:
    source = make()
    (said,) = come_apart(source, [1, source])
    assert type(source).__name__ in said
    assert come_apart(source, [1, make()]) == []
    (said,) = come_apart(zip(DATA, source, strict=False), [source])
    assert type(source).__name__ in said


def test_what_is_iterated_over_is_no_iterator() -> None:
    assert come_apart(DATA, [DATA]) == []
