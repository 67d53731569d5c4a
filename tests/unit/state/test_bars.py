"""The position of a progress bar."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from rearview.state import positions
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept, roots

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


def bar_over(within: Any) -> Any:
    return tqdm(within, file=io.StringIO())


def test_a_bar_in_a_variable_stays_and_what_it_runs_over_is_kept() -> None:
    captured = capture(roots(bar=bar_over(["a", "b"])))
    assert captured.missing == [] and [one.where for one in captured.unlike] == ["bar"]  # a statement that reads it is not answered from it
    live = bar_over(["x"])
    again = plan(captured.tree, roots(bar=live), Kept(captured)).apply()
    assert again["given", "bar"] is live and live.iterable == ["a", "b"]


def test_a_bar_around_an_iterator_is_named() -> None:
    captured = capture(roots(bar=bar_over(iter("ab"))))
    assert [one.where for one in captured.missing] == ["bar"]


def test_its_node_is_made_as_all_others_are() -> None:
    """The collector looks through what is no tuple at every turn, and who reads a tree asks for one."""
    tree = capture(roots(bar=tqdm(range(3), file=io.StringIO()))).tree
    assert [kind for kind, payload in tree.nodes if isinstance(payload, list)] == []
