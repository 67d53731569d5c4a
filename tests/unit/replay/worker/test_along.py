"""What is seen of objects that added statements made: whether they changed between the first look and the end."""

from __future__ import annotations

import io
import random
import sys
import types
from typing import Any

import pytest

from rearview.replay.worker.along import Along


class Meter:
    def __init__(self) -> None:
        self.seen = [0.0]


def _after(value: Any, change: str) -> list[str]:
    along = Along(["thing", "never"])
    thing = value
    along.look(sys._getframe())
    exec(change, {"thing": thing})
    return along.changed()


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (Meter(), "thing.seen.append(1)"), ([], "thing.append(1)"), (random.Random(1), "thing.random()"), (iter([1, 2]), "next(thing)"),
        (bytearray(200_000), "thing[7] = 1"), (io.StringIO("a\nb"), "thing.readline()"), ({"a": [1]}, "thing['a'][0] = 1.0"),
    ],
)  # fmt: skip
def test_a_change_is_seen(value: Any, change: str) -> None:
    assert _after(value, "") == []
    assert _after(value, change) == ["thing"]


def test_what_cannot_be_looked_into_may_have_changed() -> None:
    assert _after((k for k in range(3)), "") == ["thing"]


def test_a_module_is_its_variables_and_so_is_what_came_from_it() -> None:
    module = types.ModuleType("brought")
    exec("seen = []\ndef count(x):\n    seen.append(x)\n    return len(seen)\n", vars(module))
    sys.modules["brought"] = module
    try:
        assert _after(module, "thing.count(1)") == ["thing"]
        assert _after(vars(module)["count"], "thing(1)") == ["thing"]
        assert _after(vars(module)["count"], "") == []
    finally:
        del sys.modules["brought"]


def test_what_is_another_object_later_is_not_what_was_looked_at() -> None:
    along = Along(["thing"])
    thing = [1]
    along.look(sys._getframe())
    thing = [2]
    along.look(sys._getframe())
    assert along.changed() == [] and thing == [2]


def test_a_change_is_told_when_it_is_seen_and_once() -> None:
    along = Along(["thing"])
    thing = [1]
    along.look(sys._getframe())
    assert along.changed() == []
    thing.append(2)
    assert along.changed() == ["thing"]
    assert along.changed() == []
