"""Files that a run writes and reads back and that are too large to be kept: what writes them is run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.replay.hindsight import Story

PROGRAM = """
import random
import rearview as rv

random.seed(7)
w, best, big = [0.0], -1.0, "0123456789abcdef" * (1 << 17)
with rv.checkpointing(w=w):
    for epoch in rv.loop("epoch", range(8)):
        for step in rv.loop("step", range(3)):
            w[0] += random.random() - 0.4
{inner}
        rv.log("w", w[0])
        rv.log("outer", w[0] * 2)  #?
{outer}
{end}
"""
SAVE = "if w[0] > best and epoch < 6: best = w[0]; open('best.txt', 'w').write(repr(w[0]) + ' ' + big)"
WRITE = "open('{}', 'w').write(repr(w[0]) + ' ' + big)"
LOAD = "w[0] = float(open('best.txt').read().split()[0]); rv.log('loaded', w[0]); rv.log('after', w[0] * 3)  #?"


def _story(folder: Path, inner: str = "pass", outer: str = "pass", end: str = "pass") -> Story:
    text = PROGRAM.format(inner=" " * 12 + inner, outer=" " * 8 + outer, end=end.replace("; rv", "\nrv"))
    story = Story(folder, {"train.py": text}, env={"REARVIEW_EVERY": "1"})
    story.record()
    return story


def _plan(story: Story, *words: str) -> dict[str, object]:
    story.write(story.project, probed=True)
    found: dict[str, object] = json.loads(story.cli("replay", *words, "--dry-run", "--json").stdout)["plans"][0]
    return found


def test_what_is_saved_in_the_loop_and_loaded_after_it(tmp_path: Path) -> None:
    story = _story(tmp_path, outer=SAVE, end=LOAD)
    story.ask("after", "outer")
    assert story.rows(story.project, "after", "outer") == story.truth("after", "outer")


def test_if_somebody_changed_the_file_what_writes_it_is_run(tmp_path: Path) -> None:
    story = _story(tmp_path, outer=SAVE, end=LOAD)
    (story.project / "best.txt").write_text("9.0 of somebody else")
    plan = _plan(story, "after")
    assert "best.txt" in str(plan["notes"])
    story.ask("after")
    assert story.rows(story.project, "after") == story.truth("after")
    assert (story.project / "best.txt").read_text() == "9.0 of somebody else"


def test_what_is_saved_in_a_nested_block_and_loaded_in_the_outer_body_is_run(tmp_path: Path) -> None:
    story = _story(tmp_path, inner=WRITE.format("last.txt"), outer="w[0] = float(open('last.txt').read().split()[0]) + 1")
    plan = _plan(story, "outer")
    assert "last.txt" in str(plan["notes"]) and len(plan["must_run"]) >= 6  # type: ignore[arg-type]
    story.ask("outer")
    assert story.rows(story.project, "outer") == story.truth("outer")


def test_a_large_file_that_nobody_reads_costs_no_checkpoint(tmp_path: Path) -> None:
    story = _story(tmp_path, inner=WRITE.format("log.txt"))
    plan = _plan(story, "outer")
    assert plan["put_back"] == 8 and plan["must_run"] == [] and plan["notes"] == []
    story.ask("outer")
    assert story.rows(story.project, "outer") == story.truth("outer")


def test_a_statement_may_read_what_the_program_only_wrote(tmp_path: Path) -> None:
    story = _story(tmp_path, inner=WRITE.format("log.txt"), outer='rv.log("read", open("log.txt").read()[:9])  #?')
    story.ask("read")
    assert len(story.rows(story.project, "read")) == 8
    assert story.rows(story.project, "read") == story.truth("read")


def test_what_is_read_only_after_the_loop_costs_nothing_in_it(tmp_path: Path) -> None:
    story = _story(tmp_path, outer=SAVE, end=LOAD)
    (story.project / "best.txt").write_text("9.0 of somebody else")
    plan = _plan(story, "outer")
    assert plan["put_back"] == 8 and plan["notes"] == []
    story.ask("outer")
    assert story.rows(story.project, "outer") == story.truth("outer")
