"""One statement asked of every version of a notebook: cells renamed in, edited, split, moved, executed again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.replay.hindsight import Story, recorded_text

pytest.importorskip("jupyter_client.manager")
pytest.importorskip("ipykernel")

from tests.integration.replay.test_notebooks import Session, save

IMPORTS = "import random\nimport rearview as rv\nimport shared\nrandom.seed(3)\n"
STEP = """def step(value, x):
    change = 0.1 * x
    rv.log("change", change) #?
    return value + change
"""
TRAIN = """w = 0.5
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for i in rv.loop("step", range(2)):
            w = step(w, random.random())
        rv.log("w", w)
        rv.log("far", abs(w - 3)) #?
        shared.look(w)
"""
END = """best = -w
rv.log("best", best)
"""
RENAMED = TRAIN.replace("w = 0.5", "weight = 0.25").replace("w = step(w,", "weight = step(weight,").replace('"w", w)', '"w", weight)')
RENAMED = RENAMED.replace("abs(w - 3)", "abs(weight - 3)").replace("look(w)", "look(weight)")
SPLIT = ["w = 0.75\n", TRAIN.removeprefix("w = 0.5\n").replace("range(3)", "range(4)")]
SHARED = """import rearview as rv #?


def look(x):
    y = 2 * x
    rv.log("looked", y) #?
    return y
"""
LATER = SHARED + "\n\ndef unused():\n    return 0\n"
VERSIONS: dict[str, tuple[str, list[str], Sequence[int]]] = {
    "first": (SHARED, [IMPORTS, STEP.replace("0.1", "0.3"), TRAIN, END, STEP, "1 / 0\n", "no Python (\n"], [0, 1, 5, 6, 4, 2, 3]),
    "renamed": (SHARED, [IMPORTS, STEP, RENAMED, END.replace("-w", "-weight")], [0, 1, 2, 3]),
    "moved": (LATER, [IMPORTS, *SPLIT, STEP, END], [0, 3, 1, 2, 4]),
    "latest": (LATER, [IMPORTS, SPLIT[0], STEP, SPLIT[1].replace("range(4)", "range(2)"), END], range(5)),
}
"""Of each version a module, cells, and the order in which they were executed."""
FAILING = ("1 / 0\n", "no Python (\n")
NAMES = ("far", "change", "looked")


def _execute(project: Path, scratch: Path, texts: Sequence[str], order: Sequence[int], shared: str) -> None:
    project.mkdir(exist_ok=True)
    (project / "shared.py").write_text(shared)
    with Session(project, scratch) as session:
        for number in order:
            session.execute(texts[number])


def _truth(story: Story) -> list[list[Any]]:
    """What the statements log, as scripts of the same cells."""
    project = story.folder / "truth"
    for shared, texts, order in VERSIONS.values():
        (project / "shared.py").write_text(shared)
        (project / "cells.py").write_text("".join(texts[number] for number in order if texts[number] not in FAILING))
        story.run(project, ["cells.py"], check=True)
    return _values(story, project)


def _values(story: Story, project: Path) -> list[list[Any]]:
    """What the runs have, by the order in which they were recorded."""
    runs = json.loads(story.run(project, ["-m", "rearview", "runs", "--json"], check=True).stdout)["runs"]
    found = []
    for run in runs:
        query = f"select path, value_name, ordinal, value_float from logs where run = '{run['run']}' and value_name in {NAMES}"
        rows = json.loads(story.run(project, ["-m", "rearview", "sql", query, "--json"], check=True).stdout)["rows"]
        found.append(sorted((row["path"], row["value_name"], row["ordinal"], row["value_float"]) for row in rows))
    return found


def test_every_version_of_a_notebook_answers(tmp_path: Path) -> None:
    story = Story(tmp_path, {})
    (tmp_path / "truth").mkdir()
    for shared, texts, order in VERSIONS.values():
        _execute(story.project, tmp_path, [recorded_text(text) for text in texts], order, recorded_text(shared))
    save(story.project, VERSIONS["latest"][1])
    (story.project / "shared.py").write_text(VERSIONS["latest"][0])
    plan = story.cli("replay", *NAMES, "--dry-run", "--json")
    assert json.loads(plan.stdout)["others"] == [] and "calls `look`" not in plan.stdout
    placed = [one["placed"] for one in json.loads(plan.stdout)["plans"]]
    assert [{site["file"] for site in sites} for sites in placed[2:]] == [
        {"cells/0002.py", "cells/0003.py", "shared.py"}, {"cells/0005.py", "cells/0006.py", "shared.py"}
    ]  # fmt: skip
    done = story.cli("replay", *NAMES, "--yes", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert _values(story, story.project) == _truth(story)
    assert "answered already" in story.cli("replay", *NAMES, "--yes").stdout
    (probe,) = json.loads(story.cli("probes", "--json").stdout)["probes"]
    assert (probe["answered"], probe["left"]) == (4, 0)
    (story.project / "train.ipynb").unlink()
    assert "answered already" in story.cli("replay", "--missing", "--yes").stdout, "the cells are kept with the question"


SETUP = "import rearview as rv\nw = 0.0\n"
FIT = """with rv.run(name="NAME"):
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(2)):
            for x in rv.loop("step", [1, 2]):
                w += 0.5 * x
            rv.log("w", w)
            rv.log("twice", 2 * w) #?
"""


def test_a_cell_edited_between_the_runs_of_one_kernel(tmp_path: Path) -> None:
    """Each run has its own cell, and those that the kernel executed before."""
    story = Story(tmp_path, {})
    first = FIT.replace("NAME", "first")
    second = first.replace("first", "second").replace("0.5 * x", "0.25 * x")
    third = 'with rv.run(name="third"):\n    rv.log("w", w)\n'
    with Session(story.project, tmp_path) as session:
        for text in (SETUP, first, second, third):
            assert session.execute(recorded_text(text))["status"] == "ok"
    save(story.project, [SETUP, FIT.replace("NAME", "today").replace("0.5 * x", "x * x")])
    done = story.cli("replay", "twice", "--yes", check=False)
    assert done.returncode == 1 and "1 of 3 runs is not answered" in done.stderr, done.stdout + done.stderr
    rows = {key[1]: [value[1] for value in values] for key, values in story.rows(story.project, "twice").items()}
    assert {path: len(values) for path, values in rows.items()} == {"epoch=0": 2, "epoch=1": 2}
    asked = "select r.name, value_float as v from logs join runs r using (run) where value_name = 'twice' order by v"
    found = json.loads(story.cli("sql", asked, "--json").stdout)["rows"]
    assert [(row["name"], row["v"]) for row in found] == [("first", 3.0), ("first", 6.0), ("second", 7.5), ("second", 9.0)]
    version = next(one["version"] for one in json.loads(story.cli("replay", "twice", "--yes", "--json", check=False).stdout)["others"])
    wrong = story.cli("replay", "twice", "--yes", "--place", version[:9], "cells/0003.py:1", check=False)
    assert wrong.returncode == 2 and "cell [3], which was executed before the run began" in wrong.stderr, wrong.stdout + wrong.stderr
    story.cli("replay", "twice", "--yes", "--place", version[:9], "cells/0004.py:2")
    assert story.rows(story.project, "twice")[("0", "", "twice", 0)] != [], "where somebody said"


def test_a_run_that_is_answered_in_part_is_counted_once(tmp_path: Path) -> None:
    """Of two runs of one kernel the first has not the loop that one of the statements is in."""
    story = Story(tmp_path, {})
    cells = [
        "import rearview as rv\ndef step(w):\n    g = w - 3\n    rv.log('g', g)  #?\n    return w - 0.1 * g\nw = 0.0\n",
        "with rv.run(name='a'):\n    for epoch in rv.loop('epoch', range(2)):\n        w = step(w)\n        rv.log('weight', w)\n",
        "with rv.run(name='b'):\n    for turn in rv.loop('turn', range(2)):\n        w = step(w)\n        rv.log('last', w + 1)  #?\n",
    ]
    story.project.mkdir(exist_ok=True)
    with Session(story.project, tmp_path) as session:
        for text in cells:
            session.execute(recorded_text(text))
    save(story.project, cells)
    done = story.cli("replay", "g", "last", "--yes", check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 of 2 runs is not answered in full" in done.stderr, done.stderr
    assert "only in part, without last: " in done.stdout, done.stdout
    found = sorted((name, path) for _, path, name, _ in story.rows(story.project, "g", "last"))
    of_loops = [("g", "epoch=0"), ("g", "epoch=1"), ("g", "turn=0"), ("g", "turn=1"), ("last", "turn=0"), ("last", "turn=1")]
    assert found == of_loops


def test_an_execution_that_was_edited_and_repeated_within_a_run(tmp_path: Path) -> None:
    """Both executions logged into the run: both get the statement, and so does the one that was repeated as it was."""
    story = Story(tmp_path, {})
    setup = "import rearview as rv\nw = 0.0\n"
    fit = FIT.replace('with rv.run(name="NAME"):\n    with', "if True:\n    with")
    edited = fit.replace("0.5 * x", "0.25 * x")
    for project, probed in ((story.project, False), (tmp_path / "truth", True)):
        with Session(project, tmp_path) as session:
            for text in (setup, fit, edited, edited):
                assert session.execute(text if probed else recorded_text(text))["status"] == "ok"
    save(story.project, [setup, fit.replace("0.5 * x", "x / 8").replace("range(2)", "range(5)")])
    story.cli("replay", "twice", "--yes")
    truth = story.rows(tmp_path / "truth", "twice")
    assert sum(map(len, truth.values())) == 6 and story.rows(story.project, "twice") == truth
