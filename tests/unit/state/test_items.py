"""What a nested loop runs over, where that is plain data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rearview.state.iterating import items


@pytest.mark.parametrize("held", [[3, 1, 2], (0.5, None, "x"), [("a", 1), ("b", (2, b"c"))], []])
def test_plain_items_come_back(held: Any) -> None:
    kept = items.of(held)
    other = type(held)([*held, 4])
    back = items.as_they_were(other, kept)
    assert (type(back), back) == (type(held), held)
    same = type(held)(list(held))
    assert items.as_they_were(same, kept) is same, "the program's own stays"


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
