"""Programs that torch compiles: its code in their modules is no state, and compiled functions stay, with what they close over put back."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview.state import compiled, scope
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept
from tests.unit.state.round_trip import put, taken

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

TEXT = """
import torch
scale = 2.0
seen = []

@torch.compile(backend="eager")
def doubled(x, memory=[]):
    y = x * scale
    seen.append(len(seen))  # the graph breaks: another function goes on behind it
    memory.append(1)
    return y.sum()

class Step:
    @torch.compile(backend="eager")
    def __call__(self, x):
        return doubled(x) + 1
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[types.ModuleType]:
    """A module of a project."""
    file = tmp_path / "compiled_program.py"
    file.write_text(TEXT)
    module = sys.modules["compiled_program"] = types.ModuleType("compiled_program")
    module.__file__ = str(file)
    exec(compile(TEXT, str(file), "exec"), vars(module))
    yield module
    del sys.modules["compiled_program"]
    torch._dynamo.reset()


def _roots(project: Path) -> dict[Any, Any]:
    return {key: value for key, value in scope.roots_of([], {}, project).items() if "compiled_program" in key}


def test_what_the_compiler_puts_into_a_module_is_no_variable(program: types.ModuleType, tmp_path: Path) -> None:
    before = _roots(tmp_path)
    assert float(program.Step()(torch.ones(3))) == 7.0
    assert any(name.startswith("__compiled_fn") for name in vars(program)), "torch puts its code there"
    program.__builtins_dict___99 = {}  # as after a graph that came to nothing
    assert _roots(tmp_path).keys() == before.keys()
    assert {key[2] for key in before if key[0] == "global"} == {"scale", "seen"}


def test_what_a_compiled_function_remembers_is_put_back(program: types.ModuleType, tmp_path: Path) -> None:
    program.doubled(torch.ones(3))
    program.doubled.calls = 1
    roots = _roots(tmp_path)
    captured = capture(roots)
    assert captured.missing == []
    kept = Kept(captured)
    program.doubled(torch.ones(3))
    program.doubled.calls = 5
    doubled = program.doubled
    scope.bind([], plan(kept.tree, _roots(tmp_path), kept).apply())
    assert program.doubled is doubled
    assert (doubled.calls, doubled.__wrapped__.__defaults__, program.seen) == (1, ([1],), [0])
    assert float(doubled(torch.ones(3))) == 6.0


def _counting() -> tuple[Callable[[Any], Any], Callable[[], int]]:
    count = 0

    def step(x: Any) -> Any:
        nonlocal count
        count += 1
        return x + count

    return torch.compile(step, backend="eager"), lambda: count


def test_a_compiled_function_stays_and_what_it_closes_over_is_put_back() -> None:
    step, count = _counting()
    step(torch.ones(2))
    kept = taken(step=step)
    step(torch.ones(2))
    assert put(kept, step=step)["step"] is step
    assert count() == 1
    other, its_count = _counting()
    assert put(kept, step=other)["step"] is other
    assert (its_count(), float(other(torch.ones(1)))) == (1, 3.0)
    for nothing in ({}, {"step": None}, {"step": other.__wrapped__}):
        made = put(kept, codes=[_counting.__code__], **nothing)["step"]
        assert compiled.original(made) is not None, "compiled again"
        assert float(made(torch.ones(1))) == 3.0
    torch._dynamo.reset()


def test_a_compiled_module_is_held_but_for_what_the_compiler_notes_in_it() -> None:
    plain = torch.nn.Linear(2, 2)
    module = torch.compile(plain, backend="eager")
    module.note = 1  # type: ignore[attr-defined]
    kept = taken(module=module)
    own = module._torchdynamo_wrapper_id
    assert own == id(module)
    other = torch.compile(torch.nn.Linear(2, 2), backend="eager")
    assert put(kept, module=other)["module"] is other
    assert torch.equal(other.weight, plain.weight) and other.note == 1
    assert other._torchdynamo_wrapper_id == id(other)
