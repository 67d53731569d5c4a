"""Cells as Python, and notebook files."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from rearview.instrument.cells import Cell
from rearview.replay.question import cells, notebooks


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("x = 1\n", "x = 1\n"),
        ("\n \n\nx = 1", "x = 1"),
        ("%%time\nx = 1\ny = 2", "# %%time\nx = 1\ny = 2"),
        ("\n%%time  \nx = 1", "# %%time  \nx = 1"),
        ("await f()", "await f()"),
    ],
)
def test_plain_cells(text: str, made: str) -> None:
    assert cells.as_python(text) == made


def test_magics_keep_their_lines() -> None:
    pytest.importorskip("IPython")
    made = cells.as_python("%matplotlib inline\nx = 1\nfiles = !ls\ny = 2\n")
    lines = {target.id: one.lineno for one in ast.parse(made).body if isinstance(one, ast.Assign) for target in one.targets}  # type: ignore[attr-defined]
    assert lines == {"x": 2, "files": 3, "y": 4}
    assert "run_cell_magic" in cells.as_python("%%bash\nls\n")


@pytest.mark.parametrize("text", ["%%capture out\nx = 1", "%%prun\nf()", "%run train.py"])
def test_what_runs_unseen_stays_as_it_is(text: str) -> None:
    assert cells.as_python(text) == text


def test_nothing_of_a_syntax_error_ran_but_one_line_may_be_a_command() -> None:
    pytest.importorskip("IPython")
    assert cells.as_python("this is\nno python (") == ""
    assert cells.as_python("cd data") == "cd data"


def test_a_notebook_file(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    content = [
        {"cell_type": "markdown", "source": "x"},
        {"cell_type": "code", "source": ["\n", "x = 1\n", "y = 2"], "execution_count": 4},
        {"cell_type": "code", "source": "z = 3", "execution_count": None},
    ]
    path.write_text(json.dumps({"cells": content}))
    assert notebooks.read_cells(path) == [Cell("x = 1\ny = 2", 4), Cell("z = 3", None)]
    for strange in ("", "[]", '{"cells": 3}', '{"cells": [3, {"cell_type": "code"}]}'):
        path.write_text(strange)
        assert [cell.text for cell in notebooks.read_cells(path)] in ([], [""])
    assert notebooks.read_cells(tmp_path / "none.ipynb") == []


def test_the_notebook_with_most_of_the_cells(tmp_path: Path) -> None:
    def write(name: str, *texts: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"cells": [{"cell_type": "code", "source": text} for text in texts]}))

    executed = {1: "a = 1", 2: "b = 2"}
    write("other.ipynb", "a = 1")
    write("sub/moved.ipynb", "a = 1\nrv.log('a', a)", "b = 2")
    write(".ipynb_checkpoints/moved-checkpoint.ipynb", "a = 1", "b = 2")
    found, name = notebooks.now(tmp_path, "notebook", executed)
    assert name == "sub/moved.ipynb" and found.texts[1] == "a = 1\nrv.log('a', a)"
    assert notebooks.now(tmp_path, "other.ipynb", executed)[1] == "other.ipynb"
    assert notebooks.now(tmp_path, "gone.ipynb", {1: "c = 3"}) == (notebooks.match({1: "c = 3"}, []), None)
