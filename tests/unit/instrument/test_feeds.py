"""What a probe's value may come from, through arguments and variables of functions."""

from __future__ import annotations

import pytest

from rearview.instrument import feeds as module
from rearview.instrument.feeds import EVERYTHING, feeds
from rearview.instrument.program import Program

TRAIN = """\
import rearview as rv
from lib import shown
held = other = box = 0
def digest():
    return secret.hexdigest()
def report(x):
    y = [x]
    y.append(1)
    PROBE(y)
def quiet():
    PROBE
def around(v):
    def inner():
        PROBE(v)
    inner()
def used(k):
    PROBE(k)
def meter(value):
    return value + 1
def main():
    once = digest()
    gone = 0
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(3)):
            BODY
"""
LIB = "def shown(z):\n    PROBE(z)\n"


def found(body: str, marked: str) -> frozenset[str]:
    """The words for the probe in the function that is marked so."""
    files = {"train.py": TRAIN.replace("BODY", body.replace("\n", "\n            ")), "lib.py": LIB}
    file = "lib.py" if marked == "shown" else "train.py"
    lines = files[file].splitlines()
    start = next(at for at, line in enumerate(lines) if marked in line)
    line = next(at for at, text in enumerate(lines[start:], start + 1) if "PROBE" in text)
    return feeds(Program(files), file, (line, line))


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("report(digest())", "def report"),
        ("report(x=secret.hexdigest())", "def report"),
        ("if digest():\n    quiet()", "def quiet"),
        ("if digest():\n    continue\nquiet()", "def quiet"),
        ("[around(v) for v in (digest(), 1)]", "def around"),
        ("list(map(used, [digest()]))", "def used"),
        ("shown(digest())", "shown"),
        ("report(meter(digest()))", "def report"),
    ],
)
def test_what_functions_are_given(body: str, marked: str) -> None:
    assert "secret" in found(body, marked)


@pytest.mark.parametrize("body", ["gone = digest()\nPROBE(gone)\ngone = 0", "box.a = digest()\nPROBE(box.a)\nbox.a = 0"])
def test_what_is_gone_when_the_state_is_taken(body: str) -> None:
    assert "secret" in found(body, "def main")


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("report(held)\nmeter(digest())", "def report"),
        ("report(once)", "def report"),  # a variable of the function that the main loop is in: each state has it
        ("report(meter(held))\nmeter(digest())", "def report"),  # what another call gives to it is something else
        ("held = digest()\nPROBE(other)", "def main"),
        ("gone += digest()\nPROBE(gone)", "def main"),  # what it begins with does not overwrite it
    ],
)
def test_the_search_ends_at_what_states_hold(body: str, marked: str) -> None:
    assert "secret" not in found(body, marked)


def test_behind_the_loop_no_state_has_anything() -> None:
    files = {"train.py": TRAIN.replace("BODY", "pass") + "    score = digest()\n    PROBE(score)\n    return score\n"}
    files["train.py"] += "given = main()\nPROBE(given)\nlast = digest()\nPROBE(last)\n"
    probes = [at for at, text in enumerate(files["train.py"].splitlines(), 1) if "PROBE(" in text][-3:]
    for line in probes:
        assert "secret" in feeds(Program(files), "train.py", (line, line))


def test_a_program_that_is_too_large_may_give_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EVERYTHING not in found("report(digest())", "def report")
    monkeypatch.setattr(module, "_MOST_STEPS", 3)
    assert found("report(digest())", "def report") == {EVERYTHING}
