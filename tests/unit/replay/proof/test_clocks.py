"""Statements that read the clock, by their text."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rearview.replay.proof.clocks import clocked

HEAD = """
import os
import time
import datetime as dt
from datetime import datetime
from time import perf_counter as pc
import torch

t0 = time.time()
steps = 0
seen = {"began": time.time(), "loss": 1.0}
lr = schedule(time.time())

def train(net):
    start = pc()
    took = round(pc() - start, 3)
    steps = pc()
    net.began = t0
    total = 0.0
    total += took

def index(start):
    return start

class Trainer:
    def fit(self):
        self.t0 = time.monotonic()
        rate = 1 / (time.monotonic() - self.t0)
"""


@dataclass
class Log:
    """What `clocked` needs of a statement."""

    text: str
    function: str = ""
    file: str = "train.py"
    name: str | None = "x"


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ('rv.log("x", time.time() - t0)', ""),
        ('rv.log("x", t0)', ""),
        ('rv.log("x", t0)', "train"),
        ('rv.log("x", len(str(dt.datetime.now())))', ""),
        ('rv.log("x", datetime.utcnow().hour)', ""),
        ('rv.log("x", dt.date.today().isoformat())', ""),
        ('rv.log("x", pc())', "index"),
        ('rv.log("x", took * 2)', "train"),
        ('rv.log("x", total)', "train"),
        ('rv.log("x", steps)', "train"),
        ('rv.log("x", net.began)', "train"),
        ('rv.log("x", rate)', "Trainer.fit"),
        ('rv.log("x", self.t0)', "Trainer.other"),
        ('rv.log("x", torch.cuda.max_memory_allocated() / 2**20)', ""),
        ('rv.log("x", os.getpid())', ""),
        ('rv.log("x", id(net))', "train"),
        ('    rv.log("x", f"{time.time():.0f}")', ""),
    ],
)
def test_it_does(text: str, function: str) -> None:
    assert clocked({"train.py": HEAD}, [Log(text, function)]) == {"x"}


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ('rv.log("x", norm(net))', "train"),
        ('rv.log("x", steps)', ""),
        ('rv.log("x", start)', "index"),
        ('rv.log("x", seen["loss"])', ""),
        ('rv.log("x", lr)', ""),
        ('rv.log("x", time)', "index"),
        ('rv.log("x", "time.time()")', ""),
        ('rv.log("x", clock.time())', ""),
        ('rv.log("x", os.path.join("a", "b"))', ""),
        ('rv.log("x",', ""),
    ],
)
def test_it_does_not(text: str, function: str) -> None:
    assert clocked({"train.py": HEAD}, [Log(text, function)]) == frozenset()


def test_each_statement_by_itself() -> None:
    logs = [
        Log("rv.log('a', w)", name="a"),
        Log("rv.log('b', t0)", name="b"),
        Log("rv.log(n, t0)", name=None),
        Log("t0", file="gone.py", name="c"),
    ]
    assert clocked({"train.py": HEAD}, logs) == {"b"}
    assert clocked({"train.py": "def ("}, [Log("rv.log('a', time.time())")]) == {"x"}, "unknown imports are taken as they are called"


GIVEN = """
import time

def report(x, *, note=0):
    twice = x * 2

class Meter:
    def update(self, value, n=1):
        self.last = value

def hand_on(took):
    report(took)

def plain(x):
    pass

t0 = time.time()
plain(time)
plain(seen(time.time()))
"""


@pytest.mark.parametrize(
    ("calls", "text", "function"),
    [
        ("report(time.time() - t0)", 'rv.log("x", x)', "report"),
        ("report(time.time() - t0)", 'rv.log("x", twice)', "report"),
        ("report(1, note=time.time())", 'rv.log("x", note)', "report"),
        ("hand_on(round(t0, 2))", 'rv.log("x", x)', "report"),
        ("Meter().update(time.time() - t0)", 'rv.log("x", value)', "Meter.update"),
        ("Meter().update(time.time() - t0)", 'rv.log("x", self.last)', "Meter.update"),
    ],
)
def test_what_a_function_is_given(calls: str, text: str, function: str) -> None:
    assert clocked({"train.py": GIVEN + calls, "other.py": ""}, [Log(text, function)]) == {"x"}
    assert clocked({"train.py": GIVEN, "other.py": "import time\nt0 = time.time()\n" + calls}, [Log(text, function)]) == {"x"}
    assert clocked({"train.py": GIVEN}, [Log(text, function)]) == frozenset()
    assert clocked({"train.py": GIVEN}, [Log('rv.log("x", x)', "plain")]) == frozenset()
