"""What a program puts around a loop counts along when the loop is resumed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from rearview.state.iterating.around import bring_on, settle, taken

tqdm = pytest.importorskip("tqdm").tqdm


class Resumed:
    """An iterator that finds at its first item that it begins at a later one."""

    def __init__(self, items: list[str], at: int) -> None:
        self._items = iter(items[at:])
        self._at = at
        self.said: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._at:
            self.said, self._at = bring_on(self, self._at), 0
        return next(self._items)


def passing(items: Any) -> Iterator[Any]:
    yield from items


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize(
    "wrap",
    [
        enumerate,
        lambda loop: enumerate(loop, 7),
        lambda loop: zip(loop, range(10), "vwxyz", strict=False),
        lambda loop: enumerate(zip(loop, range(10), strict=False)),
        lambda loop: enumerate(tqdm(loop, disable=None)),
        lambda loop: tqdm(enumerate(loop), disable=None),
        lambda loop: passing(enumerate(loop)),
        lambda loop: map(str.upper, loop),
        lambda loop: enumerate(map(str.upper, loop)),
        lambda loop: zip(enumerate(loop), itertools.count(3), strict=False),
        lambda loop: ((k, x) for k, x in enumerate(loop)),
    ],
)  # fmt: skip
def test_counts_along(wrap: Any, at: int) -> None:
    whole = list(wrap(iter("abcde")))
    loop = Resumed(list("abcde"), at)
    assert list(wrap(loop)) == whole[at:]
    assert not loop.said


def test_what_cannot_count_along_is_said() -> None:
    for wrap in (lambda loop: zip(range(10), loop, strict=False), lambda loop: itertools.islice(loop, 4)):
        loop = Resumed(list("abcde"), 2)
        list(wrap(loop))
        assert len(loop.said) == 1


def test_an_enumerate_goes_back_a_step_and_a_zip_says_that_it_cannot() -> None:
    inner = iter("abc")
    counting = enumerate(inner, 5)
    assert next(counting) == (5, "a")
    assert bring_on(inner, -1) == []
    assert next(counting) == (5, "b")
    other = iter("abc")
    zipped = zip(other, range(3), strict=False)
    next(zipped)
    assert len(bring_on(other, -1)) == 1


def test_a_generator_of_the_program_may_take_more_than_it_gives() -> None:
    def pairs(items: Any) -> Iterator[Any]:
        for one in items:
            yield one, next(items)

    assert [number for number, _ in enumerate(pairs(Resumed(list("abcdef"), 2)))] == [0, 1]


def test_an_enumerate_of_something_else_is_left_alone() -> None:
    other = enumerate("abc")
    loop = Resumed(list("abcde"), 2)
    assert [number for number, _ in enumerate(loop)] == [2, 3, 4]
    assert next(other) == (0, "a")


def test_what_draws_at_random_and_does_not_tell_where_it_is_is_said() -> None:
    loop = Resumed(list("abcde"), 2)
    list(zip(loop, iter(random.random, 2.0), strict=False))
    assert len(loop.said) == 1 and "draws at random" in loop.said[0]


def test_what_was_taken_of_a_generator_is_put_back_instead_of_advancing_it() -> None:
    inner, other = iter("abcde"), passing("vwxyz")
    pairs = zip(inner, other, strict=False)
    assert list(itertools.islice(pairs, 2)) == [("a", "v"), ("b", "w")]
    shapes, said = taken(inner)
    assert said == []
    again = iter("cde")
    resumed = zip(again, passing("vwxyz"), strict=False)
    assert bring_on(again, 2, shapes) == []
    assert settle(again, shapes) == []
    assert list(resumed) == list(pairs) == [("c", "x"), ("d", "y"), ("e", "z")]


def test_what_stands_before_it_in_a_zip_is_said() -> None:
    inner = iter([1, 2, 3])
    held = zip(range(3), inner, strict=False)
    shapes, said = taken(inner)
    assert shapes == []
    assert "put the loop first" in said[0]
    assert next(held) == (0, 1)
