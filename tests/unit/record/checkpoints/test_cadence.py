"""The adaptive period: the joint invariant, its measurements, fixed periods, work at risk, and what survives a resume."""

from __future__ import annotations

import doctest
import json
import math
from typing import Any

import pytest

from rearview.errors import UsageError
from rearview.record.checkpoints import cadence
from rearview.record.checkpoints.cadence import AdaptivePeriod


def test_the_example_in_the_docstring_is_true() -> None:
    assert doctest.testmod(cadence).failed == 0
    assert doctest.testmod(cadence).attempted > 0


@pytest.mark.parametrize(("lost", "seconds", "n", "k"), [(1.0, 10.0, 3, 1), (1.0, 10.0, 4, 2), (0.1, 1.0, 2, 1), (2.0, 7.5, 9, 1)])
def test_it_is_equation_4(lost: float, seconds: float, n: int, k: int) -> None:
    """With equal iterations and equal checkpoints the measured sums are the paper's products."""
    period = AdaptivePeriod(eps=1 / 15)
    for _ in range(n):
        period.ran(seconds)
    for _ in range(k):
        period.took(lost)
    paper = lost / seconds < n / (k + 1) * min(1 / (1 + 1.0), 1 / 15)
    assert bool(period.due()) is paper
    assert (period.M, period.C, period.n, period.k, period.c) == (lost, seconds, n, k, 1.0)


def test_cheap_checkpoints_are_taken_every_time_and_dear_ones_rarely() -> None:
    def taken(lost: float) -> list[int]:
        period, at = AdaptivePeriod(eps=0.1), []
        for iteration in range(100):
            period.ran(1.0)
            if period.due():
                period.took(lost)
                at.append(iteration)
        assert period.share <= 0.1
        return at

    assert taken(0.01) == list(range(100))
    dear = taken(1.0)
    assert 9 <= len(dear) <= 10
    assert dear[1] - dear[0] >= 10


def test_the_first_cost_comes_from_bytes_and_copy_speed() -> None:
    period = AdaptivePeriod(eps=0.1)
    period.ran(1.0)
    assert period.due().why == "first"
    period.expect(2_000_000_000, copy_speed=1e9)
    assert period.M == 2.0
    assert not period.due()
    for _ in range(20):
        period.ran(1.0)
    assert period.due()
    period.took(0.05)
    assert period.M == 0.05  # what was measured takes the place of what was expected
    period.expect(3_000_000_000, copy_speed=1e9)
    assert period.M == 3.0  # a state that grew


def test_background_work_that_ends_later_counts_too() -> None:
    period = AdaptivePeriod(eps=0.1)
    period.ran(10.0)
    period.took(0.1)
    period.costs_more(0.4)
    assert (period.k, period.lost_s, period.M) == (1, 0.5, 0.5)
    assert period.share == 0.05


def test_restores_teach_c_which_can_be_the_tighter_bound() -> None:
    period = AdaptivePeriod(eps=0.5)
    for _ in range(10):
        period.ran(1.0)
    period.took(1.0)
    assert period.limit == 0.5
    period.restored(8.0)
    period.restored(10.0)
    assert period.c == 9.0
    assert period.limit == pytest.approx(0.1)
    assert not period.due()
    for _ in range(15):
        period.ran(1.0)
    assert period.due()


def test_irregular_iterations_count_with_the_time_they_took() -> None:
    period = AdaptivePeriod(eps=0.1)
    period.expect(1, copy_speed=1.0)
    for seconds in (0.001,) * 1000:
        period.ran(seconds)
    assert not period.due()  # a thousand iterations, but only one second
    period.ran(20.0)
    assert period.due()
    assert abs(period.C - 21.0 / 1001) < 1e-12


def test_an_expensive_one_is_paid_back_and_then_forgotten() -> None:
    period = AdaptivePeriod(eps=0.1)
    for _ in range(100):
        period.ran(1.0)
        if period.due():
            period.took(0.05)
    period.took(40.0)  # the disk had a bad moment
    waited = 0
    while not period.due():
        period.ran(1.0)
        waited += 1
        assert waited < 1000
    period.took(0.05)
    assert period.share <= 0.1
    assert period.M is not None and period.M < 40.0


@pytest.mark.parametrize("strange", [-1.0, math.nan, math.inf, -math.inf])
def test_a_clock_that_misbehaves_counts_nothing(strange: float) -> None:
    period = AdaptivePeriod()
    period.ran(strange)
    period.took(strange)
    period.restored(strange)
    assert (period.n, period.k, period.ran_s, period.lost_s) == (1, 1, 0.0, 0.0)
    assert not period.due()  # nothing was computed: nothing is worth keeping


def test_a_fixed_period_does_not_ask_for_the_cost() -> None:
    period = AdaptivePeriod(every=3)
    taken = []
    for iteration in range(9):
        period.ran(0.001)
        if period.due():
            period.took(100.0)
            taken.append(iteration)
    assert taken == [2, 5, 8]
    assert "fixed" in period.due().reason


def test_off_is_off() -> None:
    period = AdaptivePeriod(eps=0.0)
    period.ran(1e9)
    assert period.off
    assert not period.due()
    assert not period.inside_due(1e9)
    assert period.due().reason == "checkpoints are off"


@pytest.mark.parametrize(
    "wrong",
    [{"eps": -0.1}, {"eps": math.nan}, {"eps": math.inf}, {"eps": "x"}, {"eps": None}, {"every": -1}, {"every": 1.5}, {"every": "2"}],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} is .*: not ") as refused:
        AdaptivePeriod(**wrong)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("wrong", ["a", None, [1.0]])
@pytest.mark.parametrize("name", ["ran", "took", "costs_more", "restored"])
def test_durations_that_are_no_numbers_are_refused_and_count_nothing(name: str, wrong: Any) -> None:
    period = AdaptivePeriod()
    period.ran(1.0)
    period.took(0.5)
    before = period.to_plain()
    with pytest.raises(UsageError, match="a duration is a number of seconds: not "):
        getattr(period, name)(wrong)
    assert period.to_plain() == before


@pytest.mark.parametrize("wrong", [("x", 1.0), (1, "fast"), (None, 1.0)])
def test_an_expectation_that_is_none_is_refused(wrong: tuple[Any, Any]) -> None:
    period = AdaptivePeriod()
    with pytest.raises(UsageError, match="expect takes a number of bytes and how many are copied in a second"):
        period.expect(*wrong)
    assert period.M is None


def test_numbers_of_other_types_are_numbers() -> None:
    np = pytest.importorskip("numpy")
    period = AdaptivePeriod(np.float32(0.5), every=np.int64(2))
    period.ran(np.float32(1.5))
    period.took(0)
    assert (period.eps, period.every, period.ran_s, period.k) == (0.5, 2, 1.5, 1)


def test_inside_a_long_block_work_at_risk_decides_and_eps_wins() -> None:
    period = AdaptivePeriod(eps=0.1)
    period.expect(50, copy_speed=1.0)  # 50 s
    early = period.inside_due(899.0, 900.0, running_s=899.0)
    assert not early and early.why == "early"
    assert period.inside_due(900.0, 900.0, running_s=900.0).why == "risk"
    period.took(50.0)
    refused = period.inside_due(900.0, 900.0, running_s=905.0)
    assert not refused and refused.why == "risk-dear"
    assert refused.notice is not None and "eps=0.1" in refused.notice and "900 s" in refused.notice
    assert period.inside_due(950.0, 900.0, running_s=950.0).notice is None  # said once
    assert period.inside_due(1801.0, 900.0, running_s=1801.0)


def test_under_a_fixed_period_work_at_risk_decides_alone() -> None:
    period = AdaptivePeriod(eps=0.0, every=1)
    period.took(1e6)
    assert not period.inside_due(10.0, 60.0)
    assert period.inside_due(60.0, 60.0)


def test_counts_survive_a_resume() -> None:
    period = AdaptivePeriod(eps=0.1)
    for _ in range(50):
        period.ran(2.0)
    period.took(1.0)
    period.took(2.5)
    period.restored(3.0)
    again = AdaptivePeriod.from_plain(json.loads(json.dumps(period.to_plain())), eps=0.1)
    assert again.to_plain() == period.to_plain()
    assert (again.n, again.k, again.M, again.c, again.share) == (period.n, period.k, period.M, period.c, period.share)
    assert again.due() == period.due()


def test_what_an_older_attempt_did_not_note_counts_nothing() -> None:
    period = AdaptivePeriod.from_plain({"n": 3, "ran_s": 6.0, "something": 1.0})
    assert (period.n, period.k, period.C) == (3, 0, 2.0)


def test_a_decision_is_a_bool_with_a_reason() -> None:
    period = AdaptivePeriod(eps=0.1)
    period.expect(1, copy_speed=1.0)
    period.ran(2.0)
    decision = period.due()
    assert not decision
    assert decision.reason == "with it 1 s would be lost, only 0.2 s may be"
    assert "M=1 C=2 n=1 k=0" in repr(period)
