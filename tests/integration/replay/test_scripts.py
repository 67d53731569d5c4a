"""A project has several scripts: what becomes of one is nothing to the runs of another."""

from __future__ import annotations

from pathlib import Path

from tests.integration.replay.hindsight import Story

TRAIN = """
import rearview as rv
from model import step

total = 0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for k in rv.loop("step", range(2)):
            total = step(total, k)
        rv.log("total", total)
        rv.log("double", 2 * total)  #?
"""
MODEL = """
def step(total, k):
    return total + k
"""
OTHER = """
import rearview as rv

for k in rv.loop("k", range(3)):
    rv.log("square", k * k)
    rv.log("cube", k * k * k)  #?
"""


def _story(folder: Path) -> Story:
    story = Story(folder, {"train.py": TRAIN, "model.py": MODEL, "other.py": OTHER}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.cli("run", "--name", "other", "other.py")
    return story


def test_statements_of_one_script_are_not_asked_of_another(tmp_path: Path) -> None:
    story = _story(tmp_path)
    said = story.ask("cube").stdout
    assert "other.py, another script" in said and "(other)" in said
    assert len(story.rows(story.project, "cube")) == 3
    said = story.ask("double").stdout
    assert "train.py, another script" in said
    assert story.rows(story.project, "double") == story.truth("double")


def test_another_script_may_change_and_what_is_imported_makes_another_version(tmp_path: Path) -> None:
    story = _story(tmp_path)
    story.write(story.project, probed=True)
    (story.project / "other.py").write_text("print('something else')\n")
    story.cli("replay", "double", "--yes")
    assert story.rows(story.project, "double") == story.truth("double")
    (story.project / "model.py").write_text(MODEL.replace("+ k", "+ 2 * k"))
    (story.project / "train.py").write_text(TRAIN.replace("double", "twice"))
    story.cli("replay", "twice", "--yes")
    rows = story.rows(story.project, "twice")
    then = {(process, path, "double", ordinal): values for (process, path, _, ordinal), values in rows.items()}
    assert then == story.truth("double"), "the model as it was, not as it is now"
