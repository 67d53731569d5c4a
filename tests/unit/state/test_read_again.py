"""Loops over iterators that the program made around objects of its own, which reading changes: read again from where the loop began."""

from __future__ import annotations

import copy
import itertools
import random
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rearview.state import positions
from rearview.store import encoding


class Source:
    """Shuffles numbers through a buffer by a generator of its own, and counts."""

    def __init__(self) -> None:
        self.rng = random.Random(5)
        self.seen = 0
        self.last: deque[int] = deque(maxlen=5)

    def __iter__(self) -> Iterator[float]:
        buffer: list[int] = []
        for number in range(40):
            self.seen += 1
            buffer.append(number)
            self.last.append(number)
            if len(buffer) > 6:
                yield buffer.pop(self.rng.randrange(len(buffer))) + self.seen / 100


class Counter(Source):
    """Its own iterator."""

    def __iter__(self) -> Iterator[float]:
        return self  # type: ignore[return-value]

    def __next__(self) -> float:
        self.seen += 1
        return self.seen + self.rng.random()


def _drawing(source: Source) -> Callable[[], float]:
    def draw() -> float:
        source.seen += 1
        return source.seen + source.rng.random()

    return draw


AROUND: dict[str, Callable[[Any], Any]] = {
    "itself": lambda source: source,
    "map": lambda source: map(abs, source),
    "filter": lambda source: filter(lambda number: int(number) % 3, source),
    "islice": lambda source: itertools.islice(source, 3, 30, 2),
    "chain": lambda source: itertools.chain(source, [1, 2, 3], source),
    "chain of a list": lambda source: itertools.chain.from_iterable([source, [5, 6]]),
    "takewhile": lambda source: itertools.takewhile(lambda number: number < 1000, source),
    "accumulate": lambda source: itertools.accumulate(source),
    "zip": lambda source: zip(range(50), source, strict=False),
    "expression": lambda source: (at * number for at, number in enumerate(source)),
    "expression over a longest": lambda source: (a + b for a, b in itertools.zip_longest(source, range(50), fillvalue=0)),
    "calls": lambda source: iter(_drawing(source), -1.0),
}


def _kept(source: Source) -> Any:
    return copy.deepcopy(vars(source))


@pytest.mark.parametrize("kind", [Source, Counter])
@pytest.mark.parametrize("taken", [1, 5, 9])
@pytest.mark.parametrize("around", AROUND)
def test_it_goes_on_as_it_would_have(around: str, taken: int, kind: Callable[[], Source]) -> None:
    source = kind()
    iterable = AROUND[around](source)
    birth = positions.begin(iterable)
    items = iter(iterable)
    for _ in range(taken):
        next(items)
    position = encoding.decode(encoding.encode(positions.take(items, birth, taken)))
    kept = _kept(source)
    expected = list(itertools.islice(items, 6))
    again = kind()
    vars(again).update(kept)
    restored = positions.put_back(AROUND[around](again), position)
    assert (again.seen, again.rng.getstate(), again.last) == (kept["seen"], kept["rng"].getstate(), kept["last"])
    assert list(itertools.islice(restored, 6)) == expected
    assert position["inexact"] == []


def test_calls_that_hide_how_far_they_are_in_c_are_counted() -> None:
    def numbers() -> Any:
        return re.finditer(r"\d+", " ".join(map(str, range(30))))

    iterable = numbers()
    birth = positions.begin(iterable)
    for _ in range(4):
        next(iterable)
    position = positions.take(iterable, birth, 4)
    restored = positions.put_back(numbers(), position)
    assert [int(found.group()) for found in itertools.islice(restored, 3)] == [4, 5, 6]
