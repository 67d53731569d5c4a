"""What added statements make before the main loop: every worker has it as new, and only what stays so is answered from checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story

PROGRAM = """
import random
import rearview as rv

class Scale:
    def __init__(self, by):
        self.by, self.asked = by, 0
    def of(self, x):
        return self.by * x
    def nth(self, x):
        self.asked += 1
        return self.asked

def make(by):
    return Scale(by)

def push(items, x):
    items.append(x)
    return len(items)

def counter():
    n = 0
    def up(x):
        nonlocal n
        n += 1
        return n
    return up

import meters  #?

def main():
    random.seed(1)
    w = 0.0
    MADE  #?
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(6)):
            for step in rv.loop("step", range(2)):
                w += random.random()
            rv.log("w", w)
            rv.log("asked", ASKED)  #?

main()
"""
METERS = {
    "meters.count(w)": "seen = []\n\ndef count(x):\n    seen.append(x)\n    return len(seen)\n",
    "meters.half(w)": "def half(x):\n    return x / 2\n",
}


def story_of(folder: Path, made: str, asked: str) -> Story:
    text = PROGRAM.replace("MADE", made).replace("ASKED", asked)
    if asked not in METERS:
        text = text.replace("import meters  #?\n", "")
    story = Story(folder, {"train.py": text}, env={"REARVIEW_EVERY": "1"})
    story.record()
    for project in ("then", "truth") if asked in METERS else ():
        (folder / project / "meters.py").write_text(METERS[asked])
    return story


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ("m = make(2)", "m.nth(w)"), ("items = []", "push(items, w)"), ("up = counter()", "up(w)"), ("pass", "meters.count(w)"),
        ("draw = random.Random(3)", "draw.random()"),
    ],
)  # fmt: skip
def test_what_counts_along_is_run_in_one_piece(tmp_path: Path, made: str, asked: str) -> None:
    story = story_of(tmp_path, made, asked)
    done = story.ask("asked", "--workers", "3")
    assert ", start" in done.stdout
    assert story.rows(story.project, "asked") == story.truth("asked") != {}


@pytest.mark.parametrize(("made", "asked"), [("m = make(2)", "m.of(w)"), ("pass", "meters.half(w)"), ("items = [1, 2]", "sum(items) + w")])
def test_what_stays_as_it_was_made_is_answered_from_checkpoints(tmp_path: Path, made: str, asked: str) -> None:
    story = story_of(tmp_path, made, asked)
    done = story.ask("asked", "--workers", "3")
    assert "6 nested blocks put back" in done.stdout
    assert ", start" not in done.stdout
    assert story.rows(story.project, "asked") == story.truth("asked") != {}
