"""A history in which not every version can answer: a library that is gone, files that are no Python, places that nobody is sure of."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.replay.hindsight import Story
from tests.terminal import on_terminal

BASE = """\
import rearview as rv
try:
    import helper
except SyntaxError:
    helper = None


def score(x):
    return x + 1


total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(2)):
        for k in rv.loop("step", range(2)):
            total += k + 0.5
        rv.log("total", total)
        if helper:
            helper.look(total)
"""
HELPER = "import rearview as rv\n\n\ndef look(x):\n    y = x + 1\n    return y\n"
NOW = BASE.replace("x + 1", "2 * x").replace("k + 0.5", "k + 0.75")
NO_SCORE = BASE.replace("def score(x):\n    return x + 1\n\n\n", "")
LIBRARY = "import gonelib\n" + BASE.replace("k + 0.5", "k + gonelib.half")
REWRITTEN = BASE.replace('        rv.log("total", total)\n', '        other = total * 3\n        rv.log("sum", other)\n')
HISTORY = {
    "plain": (BASE, HELPER),
    "none": (NO_SCORE, "this is no Python (\n"),
    "library": (LIBRARY, HELPER),
    "unsure": (REWRITTEN, HELPER),
    "unsure too": (REWRITTEN.replace("* 3", "* 5"), HELPER),
    "now": (NOW, HELPER),
}
ASKED = NOW.replace('        rv.log("total", total)\n', '        rv.log("total", total)\n        rv.log("score", score(total))\n')
NOTHING = 'import rearview as rv\nrv.log("nothing", 0)\n'


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of six versions; a library that one of them needs is gone."""
    folder = tmp_path_factory.mktemp("faults")
    story = _story(folder)
    library = folder / "site-packages"
    library.mkdir()
    (library / "gonelib.py").write_text("half = 0.5\n")
    for name, (script, helper) in HISTORY.items():
        _write(story, script, helper)
        story.cli("run", "--name", name, "train.py")
    shutil.rmtree(library)
    _write(story, ASKED, HELPER)
    return folder


@pytest.fixture
def history(recorded: Path, tmp_path: Path) -> Story:
    """The same for one test: a project can be copied."""
    shutil.copytree(recorded / "then", tmp_path / "then")
    return _story(tmp_path)


def _story(folder: Path) -> Story:
    path = os.pathsep.join([str(Path(__file__).parents[3] / "src"), str(folder / "site-packages")])
    return Story(folder, {}, env={"REARVIEW_EVERY": "1", "PYTHONPATH": path})


def _write(story: Story, script: str, helper: str) -> None:
    story.project.mkdir(exist_ok=True)
    (story.project / "train.py").write_text(script)
    (story.project / "helper.py").write_text(helper)


def _values(story: Story, name: str = "score") -> dict[str, list[Any]]:
    """What each run has for a name, by the run's name."""
    runs = {one["run"]: one["name"] for one in json.loads(story.cli("runs", "--json").stdout)["runs"]}
    found: dict[str, list[Any]] = {}
    for row in json.loads(story.cli("df", name, "--json", check=False).stdout)["rows"]:
        if row[name] is not None:
            found.setdefault(runs[row["run"]], []).append(row[name])
    return found


def _covered(story: Story) -> tuple[int, int, int]:
    one = json.loads(story.cli("probes", "--json").stdout)["probes"][-1]
    return one["answered"], one["cannot"], one["left"]


def test_those_that_can_answer_and_the_others_say_why(history: Story) -> None:
    done = history.cli("replay", "score", "--yes", check=False)
    assert done.returncode == 1 and "3 of 6 runs are not answered" in done.stderr
    assert "nothing is answered, ModuleNotFoundError: No module named 'gonelib': install it again" in done.stdout
    assert _values(history) == {"plain": [3.0, 5.0], "none": [4.0, 8.0], "now": [5.0, 10.0]}  # its own `score`, today's, today's
    assert done.stdout.count("computed by today's def score(x)") == 2, "the plan and the verdict say whose code it was"
    rows = json.loads(history.cli("df", "score", "--provenance", "--json").stdout)["rows"]
    told = {row["run"]: row["score.placement"] or "" for row in rows}
    assert sorted("today's def score" in one for one in told.values()) == [False, False, True]
    assert _covered(history) == (3, 1, 2)
    _write(history, NOTHING, HELPER)
    history.cli("run", "--name", "cannot", "train.py")
    assert _covered(history) == (3, 1, 3)
    again = history.cli("replay", "--missing", "--yes", check=False)
    assert again.returncode == 1 and _covered(history) == (3, 2, 2), again.stdout + again.stderr
    assert history.cli("probes").stdout.partition("cannot\n")[2].count("\n  v") == 1, "a line for each of the two reasons"


def test_a_version_that_is_no_python_where_the_statement_goes(history: Story) -> None:
    _write(history, NOW, HELPER.replace("    return y", '    rv.log("looked", y)\n    return y'))
    done = history.cli("replay", "looked", "--yes", check=False)
    assert done.returncode == 1 and "this version cannot be read as Python" in done.stdout
    assert set(_values(history, "looked")) == {"plain", "unsure", "unsure too", "now"}


def _asked(story: Story, *words: str, answer: str) -> tuple[int, str]:
    """A command on a terminal without colours."""
    return on_terminal(story.project, *words, answer=answer, env={**story.env, "TERM": "dumb"}, columns=120)


def test_uncertain_places_are_asked_about_one_by_one(history: Story) -> None:
    where = ["--where", "name like 'unsure%'"]
    code, shown = _asked(history, "replay", "score", *where, answer="q\n")
    assert code == 3 and shown.count("Is that its place?") == 1 and "2 of 2 runs are not answered" in shown
    code, shown = _asked(history, "replay", "score", *where, "--only-sure", answer="")
    assert code == 3 and "Is that its place?" not in shown
    code, shown = _asked(history, "replay", "score", *where, answer="what\nn\ny\ny\n")
    assert code == 1 and shown.count("Is that its place?") == 3 and "1 of 2 runs is not answered" in shown, shown
    assert "+ rv.log" in shown and "a statement next to it was changed" in shown
    assert list(_values(history)) == ["unsure"], "the newest is asked about first"


@pytest.mark.parametrize(
    ("clause", "runs"),
    [
        ("max(total) >= 5", {"now"}),
        ("total = 4 and epoch = 1", {"plain", "none", "library"}),
        ("max(total) is null and status = 'finished'", {"unsure", "unsure too"}),
        ("name in ('plain', 'now') and tstamp >= '2020-01-01'", {"plain", "now"}),
        ("count(total) = 2 and filename = 'train.py' and name <> 'library'", {"plain", "none", "now"}),
    ],
)
def test_choosing(history: Story, clause: str, runs: set[str]) -> None:
    plan = json.loads(history.cli("replay", "score", "--where", clause, "--dry-run", "--json").stdout)
    names = {one["run"]: one["name"] for one in json.loads(history.cli("runs", "--json").stdout)["runs"]}
    assert {names[one["run"]] for one in (*plan["plans"], *plan["unsure"])} == runs


@pytest.mark.parametrize(
    ("clause", "told"),
    [
        ("max(total) > 100", "max(total) is 4, 5"),
        ("epoch = 7 and total > 0", "epoch is 0, 1; total is 2, 2.5, 4, 5"),
        ("count(total) > 9", "count(total) is 2"),
        ("name = 'total'", "name is now, unsure too, unsure, library, none and another"),
        ("status = 'failed' or tstamp < '2020-01-01'", "status is finished; tstamp is 20"),
    ],
)
def test_a_clause_that_matches_nothing_tells_what_there_is(history: Story, clause: str, told: str) -> None:
    none = history.cli("replay", "score", "--where", clause, "--dry-run", check=False)
    assert none.returncode == 3 and f"no run matched {clause}: {told}" in none.stderr, none.stderr
    assert "in the 6 runs there are" in none.stderr


def test_what_is_asked_of_nobody_is_said(history: Story) -> None:
    for name in ("copy.py", "another_copy.py"):
        (history.project / name).write_text(ASKED.replace('"score"', '"copied"'))
    copied = history.cli("replay", "copied", "--dry-run", check=False)
    assert copied.returncode == 3 and "what logs copied is in another_copy.py and in copy.py" in copied.stderr, copied.stderr
    assert "it logged total itself" in history.cli("replay", "total", "--dry-run", check=False).stderr
    missing = history.cli("replay", "--missing", "score", check=False)
    assert missing.returncode == 3 and "nothing was asked as score" in missing.stderr
    shown = json.loads(history.cli("replay", "score", "--show", "--json").stdout)
    assert len(shown["plans"]) == 4 and len(shown["unsure"]) == 2


READS = """\
import rearview as rv

scale = float(open("FILE").read())
total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(2)):
        for k in rv.loop("step", range(2)):
            total += scale * k
        rv.log("total", total)
"""


def test_files_that_old_code_read_and_that_changed_since_are_named_for_its_runs_only(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": READS.replace("FILE", "new.txt")}, env={"REARVIEW_EVERY": "1"})
    for name in ("old", "new"):
        (story.project / f"{name}.txt").write_text("0.5\n")
        (story.project / "train.py").write_text(READS.replace("FILE", f"{name}.txt"))
        story.cli("run", "--name", name, "train.py")
    text = READS.replace("FILE", "new.txt").replace('"total", total)\n', '"total", total)\n        rv.log("asked", total + scale)\n')
    (story.project / "train.py").write_text(text)
    (story.project / "old.txt").write_text("0.7\n")
    runs = {run["name"]: run["run"] for run in json.loads(story.cli("runs", "--json").stdout)["runs"]}
    plan = story.cli("replay", "asked", "--dry-run")
    assert "old.txt" in plan.stdout and "new.txt" not in plan.stdout
    plans = {one["run"]: one for one in json.loads(story.cli("replay", "asked", "--dry-run", "--json").stdout)["plans"]}
    assert ["old.txt" in json.dumps(plans[runs[name]]) for name in ("old", "new")] == [True, False]
    story.cli("replay", "asked", "--yes", check=False)
    verdicts = json.loads(story.cli("df", "asked", "--provenance", "--json").stdout)["rows"]
    found = {name: {row["asked.verdict"] for row in verdicts if row["run"] == run} for name, run in runs.items()}
    assert found["new"] == {"identical"}
    assert "identical" not in found["old"], found
