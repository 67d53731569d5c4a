"""Iterators that a loop runs over and the program holds as well; and states that do not come back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunsProgram

DIES = '''
import glob, json, os, sys, time

def die(part, at, patience_s=20):
    """Die here once a state of this part is kept, if this is the execution that is to."""
    if os.environ.get("DIE") == part and at == int(os.environ["AT"]):
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            if any(json.load(open(name))["path"][-1][2] == at for name in glob.glob(f".rearview/runs/*/checkpoints/*-{part}.json")):
                os.kill(os.getpid(), 9)
            time.sleep(0.01)

def die_inside(epoch, patience_s=1):
    """Die here as soon as a state inside this iteration is kept, and some of the nested loop was gone through since."""
    until = time.monotonic() + patience_s
    while os.environ.get("DIE") == "inside" and time.monotonic() < until:
        names = glob.glob(".rearview/runs/*/checkpoints/*-inside.json")
        if any(json.load(open(name))["path"][0][2] == epoch for name in names):
            os.kill(os.getpid(), 9)
        time.sleep(0.01)
'''
SHARED = """
import itertools, random, sys
import rearview as rv
from dies import die

random.seed(1)
data = [random.random() for _ in range(60)]
kinds = {"range": lambda: iter(range(60)), "enumerate": lambda: enumerate(data), "zip": lambda: zip(data, range(60)),
         "count": itertools.count, "cycle": lambda: itertools.cycle(data), "list": lambda: iter(data)}
numbers = kinds[sys.argv[1]]()

def number(item):
    return sum(map(number, item)) if isinstance(item, tuple) else item

total = 0.0
with rv.checkpointing():
    for k, item in enumerate(rv.loop("item", numbers)):
        total = total * 1.01 + number(item) * random.random()
        total += number(next(numbers))
        rv.log("total", total)
        die("iteration", k - 1)
        if k == 9:
            break
print(total, next(numbers))
"""
BUFFER = """
import itertools, os, random, time
import rearview as rv
from dies import die_inside

def shuffled(source, size, rng):
    waiting = []
    for item in source:
        waiting.append(item)
        if len(waiting) >= size:
            k = rng.randrange(len(waiting))
            waiting[k], waiting[-1] = waiting[-1], waiting[k]
            yield waiting.pop()
    rng.shuffle(waiting)
    yield from waiting

class Item:
    def __init__(self, value):
        self.value = value

items = shuffled(iter([Item(k) for k in range(40)]), 10, random.Random(3))
seen = []
steps = itertools.count()
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for item, step in rv.loop("step", zip(itertools.islice(items, 8), steps)):
            seen.append(item.value)
            time.sleep(0.05)
            if epoch == 2 and step % 8 > 3:
                die_inside(epoch)
        rv.log("seen", len(seen))
print(seen, next(steps))
"""
OTHERWISE = """
import rearview as rv
from dies import die

class Counter:
    def __init__(self):
        self.count = 0

    def __getstate__(self):
        return {"count": self.count}

    def __setstate__(self, state):
        self.count = state["count"] + (state["count"] > 5)

counter = Counter()
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(8)):
        counter.count += 1
        rv.log("count", counter.count)
        die("iteration", epoch - 1)
print(counter.count)
"""
EACH = {"REARVIEW_EVERY": "1"}
INSIDE = {"REARVIEW_EVERY": "1", "REARVIEW_RISK": "0.1", "REARVIEW_EPS": "0.9"}


@pytest.fixture
def dies(project: Path) -> Path:
    (project / "dies.py").write_text(DIES)
    return project


@pytest.mark.parametrize("kind", ["range", "enumerate", "zip", "count", "list"])
def test_an_iterator_that_a_variable_holds_as_well_stays_one(kind: str, dies: Path, cli: RunsProgram) -> None:
    (dies / "train.py").write_text(SHARED)
    whole = cli("run", "train.py", kind, env={"REARVIEW": "off"}, check=True)
    cli("run", "train.py", kind, env={**EACH, "DIE": "iteration", "AT": "5"})
    done = cli("resume", "--yes", env=EACH)
    assert done.returncode == 0, done.stderr
    assert done.stdout == whole.stdout
    assert "may not" not in done.stderr


def test_one_that_comes_back_as_two_is_named_before_anything_is_lost(dies: Path, cli: RunsProgram) -> None:
    (dies / "train.py").write_text(SHARED)
    died = cli("run", "train.py", "cycle", env={**EACH, "DIE": "iteration", "AT": "5"})
    assert "it runs over a cycle that a variable holds as well" in " ".join(died.stderr.split())


def test_a_generator_with_a_buffer_goes_on_in_the_middle(dies: Path, cli: RunsProgram) -> None:
    (dies / "train.py").write_text(BUFFER)
    whole = cli("run", "train.py", env={"REARVIEW": "off"}, check=True)
    cli("run", "train.py", env={**INSIDE, "DIE": "inside"})
    done = cli("resume", "--yes", env=INSIDE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == whole.stdout
    assert "after step#" in done.stderr


def test_a_state_that_does_not_come_back_as_it_was_is_not_gone_on_with(dies: Path, cli: RunsProgram) -> None:
    """The next older one is, by the same command."""
    (dies / "train.py").write_text(OTHERWISE)
    cli("run", "train.py", env={**EACH, "DIE": "iteration", "AT": "5"})
    done = cli("resume", "--yes", env=EACH)
    assert done.returncode == 0, done.stderr
    assert "is not what checkpoint 0-a1-000006-iteration holds" in done.stderr
    assert "going on as attempt 3, from after epoch=4" in done.stderr
    assert done.stdout == "8\n"
    rows = json.loads(cli("df", "count", "--json", check=True).stdout)["rows"]
    assert [row["count"] for row in rows] == list(range(1, 9))


def test_one_that_was_asked_for_is_gone_on_with_and_said(dies: Path, cli: RunsProgram) -> None:
    (dies / "train.py").write_text(OTHERWISE)
    cli("run", "train.py", env={**EACH, "DIE": "iteration", "AT": "5"})
    done = cli("resume", "--yes", "--at", "epoch=5", env=EACH)
    assert done.returncode == 0, done.stderr
    assert "is not what checkpoint 0-a1-000006-iteration holds" in done.stderr
    assert done.stdout == "9\n"
