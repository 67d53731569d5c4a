"""Programs that put an object of their own in the place of `sys.stdout`: what it remembers belongs to the state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunsProgram

TRAIN = '''
import glob, os, sys, time
import rearview as rv

class Logger:
    """Tells the terminal and a file, and counts."""
    def __init__(self, path):
        self.terminal, self.file, self.told = sys.stdout, open(path, "w"), 0

    def write(self, text):
        self.told += len(text)
        self.terminal.write(text)
        self.file.write(text)
        self.file.flush()

    def flush(self):
        self.terminal.flush()

def main():
    logger = Logger("log.txt")
    if sys.argv[1] == "before":
        sys.stdout = logger
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(5)):
            if sys.argv[1] == "inside" and epoch == 1:
                sys.stdout = logger
            print("epoch", epoch, "was told to", flush=True)
            rv.log("told", getattr(sys.stdout, "told", 0))
            while os.environ.get("DIE") and epoch == 3:
                if len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) == 3:
                    os.kill(os.getpid(), 9)
                time.sleep(0.01)

main()
'''


@pytest.mark.parametrize("way", ["before", "inside"])
def test_what_the_programs_own_stdout_remembers_comes_back(way: str, project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(TRAIN)
    cli("run", "train.py", way, env={"REARVIEW_EVERY": "1", "DIE": "1"})
    done = cli("resume", "--yes", env={"REARVIEW_EVERY": "1"})
    assert done.returncode == 0, done.stderr
    rows = json.loads(cli("df", "told", "--json", check=True).stdout)["rows"]
    first = way == "inside"
    each = len("epoch 0 was told to") + 1
    assert [row["told"] for row in rows] == [0] * first + [each * count for count in range(1, 6 - first)]
    assert (project / "log.txt").read_text().splitlines() == [f"epoch {k} was told to" for k in range(first, 5)]
