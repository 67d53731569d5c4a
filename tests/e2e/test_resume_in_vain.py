"""A run that fails again and again after resumes: each attempt goes on from an older state than the one before, in the end from none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import RunsProgram, environment

TRAIN = """
import os, random
import rearview as rv

RESUME
random.seed(4)
weight = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(6)):
        if epoch == 3 and os.environ.get("FAILS"):
            raise ValueError("what the disk has is damaged")
        if epoch == 4 and os.environ.get("DIES"):
            os.kill(os.getpid(), 9)
        weight += random.random()
        rv.log("weight", weight)
print("end", weight)
"""
EVERY = {"REARVIEW_EVERY": "1"}


def write(project: Path, first: str = "") -> None:
    (project / "train.py").write_text(TRAIN.replace("RESUME", first))


def test_each_attempt_that_fails_is_followed_by_one_from_an_older_state(project: Path, cli: RunsProgram) -> None:
    write(project)
    whole = cli("run", "train.py", env={"REARVIEW": "off"}, check=True)
    fails = {**EVERY, "FAILS": "1"}
    assert cli("run", "train.py", env=fails).returncode == 1
    for place in ("after epoch=2", "after epoch=1", "after epoch=0"):
        failed = cli("resume", "--yes", env=fails)
        assert failed.returncode == 1
        said = " ".join(failed.stderr.split())
        assert f"begins {place}, as attempt" in said
        assert ("which went on from there, failed (ValueError) and kept no newer state" in said) is (place != "after epoch=2")
    chosen = " ".join(cli("resume", "--at", "epoch=2", "--dry-run", check=True).stdout.split())
    assert "begins after epoch=2" in chosen, "whoever asks for it gets it"
    done = cli("resume", "--yes", env=EVERY, check=True)
    assert "at its beginning, for none of its checkpoints can be used" in " ".join(done.stderr.split())
    assert done.stdout == whole.stdout


def test_one_that_comes_further_is_gone_on_from_there(project: Path, cli: RunsProgram) -> None:
    write(project)
    assert cli("run", "train.py", env={**EVERY, "FAILS": "1"}).returncode == 1
    assert cli("resume", "--yes", env={**EVERY, "FAILS": "1"}).returncode == 1
    assert cli("resume", "--yes", env={**EVERY, "DIES": "1"}).returncode == -9
    for _ in range(2):  # a kill from outside says nothing of the state
        killed = " ".join(cli("resume", "--dry-run", check=True).stdout.split())
        assert "begins after epoch=3" in killed or "begins after epoch=2" in killed  # the last one may not have been written
        assert "passed over" not in killed
        assert cli("resume", "--yes", env={**EVERY, "DIES": "1"}).returncode == -9


def test_a_program_that_goes_on_by_itself_does_so_too(project: Path) -> None:
    write(project, "rv.resume()")

    def start(**env: str) -> subprocess.CompletedProcess[str]:
        told = environment({**EVERY, **env})
        return subprocess.run([sys.executable, "train.py"], cwd=project, env=told, capture_output=True, text=True, timeout=60)

    assert start(FAILS="1").returncode == 1
    for place in ("after epoch=2", "after epoch=1", "after epoch=0", "the beginning"):
        failed = start(FAILS="1")
        assert failed.returncode == 1
        assert f"from {place}" in failed.stderr
        assert ("kept no newer state; " in failed.stderr) is (place != "after epoch=2")
    assert "there is no older one" in failed.stderr
    assert start().stdout == start(REARVIEW="off").stdout
