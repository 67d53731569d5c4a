"""A run of several ranks is resumed by as many: one attempt, one restore point, each its own files."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import RunsProgram, environment
from tests.e2e import resuming

TRAIN = """
import glob, os, random, time
import rearview as rv

rank = int(os.environ["RANK"])
random.seed(rank)
weights = [0.0]
out = open(f"out{rank}.txt", "w")
with rv.checkpointing(weights=weights):
    for epoch in rv.loop("epoch", range(5)):
        for step in rv.loop("step", range(10)):
            weights[0] += random.random()
            rv.log("w", weights[0])
            out.write(f"{weights[0]!r}\\n")
            time.sleep(0.005)
            if os.environ.get("DIE_AT") == f"{epoch},{step}":
                patience = time.monotonic() + 20
                while len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) < 6 and time.monotonic() < patience:
                    time.sleep(0.01)
                os.kill(os.getpid(), 9)
out.close()
open(f"ended{rank}", "w").close()
patience = time.monotonic() + 60  # ranks that train together end together
while len(glob.glob("ended?")) < 2 and time.monotonic() < patience:
    time.sleep(0.01)
print(rank, weights, random.random())
"""

LAUNCH = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29513"}


def ranks(project: Path, *words: str, env: dict[str, str], apart_s: float = 0.0) -> list[tuple[int, str, str]]:
    """Start two ranks, the second later, and wait for both: code, output, errors of each."""
    started = []
    for rank in (0, 1):
        told_env, pipe = environment({**env, "RANK": str(rank)}), subprocess.PIPE
        time.sleep(apart_s * rank)
        started.append(subprocess.Popen([sys.executable, *words], cwd=project, env=told_env, text=True, stdout=pipe, stderr=pipe))
    told = [child.communicate(timeout=120) for child in started]
    return [(child.returncode, *both) for child, both in zip(started, told, strict=True)]


def test_both_ranks_end_as_if_nothing_had_happened(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    for folder in (project, tmp_path / "full"):
        (folder / "train.py").write_text(TRAIN)
    expected = [told for _, told, _ in ranks(tmp_path / "full", "train.py", env={"REARVIEW": "off"})]
    dying = {**LAUNCH, "DIE_AT": "3,4", "REARVIEW_EVERY": "1"}
    assert [code for code, _, _ in ranks(project, "-m", "rearview", "run", "train.py", env=dying)] == [-9, -9]
    alone = cli("resume", "--yes")
    assert alone.returncode == 2
    assert "had 2 ranks" in alone.stderr
    done = ranks(project, "-m", "rearview", "resume", "--yes", env=LAUNCH, apart_s=3.0)  # the first one is under way by then
    assert [(code, told) for code, told, _ in done] == [(0, told) for told in expected], done
    for name in ("out0.txt", "out1.txt"):
        assert (project / name).read_text() == (tmp_path / "full" / name).read_text()
    run = resuming.newest(cli)
    assert (run["status"], run["attempts"]) == ("finished", 2)
    assert "logged again, each with the same value" in cli("show", "last", check=True).stdout
