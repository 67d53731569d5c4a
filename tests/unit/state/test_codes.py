"""Where the code of a function is looked for that has to be made again."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from rearview.state.put.names import Names, is_in
from rearview.state.take.functions import code_digest
from rearview.state.tree import Tree

TEXT = """
def f(): return 1
first = f
def f(): return 2
squares = (n * n for n in range(9))
def same(): return 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    file = tmp_path / "of_a_program.py"
    file.write_text(TEXT)
    made = types.ModuleType("of_a_program")
    made.__file__ = str(file)
    exec(compile(TEXT, str(file), "exec"), vars(made))
    monkeypatch.setitem(sys.modules, "of_a_program", made)
    return made


def _found(code: types.CodeType) -> types.CodeType | None:
    names = Names(Tree(), ())
    return names.code("of_a_program", code.co_qualname, code.co_firstlineno, code_digest(code), len(code.co_freevars))


def test_code_at_the_top_of_a_module_is_in_its_source(module: types.ModuleType) -> None:
    wanted = module.squares.gi_code
    del module.squares
    found = _found(wanted)
    assert found is not None
    assert (found.co_qualname, code_digest(found)) == ("<genexpr>", code_digest(wanted))


def test_a_function_that_another_took_the_name_of(module: types.ModuleType) -> None:
    earlier = module.first.__code__
    del module.first
    found = _found(earlier)
    assert found is not None
    assert code_digest(found) == code_digest(earlier), "not the one that has its name now"


def test_which_of_two_a_live_function_is(module: types.ModuleType) -> None:
    one, other = module.first.__code__, module.f.__code__
    names = Names(Tree(), ())
    assert names.same_code(one, "of_a_program", "f", one.co_firstlineno, code_digest(one), 0)
    assert not names.same_code(one, "of_a_program", "f", other.co_firstlineno, code_digest(other), 0)
    edited = module.same.__code__
    assert names.same_code(edited, "of_a_program", "same", 99, "other", 0), "the only one of its name, in code that was edited"


def test_code_that_came_from_nowhere(module: types.ModuleType) -> None:
    exec("def made(): return 5", vars(module))
    assert not is_in(module.made.__code__, (), "of_a_program", also_live=False)
    assert is_in(module.squares.gi_code, (), "of_a_program", also_live=False)
