"""What belongs to the state of a program, and how variables get it back."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview.state import scope
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept

TEXT = """
import os
import json as j
from functools import singledispatch
from collections import OrderedDict
lr = 0.1
table = {"a": [1]}
_private = 5

def helper(x, seen=[], *, by={}):
    helper.calls = getattr(helper, "calls", 0) + 1
    seen.append(x)
    by[x] = x
    return len(seen)

def plain(x=1):
    return x

make = lambda: 3

@singledispatch
def kind(x):
    return "any"

@kind.register
def of_int(x: int):
    return "int"

@kind.register
def _(x: str):
    return "str"

@kind.register
def _(x: list):
    return "list"

class Counted:
    def __init__(self):
        self.of = {}

    def __get__(self, owner, kind=None):
        return self if owner is None else self.of.get("n", 0)

    def __set__(self, owner, value):
        self.of["n"] = value

class Net:
    calls = Counted()
    count = 0
    layers = [1, 2]

    class Inner:
        depth = 1

    def step(self, memory={}):
        memory[len(memory)] = 1
        return len(memory)

    @staticmethod
    def fixed():
        return 1

    @property
    def size(self):
        return 1

def run(look):
    total = 0
    def inner(x):
        nonlocal total
        total += x
        local = [x]
        return look(local)
    return inner(2), total
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[types.ModuleType]:
    """A module of a project."""
    file = tmp_path / "program_of_scope.py"
    file.write_text(TEXT)
    module = types.ModuleType("program_of_scope")
    module.__file__ = str(file)
    sys.modules["program_of_scope"] = module
    exec(compile(TEXT, str(file), "exec"), vars(module))
    yield module
    del sys.modules["program_of_scope"]


def below(roots: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in roots.items() if "program_of_scope" in key}


def test_variables_of_modules_classes_and_functions(program: types.ModuleType, tmp_path: Path) -> None:
    program.helper(3)
    roots = below(scope.roots_of([], {}, tmp_path))
    assert {key[2:] for key in roots if key[0] == "global"} == {("lr",), ("table",), ("_private",), ("make",)}
    assert {key[2:] for key in roots if key[0] == "class"} == {
        ("Net", "calls"), ("Net", "count"), ("Net", "layers"), ("Net.Inner", "depth"),
    }  # fmt: skip
    assert {key[2:] for key in roots if key[0] == "function"} == {
        ("helper", "__defaults__"), ("helper", "__kwdefaults__"), ("helper", "__dict__"), ("Net.step", "__defaults__"),
        ("kind", "registry"),
    }  # fmt: skip
    assert not below(scope.roots_of([], {}, tmp_path / "elsewhere"))


def test_everything_is_put_back(program: types.ModuleType, tmp_path: Path) -> None:
    program.helper(3)
    program.Net().step()
    program.Net().calls = 4
    before = below(scope.roots_of([], {}, tmp_path))
    kept = Kept(capture(before))
    table, layers = program.table, program.Net.layers
    for _ in range(3):
        program.helper(4)
        program.Net().step()
    program.lr, program.Net.count, program.Net.Inner.depth = 7.0, 9, 9
    program.table["a"].append(2)
    program.Net.layers = [9]
    program.Net().calls = 5
    made = plan(kept.tree, below(scope.roots_of([], {}, tmp_path)), kept).apply()
    scope.bind([], made)
    assert program.lr == 0.1
    assert program.table is table
    assert table == {"a": [1]}
    assert program.Net.layers == [1, 2]
    assert (program.Net.count, program.Net.Inner.depth) == (0, 1)
    assert program.helper.calls == 1
    assert program.helper(8) == 2
    assert program.Net().step() == 2
    assert layers == [1, 2]
    assert program.Net().calls == 4, "what a descriptor of the program's remembers"


def test_frames_from_outside_inwards_and_names_that_were_given(program: types.ModuleType, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def look(local: list[int]) -> str:
        inner = sys._getframe(1)
        outer = inner.f_back
        assert outer is not None
        seen["roots"] = scope.roots_of([outer, inner], {"net": local}, tmp_path)
        values = {("local", 0, "total"): 40, ("local", 1, "local"): ["new"], ("local", 1, "x"): 9, ("local", 1, "gone"): 1}
        scope.bind([outer, inner], values)
        return "done"

    assert program.run(look) == ("done", 40)
    roots = seen["roots"]
    assert roots["given", "net"] == [2]
    assert roots["local", 0, "total"] == 2
    assert roots["local", 1, "total"] == 2
    assert roots["local", 1, "local"] is roots["given", "net"]
    assert ("local", 0, "inner") in roots
    assert next(iter(roots)) == ("given", "net")


def test_what_is_rearviews_own_is_left_out(program: types.ModuleType, tmp_path: Path) -> None:
    import rearview

    program.rv = rearview  # type: ignore[attr-defined]
    program.scope = scope  # type: ignore[attr-defined]
    program.log = rearview.log  # type: ignore[attr-defined]
    assert {"rv", "scope", "log"}.isdisjoint(key[-1] for key in below(scope.roots_of([], {}, tmp_path)))


def test_a_generic_function_is_what_is_registered_with_it(program: types.ModuleType, tmp_path: Path) -> None:
    """Its attributes are views and caches of that."""
    captured = capture(below(scope.roots_of([], {}, tmp_path)))
    assert captured.missing == []
    kept = Kept(captured)
    view = program.kind.registry
    program.kind.register(float, lambda x: "float")
    program.kind.register(int, lambda x: "otherwise")
    assert [program.kind(x) for x in (1, 1.0, "a", [], {})] == ["otherwise", "float", "str", "list", "any"]
    scope.bind([], plan(kept.tree, below(scope.roots_of([], {}, tmp_path)), kept).apply())
    assert [program.kind(x) for x in (1, 1.0, "a", [], {})] == ["int", "any", "str", "list", "any"]
    assert program.kind.registry is view and set(view) == {object, int, str, list}


def test_what_a_program_hangs_on_a_generic_function_is_not_forgotten(program: types.ModuleType, tmp_path: Path) -> None:
    program.kind.calls = 3
    roots = below(scope.roots_of([], {}, tmp_path))
    assert ("function", "program_of_scope", "kind", "__dict__") in roots


ENUM = """
import enum

class Mode(enum.Enum):
    A = 1
    B = 2
    ALIAS = 1

    def __init__(self, number):
        self.weight = number * 0.5

class Flag(enum.Flag):
    X = 1
"""


def test_members_of_an_enum_have_attributes_of_their_own(program: types.ModuleType, tmp_path: Path) -> None:
    exec(ENUM, vars(program))
    program.Mode.A.uses = [1]
    roots = below(scope.roots_of([], {}, tmp_path))
    assert {key[2:] for key in roots if key[0] == "class" and str(key[2]).startswith(("Mode.", "Flag."))} == {
        ("Mode.A", "weight"), ("Mode.A", "uses"), ("Mode.B", "weight"),
    }  # fmt: skip
    kept, uses = Kept(capture(roots)), program.Mode.A.uses
    uses.append(2)
    program.Mode.A.weight, program.Mode.B.later = 7.0, 1
    now = below(scope.roots_of([], {}, tmp_path))
    scope.bind([], plan(kept.tree, now, kept).apply())
    scope.forget(now.keys() - roots.keys())
    assert program.Mode.A.uses is uses
    assert uses == [1]
    assert program.Mode.A.weight == 0.5
    assert not hasattr(program.Mode.B, "later")
    assert program.Mode(1) is program.Mode.A
