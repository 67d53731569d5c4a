"""Variables of running functions: read without a trace, written from inside a call. Runs on every Python that is supported."""

from __future__ import annotations

import gc
import sys
import weakref
from types import FrameType
from typing import Any

from rearview.state import frames


def caller() -> FrameType:
    return sys._getframe(1)


class Steps:
    """An iterator that does something to its caller's variables at `next`."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.left = 1

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        frames.assign(sys._getframe(1), self.values)
        return 7


def test_variables_of_a_function_with_cells_and_unbound_ones() -> None:
    def outer() -> dict[str, Any]:
        count = 1
        total = 2.5  # noqa: F841

        def inner() -> dict[str, Any]:
            nonlocal count
            text = "a"  # noqa: F841
            if count < 0:
                never = 1
                del never
            count += 1
            return frames.variables(sys._getframe())

        found = inner()
        assert found == {"text": "a", "count": 2}
        mine = frames.variables(sys._getframe())
        assert mine.pop("inner") is inner
        assert mine.pop("found") is found
        assert mine == {"count": 2, "total": 2.5}
        later = 3
        return {"later": later}

    assert outer() == {"later": 3}


def test_reading_leaves_the_dict_of_locals_alone() -> None:
    def program() -> dict[str, Any]:
        lr = 0.1
        settings = locals()
        before = dict(settings)
        loss = 3.0
        found = frames.variables(sys._getframe())
        assert found["loss"] == loss
        assert found["lr"] == lr
        return {"before": before, "after": dict(settings)}

    seen = program()
    assert seen["after"] == seen["before"]


def test_reading_keeps_nothing_alive() -> None:
    class Big:
        pass

    def program() -> weakref.ref[Big]:
        big = Big()
        ref = weakref.ref(big)
        frames.variables(sys._getframe())
        del big
        gc.collect()
        assert ref() is None
        return ref

    program()


def test_writing_keeps_nothing_alive() -> None:
    class Big:
        pass

    def program() -> None:
        value: Any = Big()
        ref = weakref.ref(value)
        other = None
        frames.assign(sys._getframe(), {"other": 4})
        frames.assign(sys._getframe(), {"other": 5})
        assert other == 5
        del value
        gc.collect()
        assert ref() is None

    program()


def test_variables_are_written_from_inside_next() -> None:
    def program() -> tuple[Any, ...]:
        seen = []
        count, best = 0, None
        for x in Steps({"count": 5, "best": [1], "later": "set", "unknown": 1}):
            seen.append((x, count, best, later))  # noqa: F821, PERF401
        later = "end" if not seen else later  # noqa: F821
        return seen[0], count, later

    assert program() == ((7, 5, [1], "set"), 5, "set")


def test_cells_are_written() -> None:
    def program() -> tuple[int, int, int]:
        count = 0

        def add() -> int:
            nonlocal count
            count += 1
            return count

        for _ in Steps({"count": 41}):
            first = add()
        return first, count, add()

    assert program() == (42, 42, 43)


def test_free_variables_are_written() -> None:
    def program() -> tuple[int, int]:
        count = 0

        def loop() -> int:
            nonlocal count
            for _ in Steps({"count": 10}):
                count += 1
            return count

        return loop(), count

    assert program() == (11, 11)


def test_module_level_and_class_bodies() -> None:
    text = """
seen = []
for x in steps:
    seen.append((x, lr, model))
class Settings:
    lr = 1
    for _ in again:
        doubled = lr * 2
"""
    namespace: dict[str, Any] = {"__name__": "program", "steps": Steps({"lr": 3, "model": "m"}), "again": Steps({"lr": 8})}
    exec(compile(text, "program", "exec"), namespace)
    assert namespace["seen"] == [(7, 3, "m")]
    assert namespace["Settings"].doubled == 16


def test_variables_of_a_module() -> None:
    namespace: dict[str, Any] = {"__name__": "program", "look": lambda: frames.variables(sys._getframe(1)), "frames_of": frames}
    exec("import os\nlr = 1\nfound = look()", namespace)
    assert namespace["found"].keys() == {"look", "lr"}


def test_comprehensions_and_generators_are_no_variables() -> None:
    def program(n: int) -> dict[str, Any]:
        squares = [k * k for k in range(n)]
        return {"squares": squares, "found": frames.variables(sys._getframe())}

    made = program(3)
    assert made["found"] == {"n": 3, "squares": [0, 1, 4]}


def test_frames_between() -> None:
    def outer() -> list[str]:
        mine = sys._getframe()

        def middle() -> list[str]:
            return inner()

        def inner() -> list[str]:
            return [frame.f_code.co_name for frame in frames.frames_between(sys._getframe(), mine)]

        return middle()

    assert outer() == ["outer", "middle", "inner"]
    elsewhere = next(iter([sys._getframe()]))

    def other() -> list[FrameType]:
        return frames.frames_between(elsewhere, sys._getframe())

    assert other() == [elsewhere]


def test_many_variables_and_arguments_of_every_sort() -> None:
    def program(a: int, /, b: int, *rest: int, c: int = 3, **named: int) -> dict[str, Any]:
        def closing() -> tuple[int, tuple[int, ...]]:
            return a, rest

        assert closing()
        return frames.variables(sys._getframe())

    found = program(1, 2, 3, 4, d=5)
    found.pop("closing")
    assert found == {"a": 1, "b": 2, "rest": (3, 4), "c": 3, "named": {"d": 5}}
