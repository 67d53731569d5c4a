"""A state that a program's own code brings back as something else: no value is computed from it."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.integration.replay.hindsight import Story

PROGRAM = """
import os, random, time
import rearview as rv

class Forgets:
    def __init__(self):
        self.count = 0
    def __getstate__(self):
        return {"count": self.count}
    def __setstate__(self, state):
        self.count = 0

random.seed(3)
meter, total = Forgets(), 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(8)):
        if epoch == 7 and os.path.exists("die"):
            time.sleep(0.5)  # what was kept is on the disk
            os.kill(os.getpid(), 9)
        for step in rv.loop("step", range(4)):
            total += random.random()
            meter.count += 1
        rv.log("count", meter.count)  #?
        rv.log("total", total)
"""


def test_behind_the_last_state_that_was_kept_nothing_else_would_tell(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": PROGRAM}, env={"REARVIEW_EVERY": "3"})
    (story.project / "die").touch()
    assert story.record(check=False).returncode == -signal.SIGKILL
    (story.project / "die").unlink()
    said = story.ask("count", "--only", "epoch=6")
    found, truth = story.rows(story.project, "count"), story.truth("count")
    assert ("0", "epoch=6", "count", 0) in found
    assert found == {place: value for place, value in truth.items() if place in found}
    assert "identical" in said.stdout and "could not take the state" in said.stdout, said.stdout


def test_behind_a_nested_block_whose_end_was_the_last_that_was_kept(tmp_path: Path) -> None:
    text = PROGRAM.replace('        if epoch == 7 and os.path.exists("die"):\n', "        if False:\n")
    text += '        if epoch == 6 and os.path.exists("die"):\n            time.sleep(0.5)\n            os.kill(os.getpid(), 9)\n'
    story = Story(tmp_path, {"train.py": text}, env={"REARVIEW_EVERY": "7"})
    (story.project / "die").touch()
    assert story.record(check=False).returncode == -signal.SIGKILL
    (story.project / "die").unlink()
    story.ask("count")
    found, truth = story.rows(story.project, "count"), story.truth("count")
    assert ("0", "epoch=6", "count", 0) in found
    assert found == {place: value for place, value in truth.items() if place in found}
