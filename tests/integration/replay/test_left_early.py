"""What a plan takes for the end of the first nested loop is that: loops left by `return` or an exception keep no state of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story

LEFT_BY_RETURN = """
import random
import rearview as rv

random.seed(2)

def fit(n):
    for i in rv.loop("step", range(n)):
        z = random.random()
        rv.log("inside", z)  #?
        if i == n - 1:
            return z

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(5)):
        a = fit(3)
        rv.log("behind", a)  #?
        for v in rv.loop("val", range(2)):
            c = random.random()
        rv.log("loss", a + c)
        rv.log("end", a * c)  #?
"""

LEFT_BY_EXCEPTION = """
import random
import rearview as rv

random.seed(2)

class Fit:
    def steps(self, n):
        for i in rv.loop("step", range(n)):
            self.z = random.random()
            rv.log("inside", self.z)  #?
            if i == n - 1:
                raise ValueError(i)

with rv.checkpointing():
    fit = Fit()
    for epoch in rv.loop("epoch", range(5)):
        try:
            fit.steps(3)
        except ValueError as problem:
            last = problem.args[0]
        rv.log("behind", last + fit.z)  #?
        if epoch == 2:
            continue
        for v in rv.loop("val", range(2)):
            c = random.random()
        rv.log("loss", fit.z + c)
        rv.log("end", fit.z * c)  #?
"""

COUNTING = """
import random
import rearview as rv

random.seed(2)

class Meter:
    n = 0.0
    def __call__(self, x):
        self.n += x
        return self.n

meter = Meter()  #?
total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(3)):
            total += random.random()
        rv.log("total", total)
        rv.log("sum", meter(total))  #?
"""

LOOPS_BEHIND = """
import random
import rearview as rv

random.seed(2)

def train():
    total = 0.0
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(5)):
            for step in rv.loop("step", range(3)):
                total += random.random()
            rv.log("total", total)
            if epoch == 3:
                return total
    return -total

total = train()
for one in rv.loop("test", range(3)):
    total += random.random()
    rv.log("inside", total)  #?
rv.log("end", total)  #?
"""


def test_a_loop_behind_the_main_one_is_run(tmp_path: Path) -> None:
    """Nothing of it was kept: a run that goes on from a state goes through it. And a return from inside `with` is no break."""
    story = Story(tmp_path, {"train.py": LOOPS_BEHIND}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.fill("inside", "end")
    for name in ("inside", "end"):
        assert story.rows(story.project, name) == story.truth(name) != {}


@pytest.mark.parametrize("name", ["inside", "behind", "end"])
@pytest.mark.parametrize("program", [LEFT_BY_RETURN, LEFT_BY_EXCEPTION], ids=["return", "exception"])
def test_no_iteration_is_left_out(program: str, name: str, tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": program}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.fill(name)
    assert story.rows(story.project, name) == story.truth(name) != {}


def test_an_object_of_hindsight_that_counts_along_counts_from_the_start(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": COUNTING}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.fill("sum", only="epoch=2..3")
    assert story.rows(story.project, "sum").items() <= story.truth("sum").items()
    story.fill("sum")
    assert story.rows(story.project, "sum") == story.truth("sum") != {}
