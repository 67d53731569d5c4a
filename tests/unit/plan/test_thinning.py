"""The order in which moments go: evenly, older runs sooner."""

from __future__ import annotations

from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from rearview.plan.thinning import Row, order, weight

times = st.lists(st.integers(1, 10_000), min_size=1, max_size=30).map(lambda steps: [float(sum(steps[: k + 1])) for k in range(len(steps))])


@st.composite
def rows(draw: st.DrawFn) -> Row:
    moments = draw(times)
    fixed = draw(st.lists(st.booleans(), min_size=len(moments), max_size=len(moments)))
    return Row(draw(st.integers(-100, 1)), moments, fixed)


def left(row: Row, gone: set[int]) -> list[float]:
    return [row.began, *(time for k, time in enumerate(row.times) if k not in gone)]


def test_a_run_of_equal_steps_stays_evenly_spread() -> None:
    row = Row(0.0, [float(k) for k in range(1, 65)], [False] * 64)
    gone: set[int] = set()
    for step in order([row]):
        gone.add(step.place)
        kept = left(row, gone)
        gaps = [b - a for a, b in pairwise(kept)]
        assert max(gaps) <= 3 * 64 / len(gaps), f"{len(gaps)} left"
    assert len(gone) == 63


def test_an_older_run_gives_first_and_none_is_cut_off() -> None:
    new, old = (Row(began, [began + k for k in range(1, 11)], [False] * 10) for began in (1000.0, 0.0))
    first = list(islice(order([new, old]), 8))
    gone_of_old = {step.place for step in first if step.row == 1}
    assert len(gone_of_old) > 4, "gaps in the older run count half"
    assert 9 not in gone_of_old
    assert gone_of_old != set(range(len(gone_of_old))), "not simply the oldest"


def test_long_gaps_of_a_long_run_outlive_short_ones_of_a_newer_run() -> None:
    hours = Row(0.0, [3600.0 * k for k in range(1, 6)], [False] * 5)
    seconds = Row(90_000.0, [90_000.0 + k for k in range(1, 6)], [False] * 5)
    assert [step.row for step in islice(order([seconds, hours]), 4)] == [0, 0, 0, 0]


@given(st.lists(rows(), min_size=1, max_size=4))
def test_everything_goes_once_but_the_last_and_the_fixed(made: list[Row]) -> None:
    steps = [(step.row, step.place) for step in order(made)]
    assert len(set(steps)) == len(steps)
    may_go = {(k, place) for k, row in enumerate(made) for place, fixed in enumerate(row.fixed[:-1]) if not fixed}
    assert set(steps) == may_go


@given(st.lists(rows(), min_size=1, max_size=4))
def test_each_leaves_at_least_the_gap_of_the_one_before(made: list[Row]) -> None:
    weighted = [step.gap_s * weight(step.row) for step in order(made)]
    assert weighted == sorted(weighted)


@given(st.lists(rows(), min_size=1, max_size=3), st.integers(0, 40))
def test_what_is_left_could_not_have_gone_for_less(made: list[Row], count: int) -> None:
    """Against looking at every moment: after any number of steps, each moment that could go leaves at least as large a gap."""
    steps = list(islice(order(made), count))
    if not steps:
        return
    gone = [{step.place for step in steps if step.row == k} for k in range(len(made))]
    largest = steps[-1].gap_s * weight(steps[-1].row)
    for k, row in enumerate(made):
        kept = [place for place in range(len(row.times)) if place not in gone[k]]
        for before, place, after in zip([-1, *kept], kept, kept[1:], strict=False):
            if not row.fixed[place]:
                since = row.times[before] if before >= 0 else row.began
                assert (row.times[after] - since) * weight(k) >= largest
