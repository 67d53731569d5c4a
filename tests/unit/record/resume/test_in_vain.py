"""Which states are not tried again, because attempts that went on from them failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rearview.model import ProcessNumber
from rearview.record.resume import in_vain, restore_points
from rearview.record.resume.in_vain import Attempt, attempts_of, led_nowhere
from rearview.record.resume.restore_points import RestorePoint
from rearview.state.take.histories import PENDING
from rearview.store.manifests import Manifest
from rearview.testing.stores import RunBuilder, StoreBuilder
from tests.unit.store.checkpoints import RUN


def point(attempt: int, epoch: int, *, halfway: bool = False) -> RestorePoint:
    manifest = Manifest(
        run=RUN, process=ProcessNumber("0"), attempt=attempt, number=epoch + 1, part="iteration", path=[["epoch", 0, epoch, epoch]],
        tree="", tree_bytes=0, buffers=(), missing=[["loss", "torch.Tensor", PENDING]] if halfway else [],
    )  # fmt: skip
    return RestorePoint(RUN, attempt, epoch + 1, "iteration", (manifest,))


def points(*kept: tuple[int, int]) -> list[RestorePoint]:
    """Attempt and epoch of each, oldest first; the newest first, as a run has them."""
    return [point(attempt, epoch) for attempt, epoch in kept][::-1]


def went_on(number: int, epoch: int | None, failure: str = "ValueError") -> Attempt:
    return Attempt(number, None if epoch is None else ("iteration", ("epoch", 0, epoch)), failure)


def left(kept: list[RestorePoint], *attempts: Attempt) -> list[tuple[int, int]]:
    """Attempt and epoch of those that may be gone on from."""
    return [(one.attempt, one.number - 1) for one in restore_points.reachable(kept, frozenset(), attempts)[0]]


def test_an_attempt_that_failed_and_kept_nothing_newer_is_followed_by_one_from_an_older_state() -> None:
    kept = points((1, 0), (1, 1), (1, 2))
    assert left(kept, went_on(2, 2)) == [(1, 1), (1, 0)]
    assert left(kept, went_on(2, 2, "")) == [(1, 2), (1, 1), (1, 0)], "it was ended from outside"
    (sentence,) = restore_points.reachable(kept, frozenset(), [went_on(2, 2)])[1]
    assert "(after epoch=2): attempt 2, which went on from there, failed (ValueError) and kept no newer state" in sentence


def test_one_that_kept_a_newer_state_is_gone_on_from_there() -> None:
    assert left(points((1, 0), (1, 1), (2, 2)), went_on(2, 1)) == [(2, 2), (1, 1), (1, 0)]


def test_attempts_walk_down_to_the_beginning() -> None:
    """Each comes to the places again that those before had failed from: that is nothing newer."""
    kept = points((1, 0), (1, 1), (1, 2), (3, 2), (4, 1), (4, 2))
    walk = [went_on(2, 2), went_on(3, 1), went_on(4, 0)]
    assert left(kept[3:], *walk[:1])[0] == (1, 1)
    assert left(kept[2:], *walk[:2])[0] == (1, 0)
    assert left(kept, *walk) == []
    assert left(points((1, 0), (1, 1), (1, 2), (5, 0), (5, 1)), *walk, went_on(5, None)) == [], "the beginning, once more"


def test_after_a_walk_a_newer_place_counts() -> None:
    kept = points((1, 0), (1, 1), (1, 2), (3, 2), (3, 3))
    assert left(kept, went_on(2, 2), went_on(3, 1))[0] == (3, 3)
    again = left(kept, went_on(2, 2), went_on(3, 1), went_on(4, 3))
    assert again == [(1, 1), (1, 0)], "not the state at a place that failed before"


def test_one_that_was_ended_from_outside_may_have_come_there_in_better_health() -> None:
    kept = points((1, 0), (1, 1), (3, 1))
    assert left(kept, went_on(2, 1), went_on(3, 0, ""))[0] == (3, 1)
    assert left(kept, went_on(2, 1), went_on(3, 0, ""), went_on(4, 1)) == [(1, 0)]


def test_states_halfway_to_a_backward_pass_are_nothing_newer_where_there_are_others() -> None:
    kept = [point(2, 2, halfway=True), point(1, 1), point(1, 0)]
    assert in_vain.key_of(point(1, 1)) in led_nowhere(kept, [went_on(2, 1)])
    kept = [point(2, 2, halfway=True), point(1, 1, halfway=True)]
    assert led_nowhere(kept, [went_on(2, 1)]) == {}


def test_edited_code_goes_on_from_the_newest() -> None:
    kept = points((1, 0), (1, 1))
    assert restore_points.reachable(kept, frozenset(), [went_on(2, 1)], edited=True) == (kept, [])


# -- what journals say -----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> RunBuilder:
    run = StoreBuilder(tmp_path).run()
    run.process().end("failed", exception="ValueError", exit_code=1)
    return run


def second(run: RunBuilder, *, comes_there: bool = True, rank: str = "0", of: str | None = None) -> Any:
    """Attempt 2, as far as the place that it goes on from."""
    process = run.process(rank, attempt=2)
    origin = {"from": {"attempt": 1, "number": 2, "part": "iteration"}, "path": [["epoch", 0, 1, 7]]}
    process.fact("resumed", run=of or run.run, attempt=2, checkpoint={"0": "0-a1-000002-iteration"}, **origin)
    if comes_there:
        process.fact("restored", manifest="0-a1-000002-iteration", seconds=0.1)
    return process


def failures(run: RunBuilder) -> list[str]:
    return [one.failure for one in attempts_of(run.store, run.run)]


def test_where_an_attempt_went_on_and_what_it_failed_of(run: RunBuilder) -> None:
    process = second(run)
    process.rotate()  # the end is in another part than the beginning
    process.end("failed", exception="ValueError", exit_code=1)
    assert attempts_of(run.store, run.run) == [Attempt(2, ("iteration", ("epoch", 0, 1)), "ValueError")]
    assert led_nowhere(points((1, 0), (1, 1)), attempts_of(run.store, run.run)).keys() == {(1, 2, "iteration")}


def test_one_that_did_not_come_there_is_another_matter(run: RunBuilder) -> None:
    second(run, comes_there=False).end("failed", exception="IndexError", exit_code=1)
    assert attempts_of(run.store, run.run) == []


def test_a_state_of_another_run_is_none_of_this_one(run: RunBuilder) -> None:
    second(run, of="r-another").end("failed", exception="ValueError", exit_code=1)
    assert attempts_of(run.store, run.run) == [Attempt(2, None, "ValueError")]


@pytest.mark.parametrize(
    ("how", "facts", "failure"),
    [
        ("finished", {}, ""),
        ("failed", {"exception": "KeyboardInterrupt", "exit_code": 1}, ""),
        ("failed", {"exit_code": 143}, ""),
        ("failed", {"exit_code": 3}, "exit 3"),
        ("failed", {"exception": "mine.Failed", "exit_code": 1}, "mine.Failed"),
    ],
)
def test_how_it_says_itself_that_it_ended(run: RunBuilder, how: str, facts: dict[str, Any], failure: str) -> None:
    second(run).end(how, **facts)
    assert failures(run) == [failure]


@pytest.mark.parametrize(
    ("code", "signal", "failure"), [(None, "SIGKILL", ""), (None, "SIGSEGV", "SIGSEGV"), (7, None, "exit 7"), (143, None, "")]
)
def test_how_a_supervisor_saw_it_end(run: RunBuilder, code: int | None, signal: str | None, failure: str) -> None:
    second(run).stop()
    process = run.process("supervisor", attempt=2)
    process.fact("exit", code=code, signal=signal, wall=0.0)
    process.stop()
    assert failures(run) == [failure]


def test_a_rank_that_fails_because_another_is_gone_did_not_fail_by_itself(run: RunBuilder) -> None:
    second(run).end("failed", exception="RuntimeError", message="[gloo/transport/tcp/pair.cc:534] Connection closed by peer", exit_code=1)
    other = second(run, rank="1")
    other.stop()
    assert failures(run) == [""]


def test_a_rank_that_fails_takes_the_others_with_it(run: RunBuilder) -> None:
    second(run).end("failed", exception="ValueError", message="nan", exit_code=1)
    second(run, rank="1").stop()
    assert failures(run) == ["ValueError"]
