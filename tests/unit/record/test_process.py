"""Who a process is, and what the environment says about where it came from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rearview.model import ProcessNumber, RunId
from rearview.record import process
from rearview.store import processes


def test_identity_is_more_than_a_pid() -> None:
    who = processes.identity()
    assert who == processes.identity()
    assert who.pid == os.getpid()
    assert who.started > 0
    assert processes.start_ticks(1) != who.started
    assert processes.start_ticks(2**22 + 1) is None


@pytest.mark.parametrize("store", ["/a/b/.rearview", "/with/space /ü/.rearview"])
def test_the_mark_comes_back(store: str) -> None:
    mark = process.mark(RunId("r1"), ProcessNumber("0.2"), "key", Path(store))
    found = process.inherited({process.VARIABLE: mark})
    assert found == process.Inherited(RunId("r1"), ProcessNumber("0.2"), "key", Path(store))


@pytest.mark.parametrize("text", ["", "r1", "x/y/z/w", "r1/0", "////"])
def test_a_strange_mark_is_none(text: str) -> None:
    assert process.inherited({process.VARIABLE: text}) is None


def test_launches() -> None:
    assert process.launch_of({}, 1) is None
    assert process.launch_of({"RANK": "x", "WORLD_SIZE": "2"}, 1) is None
    assert process.launch_of({"RANK": "0", "WORLD_SIZE": "1"}, 1) is None
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    found = process.launch_of(slurm, 1)
    assert found is not None
    assert (found.rank, found.world) == (3, 4)
    same = process.launch_of({**slurm, "SLURM_PROCID": "0"}, 1)
    other = process.launch_of({**slurm, "SLURM_STEP_ID": "1"}, 1)
    assert same is not None
    assert other is not None
    assert same.key == found.key != other.key
    both = process.launch_of({**slurm, "RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, 1)
    assert both is not None
    assert (both.rank, both.world) == (1, 8), "torchrun inside Slurm: the inner launcher counts"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("SpawnProcess-3", (3,)), ("SpawnPoolWorker-12", (12,)), ("ForkServerProcess-1:2", (1, 2)), ("LokyProcess-4", (4,)),
        ("worker-7", ()), ("MainProcess", ()), ("SpawnProcess-", ()), ("SpawnProcess-3 (mine)", ()),
    ],
)  # fmt: skip
def test_the_place_that_a_name_tells(name: str, place: tuple[int, ...]) -> None:
    """A name that a program chose tells nothing."""
    assert process.place_in(name) == place
