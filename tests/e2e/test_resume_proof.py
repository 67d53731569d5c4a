"""After a resume the state is compared with its checkpoint: what came back as something else is named, and nothing is said otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunsProgram

PROGRAM = """
import glob, itertools, json, os, random, sys, time
import rearview as rv

class Exact:
    def __init__(self):
        self.count = 0

class Forgets(Exact):
    # its own code for being copied loses what it is given
    def __getstate__(self):
        return {"count": self.count}
    def __setstate__(self, state):
        self.count = 0

class Holds:
    def __init__(self, meter):
        self.meter = meter

def kept(part):
    names = glob.glob(f".rearview/runs/*/checkpoints/*-{part}.json")
    return any(json.load(open(name))["path"][0][2] >= 2 for name in names)

def kept_soon(part):
    # one that comes due while another is written is left out: after a while the next step's is taken
    for _ in range(100):
        if kept(part):
            return True
        time.sleep(0.01)
    return False

def main(kind, part):
    random.seed(3)
    meter = globals()[kind]()
    held = Holds(meter)
    numbers = (number * number for number in itertools.count())
    window, total = [], 0.0
    with rv.checkpointing():
        for epoch in rv.loop("epoch", [str(number) for number in range(5)]):
            for step in rv.loop("step", range(4)):
                total += random.random() + next(numbers)
                meter.count += 1
                window = [*window[-2:], total]
                time.sleep(0.02)
                if os.path.exists("die") and part == "inside" and epoch >= "2" and kept_soon(part):
                    os.kill(os.getpid(), 9)
            if os.path.exists("die") and part == "block" and epoch == "2":
                while not kept(part):
                    time.sleep(0.01)
                os.kill(os.getpid(), 9)
            if os.path.exists("die") and part == "iteration" and epoch == "3":
                while not kept(part):
                    time.sleep(0.01)
                os.kill(os.getpid(), 9)
    print(total, meter.count, window, next(numbers), random.random())

main(*sys.argv[1:])
"""


def _killed(project: Path, cli: RunsProgram, kind: str, part: str) -> str:
    """Kills the program once a state of that part is kept; gives what it prints when it is left alone."""
    (project / "train.py").write_text(PROGRAM)
    whole = cli("run", "train.py", kind, part, env={"REARVIEW": "off"}, check=True).stdout
    (project / "die").touch()
    settings = {"REARVIEW_EVERY": "1", **({"REARVIEW_RISK": "0.000001"} if part == "inside" else {})}
    assert cli("run", "train.py", kind, part, env=settings).returncode == -9
    (project / "die").unlink()
    return whole


@pytest.mark.parametrize("part", ["inside", "block", "iteration"])
def test_nothing_is_said_of_a_state_that_came_back_as_it_was(project: Path, cli: RunsProgram, part: str) -> None:
    whole = _killed(project, cli, "Exact", part)
    done = cli("resume", "--yes", check=True)
    assert done.stdout == whole
    assert "exactly" not in done.stderr, done.stderr
    shown = json.loads(cli("show", "last", "--json", check=True).stdout)
    assert shown["inexact"] == []


@pytest.mark.parametrize("part", ["inside", "block", "iteration"])
def test_what_comes_back_as_it_was_from_no_state_is_named_and_the_newest_is_gone_on_with(
    project: Path, cli: RunsProgram, part: str
) -> None:
    _killed(project, cli, "Forgets", part)
    done = cli("resume", "--yes", check=True)
    refused = done.stderr.count("the recorded state did not come back as it was, so the program does not go on from it")
    assert refused in (1, 2), done.stderr
    (said,) = [line for line in done.stderr.splitlines() if "may not go on exactly as it was" in line]
    assert "held.meter['count'] is not what checkpoint 0-a1-" in said and f"-{part} holds" in said, said
    assert "--at PLACE" in said and "rearview checkpoints" in said and "report" in said
    (row,) = json.loads(cli("show", "last", "--json", check=True).stdout)["inexact"]
    assert (row["attempt"], row["process"]) == (2 + refused, "0")
    assert row["manifest"].endswith(part) and row["why"] in said
    assert f"attempt {2 + refused} may not have gone on exactly as it was" in " ".join(cli("show", "last", check=True).stdout.split())


def test_edited_code_has_another_state_on_purpose(project: Path, cli: RunsProgram) -> None:
    _killed(project, cli, "Forgets", "iteration")
    (project / "train.py").write_text(PROGRAM.replace("range(5)", "range(6)"))
    done = cli("resume", "--yes", "--current-code", check=True)
    assert "is not what checkpoint" not in done.stderr
