"""Executed cells in the notebook as it is now."""

from __future__ import annotations

import ast

from rearview.instrument.cells import Cell, match
from rearview.instrument.program import Program

STEP = "def step(w):\n    return w + 1\n"
TRAIN = "for epoch in rv.loop('epoch', range(3)):\n    w = step(w)\n    rv.log('w', w)\n"
TRAIN_ASKED = TRAIN + "    rv.log('negative', -w)\n"


def test_cells_as_they_were_stay() -> None:
    found = match({1: STEP, 2: TRAIN}, [Cell(STEP, 1), Cell(TRAIN.rstrip(), 2)])
    assert (found.texts, found.places, found.gone) == ({1: STEP, 2: TRAIN}, {1: 0, 2: 1}, [])


def test_a_statement_is_added_wherever_its_cell_was_executed() -> None:
    found = match({1: STEP, 2: TRAIN, 3: "w", 4: TRAIN}, [Cell(STEP), Cell(TRAIN_ASKED)])
    assert found.texts == {1: STEP, 2: TRAIN_ASKED, 3: "w", 4: TRAIN_ASKED}
    assert found.gone == []  # looking at w could not have logged


def test_a_cell_that_was_edited_runs_as_it_was() -> None:
    other = TRAIN.replace("range(3)", "range(9)")
    found = match({1: "w = 0", 2: TRAIN, 3: "w = 1", 4: other}, [Cell("w = 1", 3), Cell(other + "    rv.log('n', 1)\n", 4)])
    assert found.texts == {1: "w = 0", 2: TRAIN, 3: "w = 1", 4: other + "    rv.log('n', 1)\n"}
    assert found.gone == [2]


def test_which_of_two_cells_with_the_same_text() -> None:
    cells = [Cell("w = step(w)", 2), Cell("w = step(w)\nrv.log('b', w)", 3)]
    found = match({1: STEP, 2: "w = step(w)", 3: "w = step(w)"}, [Cell(STEP, 1), *cells])
    assert found.texts == {1: STEP, 2: "w = step(w)", 3: "w = step(w)\nrv.log('b', w)"}
    assert match({2: "w = step(w)"}, [Cell("w = step(w)\nrv.log('b', w)", 7), Cell("w = step(w)", 8)]).texts == {2: "w = step(w)"}


def test_what_the_kernel_executed_later_counts_where_the_file_has_nothing() -> None:
    asked = STEP.replace("    return", "    rv.log('in', w)\n    return")
    assert match({1: STEP, 2: TRAIN}, [Cell(STEP), Cell(TRAIN)], {3: asked}).texts[1] == asked
    assert match({1: STEP, 2: TRAIN, 3: asked}, []).texts == {1: asked, 2: TRAIN, 3: asked}
    saved = STEP.replace("    return", "    rv.log('saved', w)\n    return")
    assert match({1: STEP}, [Cell(saved)], {3: asked}).texts[1] == saved
    assert match({1: asked, 2: STEP}, []).texts == {1: asked, 2: STEP}  # what was taken out again was not added


def test_a_new_cell_belongs_behind_the_one_before_it() -> None:
    executed = {1: STEP, 2: "w = 0", 3: TRAIN, 4: "w"}
    cells = [Cell(STEP, 1), Cell("w = 0", 2), Cell("rv.log('start', w)"), Cell(TRAIN, 3), Cell("w", 4)]
    assert match(executed, cells).texts == {**executed, 2: "w = 0\nrv.log('start', w)\n"}


def test_new_cells_with_what_they_need() -> None:
    executed = {1: STEP, 2: TRAIN}
    helper, unused = "def double(v):\n    return 2 * v", "def other(v):\n    return v"
    cells = [Cell("import math"), Cell(STEP, 1), Cell(unused), Cell(helper), Cell(TRAIN, 2), Cell("rv.log('d', math.sqrt(double(w)))")]
    texts = match(executed, cells).texts
    assert texts[1] == f"import math\n{STEP.rstrip()}\n{helper}\n"
    assert texts[2] == f"{TRAIN.rstrip()}\nrv.log('d', math.sqrt(double(w)))\n"


def test_a_new_cell_behind_what_another_run_executed_is_not_this_ones() -> None:
    cells = [Cell(TRAIN, 1), Cell("rv.run(name='b')", 2), Cell("rv.log('b_only', w)")]
    assert match({1: TRAIN}, cells).texts == {1: TRAIN}
    assert match({1: TRAIN}, [Cell(TRAIN, 1), Cell("w.plot()"), Cell("rv.log('after', w)")]).texts[1].endswith("rv.log('after', w)\n")


def test_new_cells_that_do_something_else_are_left_alone() -> None:
    cells = [Cell(TRAIN, 1), Cell("w = 3"), Cell("rv.dataframe('w')"), Cell("rv.replay('x')"), Cell("plt.plot([1])"), Cell("( no python")]
    assert match({1: TRAIN}, cells).texts == {1: TRAIN}


def test_empty_cells_match_nothing() -> None:
    found = match({1: "# a note\n", 2: TRAIN}, [Cell("rv.log('x', 1)"), Cell(TRAIN)])
    assert found.places == {2: 1} and found.gone == []


def test_what_one_cell_imports_is_there_in_all() -> None:
    first = "import shared\nfrom shared import look as peek\nshared.look(0)\n"
    cells = {"cells/0001.py": first, "cells/0003.py": "shared.look(1)\npeek(2)\n"}
    program = Program({**cells, "shared.py": "def look(x):\n    return x\n"})
    body = program.bodies["cells/0003.py"]
    calls = [node for node in ast.walk(body.node) if isinstance(node, ast.Call)]
    assert [[part.name for part in program.called(call, body)] for call in calls] == [["look"], ["look"]]
