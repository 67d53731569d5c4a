"""A state that is put back once more: the same objects hold the same values again, whoever wrote to them in between."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rearview.state import refilling, restore
from rearview.state.capture import capture
from rearview.state.tree import RootKey

np = pytest.importorskip("numpy")


class _Memory:
    def __init__(self, buffers: list[Any]) -> None:
        self._copies = [bytes(buffer.memory()) for buffer in buffers]

    def into(self, index: int, dest: memoryview) -> None:
        dest[:] = self._copies[index]

    def size(self, index: int) -> int:
        return len(self._copies[index])


class Held:
    def __init__(self, rng: random.Random) -> None:
        self.count, self.order, self.table, self.names, self.rng = 3, [2, 0, 1], {"a": [1]}, {"x"}, rng
        self.array, self.small = np.arange(20_000.0), np.arange(3.0)


@pytest.mark.parametrize("is_live", [True, False])
def test_what_was_written_in_between_is_gone(is_live: bool) -> None:
    rng = random.Random(5)
    held = Held(rng)
    key: RootKey = ("given", "held")
    captured = capture({key: held})
    drawn = rng.random()
    values, job = restore.plan(captured.tree, {key: held} if is_live else {}, _Memory(captured.buffers)).carry_out()
    made: Any = values[key]
    assert (made is held) == is_live
    array, order = made.array, made.order
    for _ in range(2):
        made.count += 1
        made.order.reverse()
        made.table["a"].append(2)
        made.table["b"] = 0
        made.array += 1.0
        made.small += 1.0
        made.names.add("y")
        made.extra = 1
        assert made.rng.random() == drawn
        job.again()
        assert (made.count, made.order, made.table, made.names) == (3, [2, 0, 1], {"a": [1]}, {"x"})
        assert made.array is array and made.order is order and not hasattr(made, "extra")
        assert (made.array == np.arange(20_000.0)).all() and (made.small == np.arange(3.0)).all()


def test_only_who_puts_a_state_back_is_asked() -> None:
    asked: list[str] = []
    refilling.code_ran()
    with refilling.by(lambda: asked.append("outer")):
        with refilling.by(lambda: asked.append("inner")):
            refilling.code_ran()
        refilling.code_ran()
    refilling.code_ran()
    assert asked == ["inner", "outer"]
