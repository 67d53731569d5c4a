"""A program of several stages, each a function with loops of its own, killed in the last one: what others gave is what it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunsProgram

STAGES = """
import glob, os, random, time
import rearview as rv

def die(part):
    if os.environ.get("DIE") == part:
        patience = time.monotonic() + 20
        while not any(int(name.split("-")[2]) > 6 for name in glob.glob(f".rearview/runs/*/checkpoints/*-{part}.json")):
            assert time.monotonic() < patience
            time.sleep(0.01)
        os.kill(os.getpid(), 9)

def warm_up(weights):
    with rv.checkpointing():
        for epoch in rv.loop("warm", range(9)):
            for step in rv.loop("step", range(2)):
                weights.append(random.random())
            time.sleep(0.05)
            if epoch == 5:
                return epoch

def train(weights):
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(4)):
            for step in rv.loop("step", range(4)):
                weights.append(random.random())
                time.sleep(0.02)
                if (epoch, step) == (2, 2):
                    die("inside")
            rv.log("weight", weights[-1])
            if epoch == 2:
                die("iteration")

def main():
    random.seed(3)
    weights = []
    last = warm_up(weights)
    drawn = random.random()
    train(weights)
    print(last, drawn, weights)

main()
"""


@pytest.mark.parametrize(("part", "keep"), [("iteration", "everything"), ("inside", "everything"), ("iteration", "newest:1")])
def test_what_a_stage_gave_that_was_left_early(part: str, keep: str, project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(STAGES)
    settings = {"REARVIEW_EVERY": "1", "REARVIEW_RISK": "0.01", "REARVIEW_KEEP": keep}
    whole = cli("run", "train.py", env={"REARVIEW": "off"}, check=True)
    assert cli("run", "train.py", env={"DIE": part, **settings}).returncode == -9
    done = cli("resume", "--yes", check=True)
    assert "epoch=" in done.stderr
    assert done.stdout == whole.stdout


FOLDS = """
import os, random, time
import rearview as rv

def train(fold):
    weight = float(fold)
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(3)):
            weight += random.random()
            if (fold, epoch) == (2, 2) and "DIE" in os.environ:
                os.kill(os.getpid(), 9)
    return weight

def main():
    random.seed(3)
    scores = []
    for fold in rv.loop("fold", range(4)):
        scores.append((train(fold), random.random()))
    print(scores)

main()
"""


def test_what_a_function_around_gathered(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(FOLDS)
    whole = cli("run", "train.py", env={"REARVIEW": "off"}, check=True)
    assert cli("run", "train.py", env={"DIE": "1", "REARVIEW_EVERY": "1"}).returncode == -9
    done = cli("resume", "--yes", check=True)
    assert "fold=" in done.stderr
    assert done.stdout == whole.stdout
