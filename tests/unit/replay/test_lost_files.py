"""When the content that a file had at a boundary matters: it is read after it, and not written anew before that."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rearview.record.resume.past import Past
from rearview.replay import lost_files
from rearview.testing.checkpoints import keep
from rearview.testing.stores import StoreBuilder


def _boundaries(*contents: int) -> list[Any]:
    """One each ten seconds; a number is a content of best.pt."""
    rows = [[["best.pt", 100, "w", None, content, str(content), None, False]] for content in contents]
    return [SimpleNamespace(wall=10.0 * k, files=row) for k, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("contents", "read", "needed"),
    [
        ((1, 1, 2), (35.0, 35.0), False),  # written anew, then read
        ((1, 1, 2), (15.0, 35.0), True),
        ((1, 1, 1), (35.0, 35.0), True),
        ((1, 2, 2), (-5.0, -5.0), False),  # read only before
        ((1, 2, 2), (5.0, 5.0), True),
    ],
)
def test_what_is_read_before_it_is_written_anew_is_needed(contents: tuple[int, ...], read: tuple[float, float], needed: bool) -> None:
    assert lost_files.is_needed("best.pt", "w", _boundaries(*contents), read) is needed


def test_what_is_appended_to_is_needed_whenever_it_is_read() -> None:
    assert lost_files.is_needed("best.pt", "a", _boundaries(1, 2, 3), (35.0, 35.0))


def _past(run: Any, **facts: Any) -> Past:
    return Past(run, {}, "finished", 1, None, opened=[["best.pt", "w", None, "0"]], **facts)


def test_only_files_that_are_read_cost_a_state(tmp_path: Path) -> None:
    run = StoreBuilder(tmp_path).run()
    run.process().end()
    rows = [["best.pt", 5000, "w", None, 7, "tail", None, False]]
    keep(run, 0, [["epoch", 0, 0, None]], {"w": b"x" * 10}, files=rows)
    assert lost_files.unusable(run.store, tmp_path, _past(run.run)).names == frozenset()
    found = lost_files.unusable(run.store, tmp_path, _past(run.run, read_back={"best.pt": (0.0, 9e12)}))
    assert len(found.names) == 1 and "best.pt" in found.sentence
    asked = lost_files.unusable(run.store, tmp_path, _past(run.run), ['rv.log("x", torch.load("best.pt")["x"])'])
    assert asked.names == found.names
