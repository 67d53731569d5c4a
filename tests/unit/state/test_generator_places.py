"""Python generators held in variables come back to where they were, also where they run over ranges that they made on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
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


class Bytes:
    """The buffers of a capture as they were."""

    def __init__(self, captured: Captured) -> None:
        self._kept = [bytes(buffer.memory()) for buffer in captured.buffers]

    def size(self, index: int) -> int:
        return len(self._kept[index])

    def into(self, index: int, dest: memoryview) -> None:
        dest[:] = self._kept[index]


@pytest.mark.parametrize("make", [numbers, lambda: itertools.cycle([0.1, 0.2, 0.3]), lambda: itertools.count(10)])
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
