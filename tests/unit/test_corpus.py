"""How `scripts/corpus.py` adds our calls to a program, and what it takes for equal."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rearview.state.capture import capture

SCRIPT = Path(__file__).parents[2] / "scripts" / "corpus.py"
PROGRAM = '''"""A docstring."""
from __future__ import annotations

def train(items):
    for item in items: print(item)

def main():
    if True:
        while True:
            train([1, 2])

            break
    for k in enumerate(range(3)):
        pass
'''


@pytest.fixture(scope="module")
def corpus() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpus_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_loops_are_found_by_function_and_number(corpus: ModuleType) -> None:
    loops = (corpus.Loop("main", 0, "step", main=True), corpus.Loop("train", 0, "item"), corpus.Loop("main", 1, "k"))
    text = corpus.added(PROGRAM, loops, seeded=False)
    compile(text, "program.py", "exec")
    lines = text.split("\n")
    assert lines[:4] == ['"""A docstring."""', "from __future__ import annotations", "", "import rearview as rv"]
    for line in (
        '    for item in rv.loop("item", items): print(item)',
        "        with rv.checkpointing():",
        '            for _rv_step in rv.loop("step"):',
        "                train([1, 2])",
        '    for k in rv.loop("k", enumerate(range(3))):',
    ):
        assert line in lines


def test_the_rest_of_the_output_has_to_be_the_same(corpus: ModuleType) -> None:
    def end(**more: str) -> Any:
        return corpus.End({"place": "p", "global/__main__/w": "1", "global/__main__/t0": "5", **more}, None, [])

    whole = ["a", "b", "c", "d"]
    good = corpus.verdict(whole, ["a", "b", "c"], ["c", "d"], end(), end(**{"global/__main__/t0": "6"}))
    assert (good["output"], good["lines_again"], good["differing"], good["clocks"]) == (True, 1, [], ["global/__main__/t0"])
    assert not corpus.verdict(whole, ["a", "b"], ["d"], end(), end())["output"], "a line is missing"
    assert corpus.verdict(whole, ["a", "b"], ["c", "d"], end(), end(**{"global/__main__/w": "2"}))["differing"] == ["global/__main__/w"]


def test_what_differs_inside_of_a_root_is_named(corpus: ModuleType) -> None:
    def end(digest: str, time_s: float, rate: float) -> Any:
        tree = capture({("global", "m", "trainer"): SimpleNamespace(iter_time=time_s, rate=rate)}).tree
        return corpus.End({"place": "p", "global/m/trainer": digest}, tree, [])

    verdict = corpus.verdict(["a"], [], ["a"], end("1", 2.5, 0.1), end("2", 3.5, 0.1))
    assert (verdict["differing"], len(verdict["clocks"])) == ([], 1)
    (named,) = corpus.verdict(["a"], [], ["a"], end("1", 2.5, 0.1), end("2", 2.5, 0.2))["differing"]
    assert named.endswith("/rate")
