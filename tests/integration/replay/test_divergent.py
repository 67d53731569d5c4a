"""Questions that are not answered as asked: one that diverges on every rung, statements beside others, statements that raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from rearview.store import layout, replays
from tests.integration.replay.hindsight import Story

PROGRAM = """
import os
import rearview as rv

total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(2)):
            total += int.from_bytes(os.urandom(4), "big")
            rv.log("double", 2 * total)  #?
        rv.log("total", total)
"""


def test_one_divergent_answer_is_left(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": PROGRAM}, env={"REARVIEW_EVERY": "1"})
    story.record()
    for _ in range(2):
        said = story.ask("double", code=1)
        assert "divergent" in said.stdout and "does not repeat itself" in said.stdout
    store = layout.open_store(story.project / ".rearview")
    (run,) = (path.name for path in (store.root / "runs").iterdir())
    (left,) = replays.list_of(store, run)  # type: ignore[arg-type]
    assert left.verdict == "divergent" and not story.rows(story.project, "double")


COMPUTED = """
import random
import rearview as rv

random.seed(2)
total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(2)):
            total += random.random()
        rv.log("total", total)
        for name in ("a", "b"): rv.log(f"at_{name}", total)  #?
        rv.log("twice", total * 2)  #?
"""


def test_a_statement_beside_that_computes_its_name_is_no_change_of_the_run(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": COMPUTED}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.fill("twice")
    assert story.rows(story.project, "twice") == story.truth("twice") != {}


BEFORE_ANYTHING = """
import rearview as rv

rv.log("early", undefined)  #?
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(2)):
        rv.log("total", epoch)
"""


def test_a_statement_that_raises_before_the_run_begins_is_named(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": BEFORE_ANYTHING}, env={"REARVIEW_EVERY": "1"})
    story.record()
    with pytest.raises(Exception, match="undefined") as raised:
        story.fill("early")
    assert getattr(raised.value, "exit_code", None) == 4


COUNTS_ON_ITSELF = """
import rearview as rv


def calls():
    calls.n = getattr(calls, "n", 0) + 1
    return calls.n


class Meter:
    @classmethod
    def tick(cls):
        cls.n = getattr(cls, "n", 0) + 1
        return cls.n


def made_once():
    global made
    made = made + 1 if "made" in names() else 1
    return made


def names():
    return globals()


total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(2)):
            total += 1.5
        rv.log("total", total)
        rv.log("called", calls())  #?
        rv.log("ticked", Meter.tick())  #?
        rv.log("made_once", made_once())  #?
"""


@pytest.mark.parametrize(
    ("name", "what"),
    [("called", "what calls remembers"), ("ticked", "n in the kept state (not there then)"), ("made_once", "made in the kept state")],
)
def test_what_a_statement_lets_the_program_remember_for_the_first_time_is_a_change(tmp_path: Path, name: str, what: str) -> None:
    story = Story(tmp_path, {"train.py": COUNTS_ON_ITSELF}, env={"REARVIEW_EVERY": "1"})
    story.record()
    said = story.ask(name, code=1).stdout
    assert what in said and "the added statement changes the run" in said
    assert not story.rows(story.project, name)
    story.fill(name, isolate=True)
    assert [value[0][2] for value in story.rows(story.project, name).values()] == [1, 1, 1, 1]
