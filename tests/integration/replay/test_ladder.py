"""The ladder of trust: an object that no checkpoint holds makes resuming diverge; a higher rung answers, a dearer one only if asked."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from rearview.catalog.catalog import Catalog
from rearview.replay import asking
from rearview.replay.question.query import Ask
from rearview.store import layout
from tests.integration.replay.hindsight import Story

PROGRAM = """
import itertools, os, random, time
import rearview as rv

class Steps:
    '''What an extension would have: nobody can look into it, nobody can copy it.'''
    __slots__ = ("_rates",)
    def __init__(self):
        self._rates = (0.5 ** k for k in itertools.count())
    def __reduce_ex__(self, protocol):
        raise TypeError("this object has no copy")
    def step(self):
        return next(self._rates)

random.seed(1)
w, rate, schedule, pause = [0.0], [1.0], Steps(), float(os.environ.get("PAUSE", "0"))
with rv.checkpointing(w=w):
    for epoch in rv.loop("epoch", range(5)):
        for step in rv.loop("step", range(3)):
            w[0] += random.random() * rate[0]
            {inner}
            time.sleep(pause)
        rate[0] = schedule.step()
        rv.log("w", w[0])
        rv.log("asked", w[0] * rate[0])  #?
"""


def _story(folder: Path, inner: str = "pass", **env: str) -> Story:
    story = Story(folder, {"train.py": PROGRAM.format(inner=inner)}, env={"REARVIEW_EVERY": "1", **env})
    assert "partial" in story.record().stderr
    return story


def _answer(story: Story, *words: str, code: int = 0) -> dict[str, Any]:
    done = story.ask("asked", "--json", *words, code=code)
    facts: dict[str, Any] = json.loads(done.stdout)["answers"][0]
    return facts


def test_what_the_outer_body_changes_is_right_from_the_beginning_of_the_loop(tmp_path: Path) -> None:
    story = _story(tmp_path)
    story.write(story.project, probed=True)
    with contextlib.chdir(story.project), story.forking():
        with Catalog(layout.open_store(story.project / ".rearview"), timeout_s=60) as catalog:
            (prepared,) = asking.look(catalog, Ask(names=("asked",), only="epoch=3..4")).to_run
        assert prepared.plan.stretches[0].start is not None
        answer = asking.climb(prepared, lambda *_: True)
    assert (answer.prepared.plan.rung, answer.judgement.verdict) == ("pseudoresume", "identical")
    assert story.rows(story.project, "asked") == story.truth("asked")  # what ran on the way is kept too
    (listed,) = json.loads(story.cli("replays", "--json").stdout)["replays"]
    assert (listed["rung"], listed["verdict"]) == ("pseudoresume", "identical")  # the rungs that failed left nothing behind


def test_a_dearer_rung_is_offered_with_its_cost_and_not_started(tmp_path: Path) -> None:
    story = _story(tmp_path, "schedule.step()", PAUSE="0.2")
    done = story.ask("asked", code=1)
    said = " ".join((done.stdout + done.stderr).split())
    assert "from the start: everything runs once more" in said and "--from-start" in said and "divergent" in said
    assert story.rows(story.project, "asked") == {}
    answer = _answer(story, "--from-start")
    assert (answer["rung"], answer["verdict"]) == ("start", "identical")
    assert story.rows(story.project, "asked") == story.truth("asked")
