"""Weak references: to objects, methods, in dicts, and as proxies."""

from __future__ import annotations

import typing
import weakref
from typing import Any

from rearview.state.capture import capture
from rearview.testing.states import roots
from tests.unit.state.round_trip import Settings, lacks, put, taken


class Watching:
    def __init__(self) -> None:
        self.seen = 0

    def look(self) -> int:
        self.seen += 1
        return self.seen


def test_methods_that_are_held_weakly() -> None:
    watching = Watching()
    hooks = [weakref.WeakMethod(watching.look)]
    kept = taken(watching=watching, hooks=hooks)
    other = Watching()
    for live in ({"watching": watching, "hooks": hooks}, {"watching": other, "hooks": [weakref.WeakMethod(other.look)]}, {}):
        back = put(kept, **live)
        found = back["hooks"][0]()
        assert found is not None
        assert found.__self__ is back["watching"]
        assert found() == 1
    gone = weakref.WeakMethod(Watching().look)
    told = weakref.WeakMethod(watching.look, print)
    assert put(taken(gone=gone))["gone"]() is None
    assert lacks(told=told) == ["told"]


def test_weak_references() -> None:
    target, other = Settings(), Settings(lr=2)
    dead = weakref.ref(Settings())
    o = {"ref": weakref.ref(target), "target": target, "dead": dead}
    kept = taken(o=o, other=other)
    back = put(kept, o=dict(o), other=other)["o"]
    assert back["ref"] is o["ref"]
    assert back["dead"]() is None
    anew = put(kept)["o"]
    assert anew["ref"]() is anew["target"]


class _Key:
    kept: typing.ClassVar[list[_Key]] = []

    def __init__(self, name: str) -> None:
        self.name = name
        self.kept.append(self)


def test_weak_dicts() -> None:
    key, value = _Key("k"), _Key("v")
    o = {
        "v": weakref.WeakValueDictionary({"a": value}),
        "k": weakref.WeakKeyDictionary({key: [1]}),
        "s": weakref.WeakSet([key]),
        "strong": [key, value],
    }
    kept = taken(o=o)
    o["k"][key].append(2)
    del o["v"]["a"]
    o["s"].clear()
    back = put(kept, o=o)["o"]
    assert back["v"]["a"] is value
    assert back["k"][key] == [1]
    assert key in back["s"]
    anew = put(kept)["o"]
    assert anew["v"]["a"] is anew["strong"][1]
    assert anew["k"][anew["strong"][0]] == [1]
    assert anew["strong"][0] in anew["s"]


class Twig:
    def __init__(self, size: int, above: Any = None) -> None:
        self.size, self.twigs = size, list[Twig]()
        self.above = None if above is None else weakref.proxy(above)


def test_weak_proxies_stand_for_their_objects() -> None:
    tree = Twig(1)
    tree.twigs += [Twig(2, tree), Twig(3, tree)]
    kept = taken(tree=tree, proxy=weakref.proxy(tree.twigs[0]))
    tree.twigs[0].above = None
    tree.twigs.pop()
    tree.size = 9
    for live in ({"tree": tree}, {"tree": Twig(0)}, {}):
        back = put(kept, **live)
        root = back["tree"]
        assert [(one.size, one.above.size) for one in root.twigs] == [(2, 1), (3, 1)]
        root.twigs[1].above.size = 5
        assert (root.size, back["proxy"].size) == (5, 2)
        assert type(back["proxy"]) is weakref.ProxyType
        root.size = 1
    gone = weakref.proxy(Twig(1))
    assert [one.why for one in capture(roots(gone=[gone])).missing] == ["a weak proxy of an object that is gone"]
