"""The position of a progress bar."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from rearview.state import positions

tqdm = pytest.importorskip("tqdm").tqdm


@pytest.mark.parametrize("make", [lambda: range(4), lambda: list("abcd"), lambda: {"a": 1, "b": 2, "c": 3, "d": 4}])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_put_back_it_is_where_it_was_before_anything_is_taken_from_it(make: Callable[[], Iterable[Any]], count: int) -> None:
    def bar() -> Any:
        return tqdm(make(), file=io.StringIO())

    live = bar()
    birth = positions.begin(live)
    iterator = iter(live)
    for _ in range(count):
        next(iterator)
    taken = positions.take(iterator, birth, count)
    again = bar()
    back = positions.put_back(again, taken)
    assert positions.take(back, positions.born_as(again, taken), count) == taken
    assert list(back) == list(make())[count:]
