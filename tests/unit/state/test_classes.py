"""Classes that a program makes inside a function: what they hold is state, and no name leads to it."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.errors import RestoreRefused
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept, roots


def make() -> Any:
    state = {"w": 0.0}
    count = [0]

    class Base:
        log: list[float] = []  # noqa: RUF012 (one list for all)

        @property
        def calls(self) -> int:
            count[0] += 1
            return count[0]

    class Model(Base):
        seen = 0

        def __init__(self) -> None:
            super().__init__()
            self.bias = 0.0

        def fit(self, x: float, memory: list[float] = []) -> float:  # noqa: B006 (what is kept)
            state["w"] += x
            Model.seen += 1
            self.log.append(x)
            memory.append(x)
            return state["w"] + len(memory)

        @staticmethod
        def total() -> float:
            return state["w"]

        @classmethod
        def mark(cls) -> None:
            cls.marked = True  # type: ignore[attr-defined]

    return Model()


def told(model: Any) -> list[Any]:
    kind = type(model)
    return [model.fit(0.0), kind.seen, kind.total(), list(kind.log), model.calls, getattr(kind, "marked", None), model.bias]


def test_a_class_made_in_a_function_is_put_back_into_a_new_one() -> None:
    model = make()
    model.fit(1.5)
    model.mark()
    kept = Kept(capture(roots(model=model)))
    expected = told(model)
    fresh = make()
    identity, log = type(fresh), type(fresh).log
    plan(kept.tree, roots(model=fresh), kept).apply()
    assert told(fresh) == expected
    assert type(fresh) is identity
    assert type(fresh).log is log, "in place"


def test_it_goes_back_to_what_it_was() -> None:
    model = make()
    kept = Kept(capture(roots(model=model)))
    expected = told(make())
    model.fit(2.0)
    model.mark()
    plan(kept.tree, roots(model=model), kept).apply()
    assert told(model) == expected


def test_two_classes_of_one_name_are_two() -> None:
    one, other = make(), make()
    one.fit(1.0)
    other.fit(5.0)
    kept = Kept(capture(roots(one=one, other=other)))
    fresh, also = make(), make()
    plan(kept.tree, roots(one=fresh, other=also), kept).apply()
    assert (type(fresh).total(), type(also).total()) == (1.0, 5.0)
    with pytest.raises(RestoreRefused, match="made inside a function"):
        plan(kept.tree, roots(one=fresh, other=fresh), kept)


def test_what_it_holds_and_cannot_be_kept_is_named() -> None:
    model = make()
    type(model).stream = (n for n in range(3))
    captured = capture(roots(model=model))
    assert [lack.where for lack in captured.missing] == ["model.stream"]


def test_the_class_alone() -> None:
    kind = type(make())
    kind().fit(3.0)
    kept = Kept(capture(roots(kind=kind)))
    fresh = type(make())
    plan(kept.tree, roots(kind=fresh), kept).apply()
    assert (fresh.total(), fresh.seen) == (3.0, 1)
