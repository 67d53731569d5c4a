"""A run with several attempts: how it stands, and what was logged again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rearview.catalog.catalog import Catalog
from rearview.catalog.overlap import Overlap
from rearview.catalog.runs import RunInfo
from rearview.cli.shown import attempts, screen
from rearview.store import processes
from rearview.testing.stores import ProcessBuilder, RunBuilder, StoreBuilder

VIEW = screen.Screen(120, 40, terminal=False, colour=False)


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    return StoreBuilder(tmp_path)


def train(process: ProcessBuilder, epochs: range, value: Any = lambda epoch, step: epoch + step / 10, steps: int = 2) -> list[int]:
    """Log as a trainer does, beginning at some epoch as a resumed one does. Gives the clock after each epoch."""
    clock = []
    block = process.enter("epoch", range(10))
    block.iteration = epochs.start - 1
    for epoch in epochs:
        process.advance(block, epoch)
        for step in process.loop("step", range(steps)):
            process.log("loss", value(epoch, step))
        process.log("acc", float(epoch))
        clock.append(process.clock_us)
    return clock


def resumed(run: RunBuilder, attempt: int, after: int, taken_at: int, number: str = "0", **hello: Any) -> ProcessBuilder:
    """A process of an attempt that began after an epoch."""
    process = run.process(number, attempt=attempt, wall=run.begun.timestamp() + 1000 * (attempt - 1), **hello)
    origin = {"from": {"attempt": 1, "number": 1, "part": "iteration"}, "place": f"after epoch={after}", "lost_s": 5.0}
    process.fact("resumed", run=run.run, attempt=attempt, checkpoint={number: "x"}, taken_at={number: taken_at}, **origin)
    return process


def of(builder: StoreBuilder) -> tuple[RunInfo, Overlap | None]:
    with Catalog(builder.store) as catalog:
        return catalog.run("last"), catalog.overlap("last")


def killed_in_epoch_3(builder: StoreBuilder) -> tuple[RunBuilder, int]:
    """A run that was killed in its fourth epoch; the checkpoint was after the second."""
    run = builder.run()
    first = run.process()
    clock = train(first, range(4))
    first.stop()
    return run, clock[1]


def test_one_attempt_has_no_overlap(builder: StoreBuilder) -> None:
    run = builder.run()
    train(run.process(), range(2))
    info, overlap = of(builder)
    assert (info.attempts, overlap) == (1, None)


def test_what_was_logged_again_is_the_same(builder: StoreBuilder) -> None:
    run, taken_at = killed_in_epoch_3(builder)
    second = resumed(run, 2, 1, taken_at)
    train(second, range(2, 6))
    second.end()
    info, overlap = of(builder)
    assert (info.status, info.attempts) == ("finished", 2)
    assert overlap is not None
    assert (overlap.same, overlap.differing, overlap.only_before) == (6, 0, 0)
    assert attempts.sentences(overlap, finished=True) == ["6 rows logged again, each with the same value as before"]


def test_a_difference_is_named(builder: StoreBuilder) -> None:
    run, taken_at = killed_in_epoch_3(builder)
    second = resumed(run, 2, 1, taken_at)
    train(second, range(2, 6), lambda epoch, step: -1.0 if (epoch, step) == (3, 1) else epoch + step / 10)
    second.end()
    _, overlap = of(builder)
    assert overlap is not None
    assert (overlap.same, overlap.differing) == (5, 1)
    (one,) = overlap.different
    assert (one.name, one.path, one.before, one.after, one.attempt) == ("loss", "epoch=3/step=1", 3.1, -1.0, 2)
    assert attempts.sentences(overlap, finished=True)[1] == "loss at epoch=3/step=1 was 3.1 and is -1.0 in attempt 2"


NAN = float("nan")


@pytest.mark.parametrize(("before", "after", "same"), [(NAN, NAN, 1), (0.0, -0.0, 0), (1, 1.0, 0), ("a", "a", 1), ([1], [2], 0)])
def test_values_are_compared_to_the_bit(builder: StoreBuilder, before: object, after: object, same: int) -> None:
    run = builder.run()
    for attempt, value in ((1, before), (2, after)):
        process = run.process(attempt=attempt)
        process.log("x", value)
        process.end()
    _, overlap = of(builder)
    assert overlap is not None
    assert (overlap.same, overlap.differing) == (same, 1 - same)


def test_volatile_values_are_not_compared(builder: StoreBuilder) -> None:
    run = builder.run()
    for attempt in (1, 2):
        process = run.process(attempt=attempt)
        process.log("seconds", float(attempt), flags=1)
        process.end()
    _, overlap = of(builder)
    assert overlap is not None
    assert overlap.again == 0


def test_rows_not_reached_again_stay_visible(builder: StoreBuilder) -> None:
    run, taken_at = killed_in_epoch_3(builder)
    second = resumed(run, 2, 1, taken_at)
    train(second, range(2, 3))
    second.stop()
    info, overlap = of(builder)
    assert info.status == "killed"
    assert overlap is not None
    assert (overlap.same, overlap.only_before) == (3, 3), "the rows of epoch 3; those before the checkpoint are not missing"
    assert any("stay visible" in sentence for sentence in attempts.sentences(overlap, finished=False))
    with Catalog(builder.store) as catalog:
        assert len(catalog.table(["acc"]).rows()) == 4


def test_a_third_attempt_from_the_first_ones_checkpoint(builder: StoreBuilder) -> None:
    run, taken_at = killed_in_epoch_3(builder)
    second = resumed(run, 2, 1, taken_at)
    train(second, range(2, 3), lambda *_: 0.5)
    second.stop()
    third = resumed(run, 3, 1, taken_at)
    train(third, range(2, 5))
    third.end()
    info, overlap = of(builder)
    assert (info.status, info.attempts) == ("finished", 3)
    assert overlap is not None
    assert (overlap.again, overlap.differing, overlap.only_before) == (9, 4, 0)


def test_each_rank_is_compared_with_itself(builder: StoreBuilder) -> None:
    run = builder.run()
    for rank in ("0", "1"):
        process = run.process(rank)
        train(process, range(2), lambda epoch, step, rank=rank: float(rank))
        process.stop()
    for rank in ("0", "1"):
        process = resumed(run, 2, 0, 0, rank)
        train(process, range(2), lambda epoch, step, rank=rank: 7.0 if rank == "1" else float(rank))
        process.end()
    _, overlap = of(builder)
    assert overlap is not None
    assert overlap.differing == 4
    assert {one.process for one in overlap.different} == {"1"}


# -- status --------------------------------------------------------------------------------------------------------------


def test_time_between_attempts_does_not_count(builder: StoreBuilder) -> None:
    run = builder.run()
    first = run.process()
    first.fact("tick", wall=run.begun.timestamp() + 30, at=0)
    first.stop()
    second = resumed(run, 2, 1, 0)
    second.end(wall=run.begun.timestamp() + 1000 + 12)
    info, _ = of(builder)
    assert info.duration_s == pytest.approx(42)


def test_the_last_attempt_decides_though_a_rank_is_behind(builder: StoreBuilder) -> None:
    run = builder.run()
    for rank in ("0", "1"):
        run.process(rank).end("failed", exception="ValueError")
    me = processes.identity()
    who = {"host": me.host, "boot_id": me.boot_id, "pid": me.pid, "started": me.started}
    process = resumed(run, 2, 1, 0, process=who)
    process.log("x", 1.0)
    assert of(builder)[0].status == "running", "rank 1 has not begun its second attempt"
    process.end()
    assert of(builder)[0].status == "finished"


def test_the_signal_of_an_earlier_attempt_is_not_that_of_the_last(builder: StoreBuilder) -> None:
    run = builder.run()
    run.process().stop()
    supervisor = run.process("supervisor")
    supervisor.fact("exit", code=None, signal="SIGKILL", wall=0.0)
    supervisor.writer.close()
    assert (of(builder)[0].status, of(builder)[0].detail) == ("killed", "SIGKILL")
    run.process(attempt=2).stop()
    assert (of(builder)[0].status, of(builder)[0].detail) == ("killed", "")


def test_show_lists_attempts_with_where_each_began(builder: StoreBuilder) -> None:
    run, taken_at = killed_in_epoch_3(builder)
    second = resumed(run, 2, 1, taken_at)
    train(second, range(2, 6))
    second.end()
    with Catalog(builder.store) as catalog:
        detail = catalog.run_detail("last")
    assert [(one.number, one.place, one.lost_s, one.end) for one in detail.attempts] == [
        (1, None, None, None), (2, "after epoch=1", 5.0, "finished"),
    ]  # fmt: skip
    lines = attempts.listing(detail.attempts, "finished", VIEW)
    assert len(lines) == 3
    assert "the beginning" in lines[1]
    assert "killed" in lines[1]
    assert "after epoch=1" in lines[2]
    assert attempts.listing(detail.attempts[:1], "finished", VIEW) == []
