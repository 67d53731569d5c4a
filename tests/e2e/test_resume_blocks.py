"""Programs with `rv.skip_block`: what had ended is not run again, and loops in a block are come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunsProgram
from tests.e2e import resuming

IN_A_BLOCK = """
import glob, os, time
import rearview as rv

if os.environ.get("SHORT"):
    print("nothing to do")
    raise SystemExit(0)
state = {"n": 0.0}
with rv.checkpointing(state=state):
    for epoch in rv.loop("epoch", range(4)):
        block = rv.skip_block("train")
        if block.step_into():
            for step in rv.loop("step", range(3)):
                state["n"] = state["n"] * 1.5 + step
                rv.log("n", state["n"])
        block.end(state)
        rv.log("epoch_n", state["n"])
        while os.environ.get("DIE") and epoch == 2:
            if glob.glob(".rearview/runs/*/checkpoints/*-000003-block.json"):
                os.kill(os.getpid(), 9)
            time.sleep(0.01)
print("final", state["n"])
"""


MADE_ONCE = IN_A_BLOCK.replace('        block = rv.skip_block("train")\n', "").replace(
    "state = {", 'block = rv.skip_block("train")\nstate = {'
)


def _killed_in_a_block(project: Path, cli: RunsProgram, tmp_path: Path, program: str = IN_A_BLOCK) -> str:
    """Killed behind its third block; the newest state is of the loop in it. Gives what it prints when it is not."""
    (project / "train.py").write_text(program)
    full = cli("run", "train.py", env={"REARVIEW_DIR": str(tmp_path / "elsewhere")}, check=True).stdout
    assert cli("run", "train.py", env={"DIE": "1", "REARVIEW_EVERY": "1"}).returncode == -9
    return full


@pytest.mark.parametrize("program", [IN_A_BLOCK, MADE_ONCE], ids=["made each time", "made once"])
def test_a_loop_in_a_skip_block(program: str, project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    full = _killed_in_a_block(project, cli, tmp_path, program)
    places = cli("resume", "--dry-run", check=True).stdout
    assert "epoch=2, behind the loop step" in places or "epoch=2, behind the loop train" in places
    done = cli("resume", "--yes", check=True)
    assert done.stdout == full
    rows = json.loads(cli("df", "n", "--json", check=True).stdout)["rows"]
    assert [(row["epoch"], row["step"]) for row in rows] == [(epoch, step) for epoch in range(4) for step in range(3)]


STAGES = """
import glob, os, random, time
import rearview as rv

random.seed(4)
state, seen = {"n": 0.0}, []
for stage in ("first", "second", "third", "fourth"):
    block = rv.skip_block(stage)
    if block.step_into():
        print("runs", stage)
        for step in rv.loop("step", range(3)):
            state["n"] = state["n"] * 1.5 + random.random()
            rv.log("n", state["n"])
    block.end(state)
    seen.append(round(state["n"], 6))
    while os.environ.get("DIE") and stage == "third":
        if len(glob.glob(".rearview/runs/*/checkpoints/*-block.json")) == 3:
            os.kill(os.getpid(), 9)
        time.sleep(0.01)
print("final", state, seen, random.random())
"""


def test_stages_in_skip_blocks_that_had_ended_are_not_run_again(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    (project / "train.py").write_text(STAGES)
    settings = {"REARVIEW_EVERY": "1"}
    full = cli("run", "train.py", env={**settings, "REARVIEW_DIR": str(tmp_path / "elsewhere")}, check=True).stdout.splitlines()
    assert cli("run", "train.py", env={**settings, "DIE": "1"}).returncode == -9
    done = cli("resume", "--yes", check=True)
    assert done.stdout.splitlines() == ["runs fourth", full[-1]]
    rows = json.loads(cli("df", "n", "--json", check=True).stdout)["rows"]
    assert [row["step"] for row in rows] == [0, 1, 2] * 4


def test_a_stage_of_which_nothing_was_kept_is_run_again(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    (project / "train.py").write_text(STAGES)
    settings = {"REARVIEW_EVERY": "1"}
    full = cli("run", "train.py", env={**settings, "REARVIEW_DIR": str(tmp_path / "elsewhere")}, check=True).stdout.splitlines()
    assert cli("run", "train.py", env={**settings, "DIE": "1"}).returncode == -9
    second = sorted(project.glob(".rearview/runs/*/checkpoints/*-block.json"))[1]
    second.unlink()
    done = cli("resume", "--yes", check=True)
    assert done.stdout.splitlines() == ["runs second", "runs fourth", full[-1]]


def test_one_that_ends_well_without_coming_to_its_place_has_failed(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    full = _killed_in_a_block(project, cli, tmp_path)
    short = cli("resume", "--yes", env={"SHORT": "1"})
    assert short.stdout == "nothing to do\n"
    assert short.returncode == 6
    assert "ended without coming to the place of checkpoint" in short.stderr
    assert (resuming.newest(cli)["status"], resuming.newest(cli)["detail"]) == ("failed", "rearview.errors.PlaceNotReached")
    assert cli("resume", "--yes", check=True).stdout == full, "it can be resumed again"
