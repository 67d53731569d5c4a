"""Every site of a question in every shape of training program: replayed values are those of a run that had the statements from the start.

`make test`: cells in which each pair of choices is met. `make long`: all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story
from tests.integration.replay.matrix import SITES, Cell, every_cell, pairwise
from tests.integration.resume.training import Nursery

pytestmark = pytest.mark.torch

CELLS = every_cell() if os.environ.get("REARVIEW_TEST_LONG") else pairwise(every_cell())


def named(cell: Cell) -> str:
    return "-".join(str(value) for value in (cell.loader, cell.kept, cell.shape, cell.leaving, cell.scheduler_named)).replace(" ", "_")


@pytest.fixture
def story(tmp_path: Path, request: pytest.FixtureRequest, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> Story:
    cell: Cell = request.param
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Story(tmp_path, {"train.py": cell.text()}, env=cell.env, nursery=nursery)


@pytest.mark.parametrize("story", CELLS, ids=named, indirect=True)
def test_values_are_those_of_a_run_that_had_the_statements(story: Story, tally: Callable[[str, int], None]) -> None:
    story.record()
    story.fill("start", "grads", "end")  # outer ones, nested blocks put back where they were kept
    story.fill("inner", "both", "before", "after")
    now, truth = story.rows(story.project, *SITES), story.truth(*SITES)
    assert set(now) == set(truth)
    assert [key for key in truth if now[key] != truth[key]] == []
    tally("replay: cells", 1)
    tally("replay: values of cells compared", len(truth))
