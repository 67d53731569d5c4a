"""What objects are together: deep structures, cycles, what two of them hold, roots that are put back alone."""

from __future__ import annotations

import array
import types
from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept, difference, roots
from tests.unit.state.round_trip import Reducing, Settings, put, taken


def test_deep_structures() -> None:
    chain: Any = None
    for k in range(100_000):
        chain = [k, chain]
    node: Any = None
    for _ in range(20_000):
        node = types.SimpleNamespace(next=node)
    captured = capture(roots(chain=chain, node=node))
    kept = Kept(captured)
    back = plan(kept.tree, {}, kept).apply()
    count = 0
    at = back["given", "chain"]
    while at is not None:
        count, at = count + 1, at[1]
    assert count == 100_000
    for deep in (chain, back["given", "chain"]):
        while deep is not None:  # nothing to recurse through when they are freed
            deep[1], deep = None, deep[1]


def test_cycles_through_everything() -> None:
    o = Settings()
    table: dict[str, Any] = {"self": o}
    loop = (o, [table])
    loop[1].append(loop)
    o.names.extend([o, table, loop])  # type: ignore[list-item]
    r = Reducing("r")
    r.notes.append(r)  # type: ignore[arg-type]
    kept = taken(o=o, r=r)
    for live in ({}, {"o": Settings()}, {"o": o, "r": r}):
        back = put(kept, **live)
        assert difference([o, r], [back["o"], back["r"]]) is None
        assert back["r"].notes[1] is back["r"]


def test_roots_are_kept_apart_and_only_some_are_put_back() -> None:
    a, b = [1], [2]
    kept = taken(a=a, b=b)
    a.append(5)
    b.append(6)
    made = plan(kept.tree, roots(a=a, b=b), kept, only=[("given", "a")]).apply()
    assert made == {("given", "a"): a}
    assert (a, b) == ([1], [2, 6])


@pytest.mark.filterwarnings("ignore")  # texts in arrays
@pytest.mark.parametrize("kind", [bytearray, lambda data: array.array("h", data), lambda data: array.array("u", data.decode())])
@pytest.mark.parametrize("now", [b"12345678" * 100, b"12", b""], ids=["of the same length", "shorter", "empty"])
@pytest.mark.parametrize("then", [b"abcdefgh" * 100, b""], ids=["long", "empty"])
def test_memory_that_others_have_a_view_of(kind: Any, now: bytes, then: bytes) -> None:
    """Its length cannot change meanwhile: another object takes the state where the length is another one."""
    kept = taken(o=kind(then))
    live = kind(now)
    view = memoryview(live)
    back = put(kept, o=live)["o"]
    assert back.__class__ is live.__class__ and bytes(back) == bytes(kind(then))
    assert (back is live) == (len(then) == len(now))
    assert bytes(view) == bytes(kind(then if back is live else now))
    view.release()
    assert put(kept, o=kind(now))["o"] == kind(then)
    free = kind(now)
    assert put(kept, o=free)["o"] is free


class Bag:
    """Any attributes."""


class Name(str):
    """A text that is not one to every eye."""

    __slots__ = ()


def test_objects_of_one_shape_keep_their_own_names_and_values() -> None:
    bags = [Bag(), Bag(), Bag()]
    vars(bags[0]).update({"a": 1, "b": [2]})
    vars(bags[1]).update({"b": [3], "a": 1.0})
    vars(bags[2]).update({Name("a"): True, "b": {}})
    kept = taken(bags=bags)
    back = put(kept, bags=None)["bags"]
    assert [list(vars(one).items()) for one in back] == [[("a", 1), ("b", [2])], [("b", [3]), ("a", 1.0)], [("a", True), ("b", {})]]
    assert [type(vars(one)["a"]) for one in back] == [int, float, bool]
    first_names = [kept.tree.nodes[payload[1]][0] for kind, payload in kept.tree.nodes if kind == "attrs"]
    assert first_names.count("value") == 1, "a name lost its class"


def test_an_empty_dict_that_two_objects_hold_stays_one() -> None:
    empty: dict[str, int] = {}
    back = put(taken(both=[empty, {"it": empty}, {}]), both=None)["both"]
    assert back[0] is back[1]["it"]
    assert back[2] is not back[0]
