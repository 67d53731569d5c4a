"""Plain values that differ inside of a variable are found, and nothing else is taken for one."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from rearview.state import leaves
from rearview.state.capture import capture
from rearview.state.digests import root_digests
from rearview.state.tree import RootKey

KEY: RootKey = ("global", "m", "it")


class Thing:
    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


def state(value: object) -> leaves.State:
    captured = capture({KEY: value})
    return leaves.State(captured.tree, [bytes(one.memory()) for one in captured.buffers])


def found(before: object, after: object) -> list[tuple[str, str, str, str]]:
    then, now = state(before), state(after)
    digest = root_digests(then.tree, then.buffers)[KEY]
    rows = leaves.differing(then, now, KEY, digest, [KEY])
    return sorted((leaf.path, leaf.kind, leaf.recorded, leaf.replayed) for leaf in rows)


def closing(over: object) -> object:
    return lambda: over


def test_values_that_differ_are_told_by_where_they_are() -> None:
    def made(began: float, name: str, times: list[float]) -> Thing:
        return Thing(w=[1, 2, 3], began=began, deep={"x": Thing(name=name)}, times=deque(times, 9), make=closing(name))

    assert found(made(1.5, "a", [0.1, 0.2, 9.0]), made(2.5, "b", [0.3, 0.4, 9.0])) == [
        (".began", "float", "1.5", "2.5"), (".deep['x'].name", "str", "'a'", "'b'"), (".make", "str", "'a'", "'b'"),
        (".times[]", "float", "0.1", "0.3"),
    ]  # fmt: skip


def test_where_anything_else_differs_there_are_none() -> None:
    shared = [1.0]
    for before, after in [
        (Thing(t=1.0, many=[1]), Thing(t=2.0, many=[1, 2])),
        (Thing(t=1.0, kind=[1]), Thing(t=2.0, kind=(1,))),
        (Thing(t=1.0, a=shared, b=shared), Thing(t=2.0, a=[1.0], b=[1.0])),
        (Thing(t=1.0), Thing(u=1.0)),
        (1.0, 2.0),
    ]:
        assert found(before, after) == [], (before, after)


def test_small_arrays_of_numbers_are_told_as_a_whole() -> None:
    np = pytest.importorskip("numpy")

    def made(times: list[float], **more: Any) -> Thing:
        row = {"r": np.array([1.0, 9.0]), "t": np.array(times)}
        return Thing(episode=row, all=np.array([{"t": np.float64(times[0])}], dtype=object), **more)

    assert found(made([0.5, 0.0]), made([0.25, 0.0])) == [
        (".all[]['t']", "array", "0.5", "0.25"), (".episode['t']", "array", "[0.5, 0.0]", "[0.25, 0.0]"),
    ]  # fmt: skip
    for before, after in [
        (made([0.5, 0.0]), made([0.5, 0.0, 0.0])),
        (Thing(n=np.array([1, 2])), Thing(n=np.array([1, 3]))),
        (Thing(t=np.array([1.0])), Thing(t=np.array([1.0], dtype="f4"))),
        (made([0.5, 0.0], n=[1]), made([0.25, 0.0], n=[1, 2])),
        (Thing(t=np.arange(40.0)), Thing(t=np.arange(40.0) + 1)),
        (np.array([1.0]), np.array([2.0])),
    ]:
        assert found(before, after) == [], (before, after)
    whole = np.array([1.0, 2.0])
    moved = np.array([1.5, 2.0])
    assert found(Thing(a=whole, b=whole[:1]), Thing(a=moved, b=moved[:1])) == [], "memory that two arrays look at is more than a value"
