"""What a nested loop runs over, where that is plain data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rearview.state.capture import capture
from rearview.state.iterating import items


@pytest.mark.parametrize("held", [[3, 1, 2], (0.5, None, "x"), [("a", 1), ("b", (2, b"c"))], []])
def test_plain_items_come_back(held: Any) -> None:
    kept = items.of(held)
    other = type(held)([*held, 4])
    back = items.as_they_were(other, kept)
    assert (type(back), back) == (type(held), held)
    same = type(held)(list(held))
    assert items.as_they_were(same, kept) is same, "the program's own stays"


class Task:
    """Something that is no plain data."""


def test_objects_come_back_in_the_order_they_had() -> None:
    one, other = Task(), Task()
    given = [(0.5, one), (0.25, other)]
    assert items.of(given) is None
    assert items.objects(given) is given
    assert items.as_they_were(given, None, ((0.5, one), (0.25, other))) is given, "the program's own stays"
    assert items.as_they_were(given, None, ((0.25, other), (0.5, one))) == [(0.25, other), (0.5, one)]
    assert items.as_they_were((other, one), None, (one, other)) == (one, other)
    assert items.as_they_were(given, None, None) is given
    assert [items.objects(plain) for plain in ([1, 2], [], range(3), "ab")] == [None] * 4


def test_only_objects_that_the_state_holds_anyway_are_kept() -> None:
    tasks, key = [Task(), Task()], (items.KIND, 1)
    held = capture({("given", "tasks"): tasks, key: [("first", tasks[1]), tasks[0], 3]})
    numbers = held.tree.nodes[held.tree.roots["given", "tasks"]][1][2:]
    assert [held.tree.nodes[number][0] for number in numbers] == ["obj", "obj"]
    pair, second, _ = held.tree.nodes[held.tree.roots[key]][1][2:]
    assert (held.tree.nodes[pair][1][3], second) == (numbers[1], numbers[0])
    alone = capture({("given", "tasks"): tasks, key: [tasks[0], Task()]})
    assert list(alone.tree.roots) == [("given", "tasks")]


def test_items_of_an_array_come_back() -> None:
    order = np.argsort(np.array([3.0, 1.0, 2.0]))
    back = items.as_they_were(order[::-1], items.of(order))
    assert back.dtype == order.dtype
    assert back.tolist() == order.tolist()


@pytest.mark.parametrize(
    "other", [range(3), [[1]], [object()], ["x" * 30_000], list(range(30_000)), np.zeros((2, 2)), np.array([None]), {1: 2}]
)
def test_what_is_left_to_the_code(other: Any) -> None:
    assert items.of(other) is None
    assert items.as_they_were(other, ["list", [1]]) is other
