"""Questions to a run that edited code went on with from another's state: it has no beginning of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story

PROGRAM = """\
import glob, os, random, time
import rearview as rv

def die():
    patience = time.monotonic() + 20
    while len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) < 3 and time.monotonic() < patience:
        time.sleep(0.01)
    os.kill(os.getpid(), 9)

random.seed(rv.arg("seed", 1))
w, seen = 0.0, []
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(6)):
        for step in rv.loop("step", range(4)):
            x = random.random()
            w = w * 0.9 + x
            rv.log("moved", w - x)  #?
            if epoch == 3 and step == 1 and "DIE" in os.environ:
                die()
        seen.append(w)
        rv.log("w", w)
        rv.log("spread", max(seen) - min(seen))  #?
rv.log("end", sum(seen))  #?
"""
NAMES = ("moved", "spread", "end")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Killed, edited, and gone on with: once without the statements, once with them from the start."""
    made = Story(tmp_path_factory.mktemp("went_on"), {"train.py": PROGRAM}, env={"REARVIEW_EVERY": "1"}, nursery=None)
    edited = PROGRAM.replace("w * 0.9", "w * 0.8").replace("range(6)", "range(7)")
    for files in (PROGRAM, edited):
        made.files = {"train.py": files}
        for project, probed in ((made.project, False), (made.folder / "truth", True)):
            made.write(project, probed=probed)
            if files is PROGRAM:
                killed = Story(made.folder, made.files, env={**made.env, "DIE": "1"}, nursery=None)
                killed.write(project, probed=probed)
                killed.run(project, ["train.py"], check=False)
            else:
                made.run(project, ["-m", "rearview", "resume", "--current-code", "--yes"], check=True)
    made.write(made.project, probed=True)
    return made


def _rows(story: Story, project: Path) -> list[dict[str, object]]:
    done = story.run(project, ["-m", "rearview", "df", *NAMES, "--json", "--where", "epoch >= 3 or epoch is null"], check=True)
    runs = json.loads(story.run(project, ["-m", "rearview", "runs", "--json"], check=True).stdout)["runs"]
    return [
        {name: row.get(name) for name in ("epoch", "step", *NAMES)}
        for row in json.loads(done.stdout)["rows"]
        if row["run"] == runs[-1]["run"]
    ]


def test_it_begins_with_the_state_of_the_other(story: Story) -> None:
    done = story.cli("replay", *NAMES, "--run", "last", "--yes", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after epoch=2 of run" in done.stdout
    assert "identical" in done.stdout
    assert _rows(story, story.project) == _rows(story, story.folder / "truth") != []


def test_what_only_its_beginning_could_tell_is_refused(story: Story) -> None:
    for words in (["replay", "--at", "train.py:11", "w", "--as", "first", "--run", "last"], ["verify", "last", "--from-start"]):
        done = story.cli(*words, "--yes", check=False)
        assert done.returncode in (2, 3)
        assert "went on from a state of run" in done.stderr


def test_its_arguments_are_its_own(story: Story) -> None:
    assert [run["args"] for run in json.loads(story.cli("runs", "--json").stdout)["runs"]] == [{"seed": 1}] * 2
