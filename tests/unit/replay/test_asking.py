"""The ladder of trust: a rung that costs more than what was agreed to is offered, never started unasked."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest

from rearview.errors import UsageError
from rearview.plan import scans
from rearview.plan.cost import Seconds
from rearview.plan.scans import Plan, Stretch
from rearview.plan.timeline import OTHER, Boundary, History
from rearview.replay import answering, asking, preparing
from rearview.replay.proof.compare import Comparison
from rearview.replay.proof.verdicts import Evidence, judge


class _Prepared:
    """A run whose rungs have these costs."""

    def __init__(self, costs: dict[str, float], rung: str = scans.RESUME) -> None:
        self.costs, self.plan = costs, self.on_(costs[rung], rung)

    @staticmethod
    def on_(seconds: float, rung: str) -> Plan:
        return Plan(rung, (Stretch(),), seconds=Seconds(seconds, seconds, seconds))

    def climb(self, rung: str) -> _Prepared:
        return _Prepared(self.costs, rung)

    def next_rung(self) -> _Prepared | None:
        at = scans.RUNGS.index(self.plan.rung) + 1
        return self.climb(scans.RUNGS[at]) if at < len(scans.RUNGS) else None


def _carrying(verdicts: dict[str, str], ran: list[str], **facts: Any) -> Any:
    def carry_out(prepared: _Prepared, show: Any = None) -> Any:
        ran.append(prepared.plan.rung)
        told = {"interrupted": False, "failed": [], "statement_changes_run": False, "not_there": False, "counts_along": False}
        judgement = SimpleNamespace(verdict=verdicts[prepared.plan.rung])
        return SimpleNamespace(prepared=prepared, judgement=judgement, **{**told, "seconds": 2.0, **facts})

    return carry_out


_DIVERGENT = dict.fromkeys(scans.RUNGS, "divergent")


@pytest.mark.parametrize(
    ("costs", "agrees", "verdicts", "ran"),
    [
        ((10, 5, 99), False, {**_DIVERGENT, "pseudoresume": "identical"}, ["resume", "pseudoresume"]),
        ((10, 20, 99), False, _DIVERGENT, ["resume"]),
        ((10, 20, 99), True, _DIVERGENT, ["resume", "pseudoresume", "start"]),
        ((10, 20, 99), True, {**_DIVERGENT, "resume": "identical"}, ["resume"]),
        ((10, 5, 99), False, _DIVERGENT, ["resume", "pseudoresume"]),
    ],
)
def test_rungs(monkeypatch: pytest.MonkeyPatch, costs: tuple[float, ...], agrees: bool, verdicts: dict[str, str], ran: list[str]) -> None:
    seen: list[str] = []
    monkeypatch.setattr(answering, "carry_out", _carrying(verdicts, seen))
    prepared: Any = _Prepared(dict(zip(scans.RUNGS, costs, strict=True)))
    answer = asking.climb(prepared, lambda *_: agrees)
    assert seen == ran
    assert answer.seconds == 2.0 * len(ran), "what was waited for is the whole ladder"


@pytest.mark.parametrize("facts", [{"interrupted": True}, {"failed": [{}]}, {"statement_changes_run": True}])
def test_no_rung_helps(monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any]) -> None:
    seen: list[str] = []
    monkeypatch.setattr(answering, "carry_out", _carrying(_DIVERGENT, seen, **facts))
    prepared: Any = _Prepared(dict.fromkeys(scans.RUNGS, 1.0))
    asking.climb(prepared, lambda *_: True)
    assert seen == ["resume"]


def _answer(plan: Plan, other: Plan | None = None, **facts: Any) -> answering.Answer:
    """`other`: the plan without the states that do not keep how a tensor was computed."""

    def prepared(plan: Plan) -> Any:
        return SimpleNamespace(
            plan=plan, climb=lambda rung: prepared(Plan(rung, (Stretch(skip=False),))), with_histories=lambda: prepared(other or plan)
        )

    judged: Any = SimpleNamespace(verdict="identical")
    return answering.Answer(prepared(plan), judged, Comparison(), None, **facts)


def _tried(answer: answering.Answer) -> Plan | None:
    found = answering.following(answer)
    return found.plan if found is not None else None


def test_what_a_statement_does_not_find_where_states_were_put_back_is_looked_for_from_the_start() -> None:
    resume, start = Plan("resume", (Stretch(),)), Plan("start", (Stretch(skip=False),))
    cases = ((resume, "NameError: no x", True), (resume, "ZeroDivisionError: x", False), (start, "NameError: x", False))
    for plan, error, there in cases:
        answer = _answer(plan, failed=[{"error": error}])
        assert answer.not_there is there
        assert _tried(answer) == (start if there else None)


def test_what_counts_along_is_right_in_one_run_from_the_start_alone() -> None:
    found = Comparison(changed_along={"meter"})
    assert judge(found, Evidence(restored=False)).faithful
    judged = judge(found, Evidence(restored=True))
    assert (judged.verdict, judged.faithful) == ("divergent", False)
    assert "`meter`" in judged.why[0]
    answer = _answer(Plan("resume", (Stretch(),)))
    answer.judgement, answer.comparison = judged, found
    assert _tried(answer) == Plan("start", (Stretch(skip=False),))


@pytest.mark.parametrize(
    ("put_back", "other", "rungs"),
    [(0, False, ["start"]), (1, False, ["pseudoresume", "start"]), (0, True, ["pseudoresume", "start"])],
)
def test_a_rung_on_which_nothing_is_put_back_is_the_start_itself(put_back: int, other: bool, rungs: list[str]) -> None:
    def prepared(rung: str) -> Any:
        history = History(boundaries=(Boundary("b", OTHER, 0, 0),) if other else ())
        return SimpleNamespace(plan=Plan(rung, (Stretch(put_back=put_back if rung != "start" else 0),)), history=history, climb=prepared)

    seen, one = [], preparing.Prepared.next_rung(prepared("resume"))
    while one is not None:
        seen.append(one.plan.rung)
        one = preparing.Prepared.next_rung(one)
    assert seen == rungs


_WENT_BACK = "Traceback (most recent call last):\n  File ...\nRuntimeError: HistoryNotKept: this tensor was put back\n"


@pytest.mark.parametrize("facts", [{"lost": ["a worker failed"], "output": _WENT_BACK}, {"failed": [{"error": _WENT_BACK.split("\n")[2]}]}])
def test_a_history_that_was_gone_back_through_is_computed_from_the_nearest_state_without_it(facts: dict[str, Any]) -> None:
    resume, other, start = Plan("resume", (Stretch(),)), Plan("resume", (Stretch(put_back=1),)), Plan("start", (Stretch(skip=False),))
    assert _tried(_answer(resume, other, **facts)) == other
    assert _tried(_answer(resume, None, **facts)) == start, "no state is left out by it: nothing else would come out"
    assert _tried(_answer(resume, other, interrupted=True, **facts)) is None


@pytest.mark.parametrize("text", ["train.py", "train.py:", ":3", "train.py:x", "train.py:0"])
def test_a_place_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="FILE:LINE"):
        asking.place(text)


def test_while_planning_rubbish_is_looked_for_seldom_and_as_often_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), asking.seldom_collected():
        assert gc.get_threshold()[0] > before[0]
        raise KeyError
    assert gc.get_threshold() == before
    try:
        for mine in (0, 10**6):  # turned off, or seldom already
            gc.set_threshold(mine)
            with asking.seldom_collected():
                assert gc.get_threshold()[0] == mine
            assert gc.get_threshold()[0] == mine
    finally:
        gc.set_threshold(*before)
