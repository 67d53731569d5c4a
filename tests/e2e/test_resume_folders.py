"""Folders that a program makes in its loop are made again by it: those of after the checkpoint are not in its way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunsProgram

TRAIN = '''
import glob, os, time
import rearview as rv

def die(epoch):
    """Die here once it is known which folders were made, if this is the execution that is to."""
    if os.environ.get("AT") == str(epoch):
        while not any(f"epoch{epoch}".encode() in open(name, "rb").read() for name in glob.glob(".rearview/runs/*/*.journal")):
            time.sleep(0.05)
        os.kill(os.getpid(), 9)

os.makedirs("out", exist_ok=True)
total = 0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        total += epoch
        os.makedirs(f"out/epoch{epoch}/deep")
        os.mkdir(f"out/epoch{epoch}/empty")
        with open(f"out/epoch{epoch}/deep/total", "x") as file:
            file.write(str(total))
        die(epoch)
print(total, [(folder, sorted(names)) for folder, _, names in sorted(os.walk("out"))])
'''


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("other", [False, True])
def test_folders_made_after_the_checkpoint_are_made_again(at: int, other: bool, project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(TRAIN)
    every = {"REARVIEW_EVERY": "1"}
    assert cli("run", "train.py", env={**every, "AT": str(at)}).returncode == -9
    if other:  # what is not the run's is not touched
        (project / f"out/epoch{at}/empty/mine").write_text("mine")
        done = cli("resume", "--yes", env=every)
        assert done.returncode != 0
        assert f"the folder out/epoch{at}/empty was made after the checkpoint and could not be removed" in done.stderr
        assert (project / f"out/epoch{at}/empty/mine").read_text() == "mine"
        return
    done = cli("resume", "--yes", env=every, check=True)
    assert "made later" in done.stderr + done.stdout
    whole = project.parent / "whole"
    whole.mkdir()
    (whole / "train.py").write_text(TRAIN)
    assert done.stdout.splitlines()[-1:] == cli("run", "train.py", cwd=whole, env={"REARVIEW": "off"}, check=True).stdout.splitlines()
