"""Python generators held in variables come back to where they were, also where they run over ranges that they made on the way."""

from __future__ import annotations

import io
import itertools
import random
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from rearview.state import restore
from rearview.state import tree as trees
from rearview.state.capture import Captured, capture
from rearview.state.iterating.adapter import Iterators


def numbers() -> Iterator[float]:
    k, sign = 0, 1
    while True:
        for at in range(k, k + 5):
            yield sign * 0.01 * at
        k, sign = k + 5, -sign


class Squares:
    """Has nothing but `__getitem__`."""

    def __getitem__(self, at: int) -> int:
        if at >= 40:
            raise IndexError
        return at * at


class Falling:
    """An iterator of the program's own."""

    def __init__(self) -> None:
        self.left = 40

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.left -= 1
        return self.left


def over(make: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """Generators in the middle of a `for` statement over it."""

    def given() -> Iterator[Any]:
        for one in make():  # noqa: UP028 (the statement is what this is about)
            yield one

    return given


class Bytes:
    """The buffers of a capture as they were."""

    def __init__(self, captured: Captured) -> None:
        self._kept = [bytes(buffer.memory()) for buffer in captured.buffers]

    def size(self, index: int) -> int:
        return len(self._kept[index])

    def into(self, index: int, dest: memoryview) -> None:
        dest[:] = self._kept[index]


told = pytest.mark.skipif(sys.version_info >= (3, 14), reason="itertools do not tell what they are made of")


@pytest.mark.parametrize(
    "make",
    [
        numbers,
        lambda: itertools.cycle([0.1, 0.2, 0.3]),
        lambda: itertools.count(10),
        over(Squares),
        over(Falling),
        lambda: (one + 1 for one in Squares()),  # type: ignore[attr-defined]
        pytest.param(over(lambda: itertools.cycle([1, 5, 7, 11])), marks=told),
        pytest.param(over(lambda: itertools.product(range(5), range(6))), marks=told),
        pytest.param(over(lambda: itertools.permutations(range(4))), marks=told),
        pytest.param(over(lambda: enumerate(itertools.accumulate(range(40)))), marks=told),
    ],
)
@pytest.mark.parametrize("taken", [0, 1, 5, 6, 10, 15, 17])
def test_goes_on_where_it_was(make: Callable[[], Any], taken: int) -> None:
    key = ("global", "m", "g")
    live = make()
    for _ in range(taken):
        next(live)
    captured = capture({key: live}, adapters=[Iterators()])
    kept, state = Bytes(captured), trees.decode(trees.encode(captured.tree))
    expected = [next(live) for _ in range(7)]
    iterators = Iterators()
    restored: Any = restore.plan(state, {key: make()}, kept, adapters=[iterators]).apply()[key]
    assert [next(restored) for _ in range(7)] == expected
    assert iterators.inexact == []


class Drawing(Falling):
    """What it holds does not tell how far it is."""

    def __init__(self) -> None:
        self.source = iter(map(str, range(40)).__next__, "40")

    def __next__(self) -> Any:
        return next(self.source)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (over(lambda: io.StringIO("1\n2\n3\n4\n5\n")), "StringIO"),
        (over(lambda: itertools.pairwise(range(40))), "pairwise"),
        (over(lambda: zip(range(40), iter(map(int, range(40)).__next__, 40), strict=True)), "zip"),
        (over(Drawing), "Drawing"),
    ],
)
def test_what_does_not_tell_how_far_it_is_is_named(make: Callable[[], Any], kind: str) -> None:
    key = ("global", "m", "g")
    live = make()
    taking = Iterators()
    capture({key: live}, adapters=[taking])
    assert taking.inexact == [], "it has not begun"
    next(live), next(live)
    captured = capture({key: live}, adapters=[taking])
    (sentence,) = taking.inexact
    assert sentence.startswith("the generator") and f"runs over a {kind}, which does not tell how far it is" in sentence
    putting = Iterators()
    restore.plan(captured.tree, {key: make()}, Bytes(captured), adapters=[putting]).apply()
    assert sentence in putting.inexact


def sums() -> Generator[float, float, None]:
    total = 0.0
    while True:
        sent = yield total
        total += sent


def added() -> Generator[float, float, None]:
    total = 0.0
    while True:
        total += yield total  # what it was before waits for what is sent, out of sight


def averages() -> Generator[float, float, None]:
    total = yield 0.0
    count = 1
    while True:
        sent = yield total / count
        total, count = total + sent, count + 1


def test_what_is_sent_to_a_generator_is_not_needed_where_one_step_leads_there() -> None:
    key = ("global", "m", "g")
    live = sums()
    next(live), live.send(2.0), live.send(3.0)
    taking, putting = Iterators(), Iterators()
    captured = capture({key: live}, adapters=[taking])
    back: Any = restore.plan(captured.tree, {key: sums()}, Bytes(captured), adapters=[putting]).apply()[key]
    assert back.send(4.0) == 9.0
    assert taking.inexact == putting.inexact == []


def drifting(draw: random.Random, first: float) -> Generator[float, float | None, None]:
    total = 0.0
    for _ in itertools.count() if first == int(first) else itertools.count(first):
        total += draw.random()
        got = yield total
        if got:
            total += got


@pytest.mark.parametrize("first", [0, 0.5])
def test_what_is_sent_to_a_generator_that_counts(first: float) -> None:
    """It runs over a count, which can only be moved forward: as far as it had come, without running the body."""

    def program() -> dict[tuple[str, ...], Any]:
        draw = random.Random(5)
        return {("global", "m", "draw"): draw, ("global", "m", "g"): drifting(draw, first)}

    live = program()
    walk = live["global", "m", "g"]
    next(walk), walk.send(3.0), next(walk), walk.send(2.0)
    taking, putting = Iterators(), Iterators()
    captured = capture(live, adapters=[taking])
    kept, state = Bytes(captured), trees.decode(trees.encode(captured.tree))
    expected = [next(walk), walk.send(1.0), next(walk)]
    back: Any = restore.plan(state, program(), kept, adapters=[putting]).apply()["global", "m", "g"]
    if taking.inexact:
        assert first == 0.5
        assert "came there by what was sent to it" in taking.inexact[0]
    else:
        assert [next(back), back.send(1.0), next(back)] == expected
        assert putting.inexact == []


def test_a_generator_that_came_there_by_what_was_sent_to_it_is_named() -> None:
    key = ("global", "m", "g")
    live = averages()
    taking = Iterators()
    next(live)
    capture({key: live}, adapters=[taking])
    assert taking.inexact == [], "nothing was sent"
    live.send(2.0), live.send(4.0)
    capture({key: live}, adapters=[taking])
    (sentence,) = taking.inexact
    assert "averages came there by what was sent to it" in sentence


def test_values_of_an_expression_that_a_generator_is_in_the_middle_of_are_named() -> None:
    key = ("global", "m", "g")
    live = added()
    next(live), live.send(2.0)
    taking, putting = Iterators(), Iterators()
    captured = capture({key: live}, adapters=[taking])
    (sentence,) = taking.inexact
    assert "added is in the middle of an expression" in sentence
    restore.plan(captured.tree, {key: added()}, Bytes(captured), adapters=[putting]).apply()
    assert sentence in putting.inexact


def test_generators_that_nothing_can_be_sent_to_are_not_named() -> None:
    def several() -> Iterator[int]:
        yield 1
        yield from (2, 3)
        yield 4

    key = ("global", "m", "g")
    for taken in range(5):
        live, taking = several(), Iterators()
        for _ in range(taken):
            next(live)
        capture({key: live}, adapters=[taking])
        assert taking.inexact == []


def test_a_generator_expression_that_cannot_be_made_again_says_so_when_it_is_drawn_from() -> None:
    def shared(taken: int) -> dict[tuple[str, ...], Any]:
        first, second = itertools.tee(number * 0.5 for number in range(9))
        next(second)
        for _ in range(taken):
            next(first), next(second)
        return {("global", "m", "first"): first, ("global", "m", "second"): second}

    captured = capture(shared(3), adapters=[Iterators()])
    kept, state = Bytes(captured), trees.decode(trees.encode(captured.tree))
    again = Iterators()
    back = restore.plan(state, shared(0), kept, adapters=[again]).apply()
    assert next(back["global", "m", "first"]) == 1.5  # one of them was ahead: that much is known
    with pytest.raises(RuntimeError, match="genexpr> was not kept"):
        next(back["global", "m", "first"])
    assert "could not be made again" in again.inexact[0]
