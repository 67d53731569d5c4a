"""Distributed data parallel, real processes: state of each rank, one decision, a checkpoint where every rank has a part, exact resumes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from rearview.store import manifests, runs
from tests.integration.ddp import launching
from tests.integration.resume.training import EACH, INSIDE, Nursery, chance, goes_on, points, project_in, store_of, table

pytestmark = pytest.mark.torch

NAMES = ("loss", "total")


@pytest.mark.parametrize("kept", [EACH, INSIDE], ids=["epoch-end", "mid-epoch"])
@pytest.mark.parametrize("world", [2, 3])
def test_killed_and_resumed(world: int, kept: dict[str, str], nursery: Nursery, project: Path, tally: Callable[[str, int], None]) -> None:
    luck = chance()
    alone = project_in(project, "whole")
    whole = launching.ended(launching.start(nursery, alone, world, {"REARVIEW_CHECKPOINTS": "off"}))
    here = project_in(project, "killed")
    per_epoch = (len(whole[0].lines) - 1) // 3
    lines = luck.randrange(2 * per_epoch + 1, len(whole[0].lines) - 2)  # by then the first checkpoint is written
    killed = launching.kill_after(launching.start(nursery, here, world, kept), lines, luck.random() * 0.02)
    assert all(one.code != 0 for one in killed)
    reached = [goes_on(whole[rank].lines, killed[rank].lines) for rank in range(world)]
    assert points(here), "no checkpoint that every rank has a part of"
    done = launching.ended(launching.resume(here, world, kept))
    for rank in range(world):
        assert done[rank].lines[0] != whole[rank].lines[0], "it began anew"
        lines_once = [line for line, _ in groupby(done[rank].lines)]
        assert len(done[rank].lines) - len(lines_once) == (1 if world > 2 else 0), "three ranks go through their first step twice"
        assert goes_on(whole[rank].lines, lines_once, reached[rank]) == len(whole[rank].lines)
        assert done[rank].digest == whole[rank].digest
    assert table(here, *NAMES) == table(alone, *NAMES)
    tally("kills of ranks that were resumed", 1)


def test_ranks_decide_alike(nursery: Nursery, project: Path) -> None:
    """Left to the adaptive period, which goes by clocks that differ from rank to rank."""
    here = project_in(project, "adaptive")
    launching.ended(launching.start(nursery, here, 2, {"REARVIEW_EPS": "0.5", "REARVIEW_RISK": "0.01"}))
    store = store_of(here)
    (run,) = runs.list_runs(store)
    taken: dict[str, set[tuple[object, ...]]] = {"0": set(), "1": set()}
    for name in manifests.list_of(store, run):
        found = manifests.read(store, name)
        taken[str(name.process)].add((found.part, *(tuple(level[:3]) for level in found.path)))
    assert taken["0"], "none was taken"
    assert taken["0"] == taken["1"]


def test_a_part_of_one_rank_is_no_checkpoint(nursery: Nursery, project: Path) -> None:
    here = project_in(project, "parts")
    launching.ended(launching.start(nursery, here, 2, EACH))
    store = store_of(here)
    before = points(here)
    newest = before[-1].members[1]
    manifests.path_of(store, newest.name).unlink()
    after = points(here)
    assert len(after) == len(before) - 1
    assert all(len(point.members) == 2 for point in after)
