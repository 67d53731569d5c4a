"""Kill at random moments, resume, and get what the run that was never killed gives: weights, output, table, bit for bit.

Rows: 0 workers, 2, 2 persistent ones. Columns: checkpoints at the end of epochs, and in the middle of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.integration.resume.training import EACH, INSIDE, WAITING, Done, Nursery, chance, goes_on, points, project_in, resume, table

pytestmark = pytest.mark.torch

KILLS = int(os.environ.get("REARVIEW_TEST_RESUME_KILLS", "2"))
EPOCHS = 4
NAMES = ("loss", "acc", "total", "best")


@cache
def uninterrupted(nursery: Nursery, home: Path, workers: str, kind: str) -> tuple[Done, list[dict[str, object]]]:
    """What the program gives when it is left alone, without checkpoints."""
    project = project_in(home, f"whole-{workers}-{kind}")
    done = nursery.run(project, "mixed.py", workers, kind, str(EPOCHS), env={"REARVIEW_CHECKPOINTS": "off"})
    assert done.digest
    return done, table(project, *NAMES)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.mark.parametrize("kept", [EACH, INSIDE], ids=["epoch-end", "mid-epoch"])
@pytest.mark.parametrize("workers", [("0", "none"), ("2", "ordinary"), ("2", "persistent")], ids=" ".join)
def test_killed_and_resumed(
    workers: tuple[str, str], kept: dict[str, str], nursery: Nursery, project: Path, home: Path, tally: Callable[[str, int], None]
) -> None:
    whole, rows = uninterrupted(nursery, home, *workers)
    luck = chance()
    signals = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]
    for k in range(KILLS):
        here = project_in(project, f"kill-{k}")
        child = nursery.start(here, "mixed.py", *workers, str(EPOCHS), env=kept, before=WAITING)
        done = child.kill_after(luck.randrange(1, len(whole.lines) - 1), luck.choice(signals), luck.random() * 0.02)
        reached, kills = goes_on(whole.lines, done.lines), 0
        while done.code != 0:
            kills += 1
            kept_before = points(here)
            if kills < 3 and luck.random() < 0.4:
                done = resume(here, kept).kill_after(luck.randrange(0, 20), luck.choice(signals), luck.random() * 0.02)
            else:
                done = resume(here, kept).wait()
                assert done.code == 0, done.stderr
            if kept_before and done.lines:
                assert done.lines[0] != whole.lines[0], "it began anew in spite of a checkpoint"
            reached = goes_on(whole.lines, done.lines, reached)
        assert reached == len(whole.lines)
        assert done.digest == whole.digest
        assert table(here, *NAMES) == rows
        tally("kills of a training that was resumed", kills)
