"""Predictions: what is summed, what is learned, how wide the interval is."""

from __future__ import annotations

import pytest

from rearview.plan.cost import Costs, Rates, learn
from rearview.plan.timeline import BLOCK, ITERATION, Boundary, History, MainBlock, Segment

_KEPT = Boundary("b", BLOCK, 0, 0, 1000)
_END = Boundary("i", ITERATION, 0, 0, 500)
_HISTORY = History(1.0, 2.0, (MainBlock("epoch", (10.0, 12.0, 8.0, 11.0), (9.0, 11.0, 7.0, 10.0)),), 4.0, (_KEPT, _END))
_RATES = Rates(0.5, 0.25, 0.001, 0.125, 0.002, 0.0625, 0.004)
_SLOW = Rates(0.5, 0.25, 0.001, 0.125, 0.002, 0.0625, 0.004, 2.0)


def test_a_skipped_iteration_costs_its_outer_body_and_the_state() -> None:
    costs = Costs(_HISTORY, _RATES)
    assert costs.begin_s(_END) == 1 + 0.5 + 2 + 0.25 + 0.5
    assert costs.segment_s(Segment(0, 0), _KEPT) == 1 + (0.125 + 2) + (0.0625 + 2)
    assert costs.segment_s(Segment(0, 0), None) == 10 + (0.0625 + 4) + (0.0625 + 2)
    assert costs.segment_s(Segment(0, 0), None, late=True) == 1 + (0.0625 + 2)
    assert costs.segment_s(Segment(0), None) == 4


def test_rates_are_learned_from_what_restores_took() -> None:
    found = learn([("restore", 10**9, 3.0), ("restore", 10**9, 5.0), ("restore", 10**9, 4.0), ("worker", 0, 0.4)])
    assert found.restoring(Boundary("x", ITERATION, 0, 0, 10**9)) == pytest.approx(4.0)
    assert found.worker_s == 0.4
    assert found.put_back_s_per_byte == Rates().put_back_s_per_byte


def test_the_interval_comes_from_the_spread_and_from_earlier_replays() -> None:
    ran = [(Segment(0, k), False) for k in range(4)]
    fresh = Costs(_HISTORY, Rates()).interval(100.0, ran)
    assert fresh.low < 100 * 0.9 and fresh.high > 100 * 1.1 and fresh.expected == 100.0
    known = Costs(_HISTORY, Rates(ratios=(1.1, 1.12, 1.08))).interval(100.0, [])
    assert (known.low, known.expected, known.high) == (100.0, 100.0, pytest.approx(112))  # the rates have learned the rest
    guessed = History(1.0, 2.0, _HISTORY.blocks, 4.0, measured=False)
    assert Costs(guessed, Rates()).interval(100.0, []).high > fresh.expected * 1.3


def test_the_pace_counts_for_iterations_alone() -> None:
    costs = Costs(_HISTORY, _SLOW)
    assert costs.begin_s(None) == (1 + 2) + 0.5
    assert costs.segment_s(Segment(0, 0), _KEPT) == 2 * 1 + (0.125 + 2) + (0.0625 + 2)
    assert costs.segment_s(Segment(0), None) == 4
    assert learn([("pace", 0, 1.5), ("pace", 0, 1.7), ("pace", 0, 1.6)]).pace == 1.6
