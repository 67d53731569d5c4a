"""A program without what cannot matter says the same about where a statement runs and what it reads."""

from __future__ import annotations

import pytest

from rearview.instrument import depth, foreign, reads
from rearview.instrument.calls import last_line, parse, statements
from rearview.instrument.program import Program
from rearview.instrument.relevant import relevant

TRAIN = """\
import torch
import rearview as rv
from tools import shown as show, plain


def quiet(values):
    total = 0
    for value in values:
        total += plain(value)
    return total


def calls(values):
    return batches(values)


def switches(values):
    torch.backends.flag = len(values)


def cache(function):
    return function


@cache
def decorated(x):
    return x


def batches(values):
    for batch in rv.loop("batch", values):
        yield batch


def used(x):
    return x + offset


offset = 1
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        loss = quiet([epoch]) + show(2)
        for batch in calls([1]):
            loss += decorated(batch)
        rv.log("loss", used(loss))
"""
TOOLS = """\
def plain(x):
    return x * 2


def shown(x):
    return getattr(x, "shape", x)


def unused(x):
    return plain(x)
"""
FILES = {"train.py": TRAIN, "tools.py": TOOLS, "notes.txt": "def quiet"}
LAST = len(TRAIN.splitlines())


def test_a_function_that_leads_nowhere_is_left_out_and_no_line_moves() -> None:
    found = relevant(FILES, [("train.py", LAST, LAST)])
    for name in ("quiet", "plain", "unused", "decorated"):
        assert f"def {name}" not in found["train.py"] + found["tools.py"]
    for name in ("calls", "switches", "cache", "batches", "used"):
        assert f"def {name}" in found["train.py"]
    assert "def shown" in found["tools.py"]
    assert found["notes.txt"] == "def quiet"
    assert found["train.py"].splitlines()[LAST - 1] == '        rv.log("loss", used(loss))'


def test_what_a_statement_mentions_is_kept_with_what_that_mentions() -> None:
    lines = TRAIN.splitlines()
    line = next(k for k, text in enumerate(lines, 1) if "quiet([epoch])" in text)
    found = relevant(FILES, [("train.py", line, line)])
    assert "def quiet" in found["train.py"]
    assert "def plain" in found["tools.py"]
    assert "def unused" not in found["tools.py"]


@pytest.mark.parametrize("entry", ["train.py", "tools.py", None])
def test_what_is_said_about_each_statement_is_the_same(entry: str | None) -> None:
    for one in statements(parse(TRAIN).body):
        first, last = one.lineno, last_line(one)
        added = [("train.py", (first, one.col_offset, last, one.end_col_offset or 0))]
        every = []
        for files in (FILES, relevant(FILES, [("train.py", first, last)])):
            program = Program(files)
            runs = depth.depths(files, [("train.py", first)], entry, added, program)
            every.append((runs, foreign.stores(files, entry, added), reads.reads(files, "train.py", (first, last), program)))
        assert every[0] == every[1], first
