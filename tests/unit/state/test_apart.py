"""Where two states of a variable come apart."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from rearview.state.apart import Apart
from rearview.state.capture import capture
from rearview.state.leaves import State
from rearview.testing.states import roots


def _apart(then: dict[str, Any], now: dict[str, Any], *told: str) -> Apart:
    states = [capture(roots(**named)) for named in (then, now)]
    return Apart(
        *(State(one.tree, [bytes(buffer.memory()) for buffer in one.buffers]) for one in states),
        lambda path, kind: path in told or kind in told,
    )


def _places(then: Any, now: Any, *told: str) -> list[str]:
    return _apart({"it": then}, {"it": now}, *told).places(("given", "it"))


class Part:
    """Something with attributes."""

    def __init__(self, **more: Any) -> None:
        vars(self).update(more)


def _trainer(**more: Any) -> Any:
    """Everything in it leads to everything."""
    made: Any = Part(log={"loss": [1.0]}, **more)
    made.callbacks = [Part(trainer=made, best=None)]
    return made


def test_what_holds_the_same_and_is_shared_otherwise_is_told_from_what_is_in_another_order() -> None:
    one = [1]
    for then, now, shared in (([one, one], [one, [1]], {"it"}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, set()), ({1, 2}, {1, 3}, set())):
        apart = _apart({"it": then}, {"it": now})
        assert apart.places(("given", "it")) == ["it"]
        assert apart.shared == shared


@pytest.mark.parametrize(
    ("then", "now", "places"),
    [
        (1, 2, ["it"]),
        ([1, "a", [2.5, None]], [1, "a", [2.5, ()]], ["it[2][1]"]),
        ({"a": 1, 2: {"b": 3}}, {"a": 1, 2: {"b": 4}}, ["it[2]['b']"]),
        ({"a": 1}, {"a": 1, "b": 2}, ["it['b']"]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, ["it"]),
        (deque([[1], [2]]), deque([[1], [3]]), ["it[1][0]"]),
        (_trainer(seed=1), _trainer(seed=2), ["it.seed"]),
        (_trainer(seed=1), _trainer(), ["it.seed"]),
        ({1, 2}, {1, 3}, ["it"]),
    ],
)
def test_the_way_to_the_place_is_named(then: Any, now: Any, places: list[str]) -> None:
    assert _places(then, now) == places


def test_what_was_told_is_no_difference_and_hides_none() -> None:
    then, now = _trainer(seed=1, bar=1), _trainer(seed=2, bar=2)
    assert _places(then, now, "it.bar") == ["it.seed"]
    assert _places(then, now, "it.bar", "it.seed") == []
    assert _places([1, [2]], [1, [3]], "list") == []


def test_what_a_state_does_not_hold_is_no_difference() -> None:
    then, now = _trainer(seed=1, lock=memoryview(b"x")), _trainer(seed=2, lock=None)
    assert _places(then, now) == ["it.seed"]


def test_a_file_that_is_written_and_is_another_one_now_is_said_elsewhere(tmp_path: Path) -> None:
    with open(tmp_path / "then", "w") as then, open(tmp_path / "now", "w") as now, open(tmp_path / "then") as read:
        then.write("abc")
        assert _places([then, 1], [now, 1]) == []
        assert _places([then, 1], [now, 2]) == ["it[1]"]
        assert _places([then], [None]) == []
        assert _places([read], [None]) == ["it[0]"]


def test_what_is_only_shared_is_told_apart_from_what_differs() -> None:
    one, other = [1], [2]
    apart = _apart({"a": one, "b": one}, {"a": other, "b": other})
    assert apart.is_other(("given", "a"))
    shared = _apart({"a": one, "b": one}, {"a": one, "b": [1]})
    assert not shared.is_other(("given", "b"))
    assert shared.places(("given", "b")) == ["b"]


@pytest.mark.torch
def test_tensors_and_their_gradients_are_called_as_programs_do() -> None:
    torch = pytest.importorskip("torch")
    first, second = (torch.nn.Sequential(torch.nn.Linear(2, 2)) for _ in range(2))
    second.load_state_dict(first.state_dict())
    second[0].weight.grad = torch.ones(2, 2)
    assert _places(first, second) == ["it.0.weight.grad"]
    with torch.no_grad():
        second[0].weight.grad = None
        second[0].bias += 1
    assert _places(first, second) == ["it.0.bias"]
