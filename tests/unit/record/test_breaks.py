"""Loops inside `checkpointing` that are left by break: where records belong, and which states are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import rearview as rv


@pytest.fixture(autouse=True)
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REARVIEW_DIR", str(tmp_path))
    monkeypatch.setenv("REARVIEW_EVERY", "1")
    monkeypatch.setenv("REARVIEW_QUIET", "1")


def train() -> None:
    total = 0
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(5)):
            for step in rv.loop("step", range(5)):
                total += 1
                if step == 2:
                    break
            rv.log("total", total)
            if epoch == 3:
                break
        rv.log("behind", total)
    total = 99
    rv.log("last", total)


def test_records_behind_a_break_are_not_in_the_loop() -> None:
    with rv.run():
        train()
    assert [(row["epoch"], "step" in row) for row in rv.dataframe("total", as_="rows")] == [(epoch, False) for epoch in range(4)]
    for name in ("behind", "last"):
        (row,) = rv.dataframe(name, as_="rows")
        assert "epoch" not in row


def test_the_state_at_a_break_is_kept() -> None:
    with rv.run() as run:
        train()
    state = rv.checkpoint(run.id, epoch=3)
    assert (state.boundary, state["total"]) == ("iteration", 12)
    rows = rv.sql("SELECT boundary, count(*) AS n FROM checkpoints GROUP BY boundary ORDER BY boundary")
    assert [row["n"] for row in rows] == [4, 4]
