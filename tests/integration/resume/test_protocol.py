"""DETrain's protocol: two runs from the beginning, four that go on from arbitrary checkpoints, six equal sets of weights."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rearview.record.resume.restore_points import RestorePoint
from tests.integration.resume.training import INSIDE, WAITING, Nursery, chance, go_on_from, goes_on, points, project_in

pytestmark = pytest.mark.torch

ALWAYS = ("cnn", "transformer", "rl")
OTHERS = ("mlp", "rnn", "gan", "vae", "lbfgs", "everything")
RESUMES = 4


def choose(luck: random.Random, found: list[RestorePoint]) -> list[RestorePoint]:
    """Four checkpoints: one of each kind of place there is, the others anywhere; but not halfway to a backward pass."""
    found = [point for point in found if not point.is_halfway]
    kinds = sorted({point.part for point in found})
    chosen = [luck.choice([point for point in found if point.part == kind]) for kind in kinds]
    others = [point for point in found if point not in chosen]
    return [*chosen, *luck.sample(others, RESUMES - len(chosen))]


@pytest.mark.parametrize("program", [*ALWAYS, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_six_equal_sets_of_weights(program: str, nursery: Nursery, project: Path, tally: Callable[[str, int], None]) -> None:
    luck = chance(int(os.environ["REARVIEW_TEST_SEED"]) if "REARVIEW_TEST_SEED" in os.environ else None)
    first = nursery.run(project_in(project, "first"), f"{program}.py", env={"REARVIEW": "off"})
    here = project_in(project, "second")
    second = nursery.run(here, f"{program}.py", env=INSIDE, before=WAITING)
    assert second.digest == first.digest
    for point in choose(luck, points(here)):
        print(point.place)
        done = nursery.run(here, f"{program}.py", env={**INSIDE, **go_on_from(here, point)})
        assert done.digest == first.digest, f"from {point.place}\n{done.stdout}\n{done.stderr}"
        assert goes_on(first.lines, done.lines, len(first.lines)) == len(first.lines)
        assert len(done.lines) < len(first.lines) or point.first.path[0][2] == 0
        tally("resumes from arbitrary checkpoints", 1)
