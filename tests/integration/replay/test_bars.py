"""Progress bars around loops: what they show, and when, is no state of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story

pytest.importorskip("tqdm")

PROGRAM = """
import random, time
import rearview as rv
from tqdm import tqdm
random.seed(4)
w, best = 0.0, None
def batches(n):
    for k in range(n):
        yield random.random()
with rv.checkpointing():
    for epoch in rv.loop("epoch", tqdm(range(4), mininterval=0.0)):
        for k, x in enumerate(rv.loop("step", tqdm(batches(5)))):
            w += x
            time.sleep(0.01)
            if epoch == 1 and k == 2:
                break
        else:
            best = 2 * w
        rv.log("w", w)
        rv.log("best", best) #?
"""


OUTSIDE = (
    PROGRAM.replace('rv.loop("epoch", tqdm(range(4), mininterval=0.0))', 'tqdm(rv.loop("epoch", range(4)), mininterval=0.0)')
    .replace('rv.loop("step", tqdm(batches(5)))', 'tqdm(rv.loop("step", batches(5)))')
)  # fmt: skip


@pytest.mark.parametrize("program", [PROGRAM, OUTSIDE], ids=["rv.loop(tqdm)", "tqdm(rv.loop)"])
def test_bars_around_both_loops(tmp_path: Path, program: str) -> None:
    story = Story(tmp_path, {"train.py": program}, env={"REARVIEW_EVERY": "1"})
    story.record()
    assert "identical" in story.cli("verify", "--yes", "--workers", "2").stdout
    assert "identical" in story.ask("best").stdout
    assert story.rows(story.project, "w", "best") == story.truth("w", "best")
