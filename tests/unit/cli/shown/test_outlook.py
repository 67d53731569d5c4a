"""What a person reads of a run's files before it is gone on with."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from rearview.cli.shown import outlook, screen
from rearview.model import RunId
from rearview.record.resume import aside, undoing
from rearview.record.resume.past import Past
from rearview.record.resume.resuming import Prospect
from rearview.replay.running.again import Command


def files_of(plans: list[aside.Plan], left: list[str]) -> list[str]:
    """The lines of the plan about files."""
    changed = [undoing.Left(aside.Plan(path, aside.CUT, 1, 2, aside="00000"), Path("a2")) for path in left]
    prospect = Prospect(Past(RunId("r1"), {}, "killed", 2, None), None, plans, left=changed)
    found = outlook.Outlook(prospect, "killed SIGKILL", 3, Command([], "train.py", False, []), "python", ".", "aside")
    lines = outlook.page(found, screen.Screen(400, 24, terminal=False, colour=False), dt.datetime.now(dt.UTC))
    return lines[next((number for number, line in enumerate(lines) if line.startswith("output files")), len(lines)) :]


@pytest.mark.parametrize(
    ("left", "last"), [(["a", "b"], "is put back first"), (["a"], "1 file stays as it is"), ([], "2 files stay as they are")]
)
def test_files_that_are_put_back_first_are_not_taken_off_those_that_stay(left: list[str], last: str) -> None:
    lines = files_of([aside.Plan(path, aside.SAME, 1, 1) for path in ("a", "b")], [*left, "gone"])
    assert len([line for line in lines if "is put back first" in line]) == len(left) + 1
    assert last in lines[-1]
    assert not any("-" in line for line in lines)


def test_files_that_are_not_followed_are_named_apart() -> None:
    apart = [aside.Plan(f"/scratch/{number}", aside.APART, 0, None) for number in range(20)]
    lines = files_of([aside.Plan("a", aside.SAME, 1, 1), *apart], [])
    assert lines[0].startswith("output files: 1 file of the run")
    assert lines[2].startswith("stay as they are now")
    assert (lines[3], lines[-1]) == ("  /scratch/0", "  ... and 8 more (--dry-run --json lists all)")
