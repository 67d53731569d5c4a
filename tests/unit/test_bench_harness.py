"""Figures that are quoted must be computed right."""

from __future__ import annotations

import json

import pytest

from bench import harness


def test_percentile_is_a_measured_value() -> None:
    values = [float(k) for k in range(1, 101)]
    assert harness.percentile(values, 99) == 99.0
    assert harness.percentile(values, 100) == 100.0
    assert harness.percentile([5.0], 99) == 5.0


def test_summary_has_median_and_spread() -> None:
    found = harness.summary([1.0, 2.0, 3.0, 4.0])
    assert (found["median"], found["min"], found["max"], found["n"]) == (2.5, 1.0, 4.0, 4)
    assert found["spread"] == pytest.approx((3.0 - 1.0) / 2 / 2.5)


def test_a_ratio_is_that_of_pairs_of_one_run() -> None:
    assert harness.ratio([2.0, 4.0, 60.0], [1.0, 2.0, 30.0])["median"] == 2.0
    with pytest.raises(ValueError):
        harness.ratio([1.0], [1.0, 2.0])


def test_in_turn_takes_turns() -> None:
    order: list[str] = []
    first, second = harness.in_turn(lambda: order.append("a"), lambda: order.append("b"), times=2, warmup=1)
    assert order == ["a", "b"] * 3
    assert len(first) == len(second) == 2


def test_report_says_which_figures_do_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    harness.report("x", harness.figures(log_us=[2.0, 4.0]), limits={"log_us.median": 3.0, "log_us.max": 3.0})
    told = json.loads(capsys.readouterr().out)
    assert told["over"] == ["log_us.max"]
    assert told["holds"] is False
