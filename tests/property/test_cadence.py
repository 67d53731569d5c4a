"""eps is a ceiling: whatever is measured, in whatever order, all that was lost stays below eps of what was run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rearview.record.checkpoints.cadence import AdaptivePeriod

seconds = st.one_of(st.just(0.0), st.floats(min_value=1e-12, max_value=1e6, allow_nan=False))
"""No clock tells less than a picosecond: products of less than that have no bits left to compare."""
parts = st.floats(min_value=0.0, max_value=1.0, allow_nan=False)
ceilings = st.floats(min_value=1e-4, max_value=2.0, allow_nan=False)


@given(ceilings, seconds, st.lists(st.tuples(seconds, parts), max_size=200))
def test_the_ceiling_holds_whenever_checkpoints_cost_no_more_than_reckoned(
    eps: float, first: float, iterations: list[tuple[float, float]]
) -> None:
    period = AdaptivePeriod(eps)
    period.expect(1, copy_speed=1 / first if first else float("inf"))
    for ran, part in iterations:
        period.ran(ran)
        if period.due():
            assert period.M is not None
            period.took(period.M * part)
            assert period.lost_s <= eps * period.ran_s * (1 + 1e-12)
            assert period.share <= eps * (1 + 1e-12)


@given(ceilings, st.lists(st.tuples(seconds, seconds), min_size=1, max_size=60))
def test_after_checkpoints_that_cost_more_the_ceiling_is_reached_again(eps: float, iterations: list[tuple[float, float]]) -> None:
    """With costs that drift upward a decision can be overtaken by its own cost; none is taken on top before that is paid back."""
    period = AdaptivePeriod(eps)
    for ran, lost in iterations:
        period.ran(ran)
        if period.due():
            assert period.lost_s < eps * period.ran_s  # paid back, before it is spent again
            period.took(lost)
    longest = (period.lost_s + (period.M or 0.0)) / min(eps, period.limit) + 1.0
    period.ran(longest * (1 + 1e-9))
    assert period.due()  # and it recovers: no checkpoint however dear stops them for ever
    assert period.lost_s < eps * period.ran_s


@given(ceilings, st.lists(st.tuples(seconds, seconds), max_size=60), st.integers(min_value=0, max_value=60))
def test_a_resume_in_between_changes_no_decision(eps: float, iterations: list[tuple[float, float]], cut: int) -> None:
    whole, resumed = AdaptivePeriod(eps), AdaptivePeriod(eps)
    for number, (ran, lost) in enumerate(iterations):
        if number == cut:
            resumed = AdaptivePeriod.from_plain(resumed.to_plain(), eps)
        for period in (whole, resumed):
            period.ran(ran)
            if period.due():
                period.took(lost)
        assert whole.to_plain() == resumed.to_plain()


@given(ceilings, st.lists(seconds, max_size=40), seconds, seconds)
def test_inside_a_block_the_ceiling_holds_too(eps: float, steps: list[float], first: float, risk_s: float) -> None:
    period = AdaptivePeriod(eps)
    period.expect(1, copy_speed=1 / first if first else float("inf"))
    running = since = 0.0
    notices = 0
    for step in steps:
        running += step
        since += step
        decision = period.inside_due(since, risk_s, running)
        notices += decision.notice is not None
        if decision:
            assert since >= risk_s
            period.took(period.M or 0.0)
            since = 0.0
            assert period.lost_s <= eps * running * (1 + 1e-12)
    assert notices <= 1
