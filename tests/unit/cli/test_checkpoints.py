"""The list of checkpoints and what gc says, as a screen shows them: narrow ones, hostile names, many rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from rearview.catalog.checkpoints import CheckpointInfo
from rearview.catalog.detail import KeptStates, RunDetail
from rearview.catalog.paths import Element
from rearview.catalog.retention import Retention
from rearview.cli import checkpoints, gc
from rearview.cli.shown import cadence, screen
from rearview.model import RunId
from rearview.plan.policies import parse
from rearview.plan.retention import Item, Verdict
from rearview.store.gc import GcDone, GcPlan

NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
ONE = CheckpointInfo(
    run=RunId("r3kd8f2q9xz4a"), attempt=1, number=1, boundary="block", path=(Element("epoch", 0, 0, 1), Element("step", 0, 99, 99)),
    taken_at=NOW, size_bytes=1_100_000_000, new_bytes=60_000_000, stall_s=0.09, background_s=1.2, whole=True, complete=True, missing=(),
    pickled=(), pinned=False, thinned=None, absent=(), members=(),
)  # fmt: skip


def view(width: int) -> screen.Screen:
    return screen.Screen(width, 24, terminal=False, colour=False)


def retention(*infos: CheckpointInfo, keep: bool = True, why: str = "pinned", **more: Any) -> Retention:
    items = [Item(one.run, one.attempt, one.number, one.boundary, one.place, 0.0, one.size_bytes) for one in infos]
    verdicts = [Verdict(item, keep, why, 0 if keep else 7000) for item in items]
    return Retention(parse("everything"), list(infos), verdicts, **more)


def test_a_row_says_it_in_words() -> None:
    (_, row) = checkpoints.page([ONE], retention(ONE), view(140), NOW)
    words = ("epoch=1", "after the step loop", "1.1 GB", "60.0 MB", "0.09s", "1.20s", "complete", "pinned")
    assert all(word in row for word in words)
    inside = replace(ONE, boundary="inside")
    assert "epoch=1/step=99" in checkpoints.page([inside], retention(inside), view(140), NOW)[1]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_narrow_screen_keeps_place_size_and_state(width: int) -> None:
    head, row, *told = checkpoints.page([ONE], retention(ONE), view(width), NOW)
    assert max(map(len, (head, row, *told))) <= width
    assert "epoch=1" in row
    assert "1.1 GB" in row
    assert "complete" in row
    assert bool(told) is ("why" not in head or "when" not in head)


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_number_is_cut_and_what_is_left_out_is_said(width: int) -> None:
    partial = replace(ONE, complete=False, missing=("f: open file (X)",), size_bytes=47_200, new_bytes=16_300)
    rows = [replace(partial, stall_s=123.0 * k) for k in (1, 9)]
    lines = checkpoints.page(rows, retention(*rows, why="everything is kept"), view(width), NOW)
    titles = ("boundary", "when", "size", "new", "stall", "back", "state", "why")
    left_out = lines[3].removeprefix("no room for ").split(", ") if lines[3].startswith("no room for ") else []
    for title in titles:
        assert (title in lines[0]) is not any(name.startswith(title) for name in left_out), title
    for line in lines[1:3]:
        assert "47.2 kB" in line
        assert "new" in left_out or "16.3 kB" in line
    if width == 80:
        assert left_out == ["when"], "why it is kept is more than when it was taken"


def test_states_in_a_word() -> None:
    rows = [
        replace(ONE, whole=False, absent=(1, 3)),
        replace(ONE, thinned="not kept by newest:1"),
        replace(ONE, complete=False, missing=("f: open file (X)", "s: socket (Y)")),
    ]
    page = "\n".join(checkpoints.page(rows, retention(), view(160), NOW))
    for word in ("no part of rank 1, 3", "not kept by newest:1", "partial, 2 missing", "s: socket (Y), from epoch=1 on"):
        assert word in page


def test_names_cannot_reach_the_terminal() -> None:
    path = (Element("e\x1b[31m", 0, 0, "v\n\x9b"), Element("s\x07", 0, 0, 1))
    evil = replace(ONE, path=path, missing=("w\x1b]0;x\x07: y (z)",), complete=False)
    thinned = replace(evil, thinned="why\x1b[2J")
    kept = retention(evil, why="x\x1b[0m", notes=["note\x1b"])
    lines = [*checkpoints.page([evil, thinned], kept, view(200), NOW), *gc.page(retention(evil, keep=False), GcPlan(), None, view(200))]
    assert all(line.isprintable() for line in lines)


def test_attempts_and_processes_are_shown_where_there_are_several() -> None:
    assert "attempt" not in checkpoints.page([ONE], retention(ONE), view(160), NOW)[0]
    head = checkpoints.page([ONE, replace(ONE, attempt=2, process="0.1")], retention(ONE), view(160), NOW)[0]
    assert "attempt" in head
    assert "process" in head


def test_gc_counts_a_checkpoint_with_two_parts_once() -> None:
    both = [ONE, replace(ONE, boundary="iteration", path=ONE.path[:1])]
    found = retention(*both, keep=False, why="not kept by newest:1")
    lines = gc.page(found, GcPlan(bytes_free=14_000, packs_removed=("a",)), None, view(120))
    assert [line.split()[:6] for line in lines[1:2]] == [["r3kd8f2", "epoch=1", "1.1", "GB", "14.0", "kB"]]
    assert lines[2:] == ["1 pack to remove", "would free 14.0 kB; 0 checkpoints stay; nothing was removed (--dry-run)"]
    done = gc.page(found, GcPlan(), GcDone(bytes_freed=14_000), view(120))
    assert done[-1] == "freed 14.0 kB; 0 checkpoints stay"


def test_gc_says_why_less_came_free_and_counts_one() -> None:
    found = retention(ONE, replace(ONE, number=9), keep=False)
    waits = GcPlan(kept=("1 object is less than 10 minutes old",))
    assert gc.page(found, waits, GcDone(bytes_freed=0), view(120))[-1] == (
        "freed 0 B of 14.0 kB; the rest comes free with a later gc, see below; 0 checkpoints stay"
    )
    assert gc.page(found, replace(waits, bytes_free=3000), None, view(120))[-1] == (
        "would free 3.0 kB of 14.0 kB; the rest comes free with a later gc, see below; 0 checkpoints stay; nothing was removed (--dry-run)"
    )
    assert gc.page(found, waits, GcDone(bytes_freed=13_990), view(120))[-1] == "freed 14.0 kB; 0 checkpoints stay", "no more to tell"
    kept = gc.page(retention(ONE), GcPlan(), GcDone(), view(120))
    assert kept[-1] == "freed 0 B; 1 checkpoint stays"


def test_gc_lists_many_by_their_ends() -> None:
    many = [replace(ONE, number=k, path=(Element("epoch", 0, k, k),), boundary="iteration") for k in range(100)]
    lines = gc.page(retention(*many, keep=False), GcPlan(), None, view(120))
    assert len(lines) == 1 + gc.SHOWN + 1 + 1
    assert any("60 checkpoints" in line for line in lines)


def test_gc_says_by_how_much_a_budget_is_missed() -> None:
    found = retention(ONE, held_bytes=3_000_000, other_bytes=500_000)
    found.policy = parse("budget:1MB")
    assert "still 2.5 MB above its budget of 1.0 MB" in gc.page(found, GcPlan(), None, view(200))[-1]
    assert gc.above_budget(retention(ONE, held_bytes=3_000_000)) == 0


def test_figures_of_a_block() -> None:
    detail = RunDetail.__new__(RunDetail)
    detail.checkpoints = KeptStates(2, 0, 1, 3, 5000, "epoch=2")
    detail.cadence = {"epoch": {"k": 2, "n": 9, "M": None, "C": 1.0, "every": 3}}
    detail.info = type("Info", (), {"run": "r1"})()
    lines = cadence.lines(detail, view(120))
    assert lines[0].startswith("2 checkpoints (1 pinned, 3 thinned), 5.0 kB; the last at epoch=2")
    assert lines[2].split() == ["epoch", "k=2", "of", "n=9", "1.00s", "every", "3"]
    detail.checkpoints, detail.cadence = None, {}
    assert cadence.lines(detail, view(120)) == []
