"""Ranks of one launch are one run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment
from tests.integration.record.reading import read_all, the_run


def ranks(project: Path, text: str, environments: list[dict[str, str]]) -> list[str]:
    (project / "train.py").write_text(text)
    started = [
        subprocess.Popen([sys.executable, "train.py"], env=environment(extra), stderr=subprocess.PIPE, text=True) for extra in environments
    ]
    said = [child.communicate(timeout=60)[1] for child in started]
    assert [child.returncode for child in started] == [0] * len(started), said
    return said


RANKED = """
import os, rearview as rv
rank = int(os.environ["RANK_HERE"])
for step in rv.loop("step", range(3)):
    rv.log("loss", rank + step / 10)
with rv.run(name="second"):
    rv.log("again", rank)
"""

LAUNCHERS = {
    "slurm": lambda k: {"SLURM_PROCID": str(k), "SLURM_NTASKS": "3", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"},
    "ompi": lambda k: {
        "OMPI_COMM_WORLD_RANK": str(k), "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3", "PMIX_NAMESPACE": "x",
    },
    "torchrun": lambda k: {
        "RANK": str(k), "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
    },
}  # fmt: skip


@pytest.mark.parametrize("launcher", sorted(LAUNCHERS))
def test_ranks_of_one_launch_are_one_run(project: Path, launcher: str) -> None:
    said = ranks(project, RANKED, [{**LAUNCHERS[launcher](k), "RANK_HERE": str(k)} for k in range(3)])
    first, second = read_all(project)
    for run in (first, second):
        assert run.processes == {"0", "1", "2"}
        assert {fact["rank"] for fact in run.fact("hello")} == {0, 1, 2}
        assert {fact["world"] for fact in run.fact("hello")} == {3}
    assert sorted(r.value for r in first.records) == sorted(rank + step / 10 for rank in range(3) for step in range(3))
    assert second.json["name"] == "second"
    assert sum("rearview: run r" in text for text in said) == 1
    assert (first.json["launch"] or {})["world"] == 3


def test_two_launches_are_two_runs(project: Path) -> None:
    """Slurm numbers stay the same when a batch script runs two programs one after the other."""
    for _ in range(2):
        ranks(project, "import rearview as rv\nrv.log('x', 1)", [LAUNCHERS["slurm"](k) for k in range(2)])
    assert [len(run.records) for run in read_all(project)] == [2, 2]


def test_a_program_started_by_a_rank_is_no_rank(project: Path) -> None:
    (project / "inner.py").write_text("import rearview as rv\nrv.log('inner', 1)")
    text = "import subprocess, sys, rearview as rv\nrv.log('x', 1)\nsubprocess.run([sys.executable, 'inner.py'], check=True)"
    ranks(project, text, [LAUNCHERS["slurm"](k) for k in range(2)])
    outer, *inner = sorted(read_all(project), key=lambda run: str(run.json["filename"]), reverse=True)
    assert outer.processes == {"0", "1"}
    assert [run.json["parent"]["run"] for run in inner] == [outer.run] * 2
    assert {run.json["parent"]["process"] for run in inner} == {"0", "1"}
    assert [run.json["launch"] for run in inner] == [None, None]


@pytest.mark.torch
def test_torchrun(project: Path) -> None:
    (project / "train.py").write_text(
        """
import os, torch.distributed as dist
import rearview as rv
dist.init_process_group("gloo")
for step in rv.loop("step", range(2)):
    rv.log("loss", dist.get_rank() + step / 10)
dist.destroy_process_group()
"""
    )
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    done = subprocess.run(words, env={**environment(None), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    run = the_run(project)
    assert sorted((r.process, r.value) for r in run.records) == [("0", 0.0), ("0", 0.1), ("1", 1.0), ("1", 1.1)]
