"""The ladder of trust: a rung that costs more than what was agreed to is offered, never started unasked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rearview.errors import UsageError
from rearview.plan import scans
from rearview.plan.cost import Seconds
from rearview.plan.scans import Plan, Stretch
from rearview.replay import answering, asking


class _Prepared:
    """A run whose rungs have these costs."""

    def __init__(self, costs: dict[str, float], rung: str = scans.RESUME) -> None:
        self.costs, self.plan = costs, self.on_(costs[rung], rung)

    @staticmethod
    def on_(seconds: float, rung: str) -> Plan:
        return Plan(rung, (Stretch(),), seconds=Seconds(seconds, seconds, seconds))

    def on(self, rung: str) -> Plan:
        return self.on_(self.costs[rung], rung)

    def climb(self, rung: str) -> _Prepared:
        return _Prepared(self.costs, rung)


def _carrying(verdicts: dict[str, str], ran: list[str], **facts: Any) -> Any:
    def carry_out(prepared: _Prepared, show: Any = None) -> Any:
        ran.append(prepared.plan.rung)
        told = {"interrupted": False, "failed": [], "statement_changes_run": False, "not_there": False, **facts}
        return SimpleNamespace(prepared=prepared, judgement=SimpleNamespace(verdict=verdicts[prepared.plan.rung]), **told)

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
def test_rungs(
    monkeypatch: pytest.MonkeyPatch, costs: tuple[float, ...], agrees: bool, verdicts: dict[str, str], ran: list[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(answering, "carry_out", _carrying(verdicts, seen))
    prepared: Any = _Prepared(dict(zip(scans.RUNGS, costs, strict=True)))
    asking.climb(prepared, lambda *_: agrees)
    assert seen == ran


@pytest.mark.parametrize("facts", [{"interrupted": True}, {"failed": [{}]}, {"statement_changes_run": True}])
def test_no_rung_helps(monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any]) -> None:
    seen: list[str] = []
    monkeypatch.setattr(answering, "carry_out", _carrying(_DIVERGENT, seen, **facts))
    prepared: Any = _Prepared(dict.fromkeys(scans.RUNGS, 1.0))
    asking.climb(prepared, lambda *_: True)
    assert seen == ["resume"]


def test_what_a_statement_does_not_find_where_states_were_put_back_is_looked_for_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {"resume": Plan("resume", (Stretch(),)), "start": Plan("start", (Stretch(skip=False),))}
    cases = (("resume", "NameError: no x", True), ("resume", "ZeroDivisionError: x", False), ("start", "NameError: x", False))
    for rung, error, there in cases:
        prepared: Any = SimpleNamespace(plan=plans[rung])
        judged: Any = SimpleNamespace(verdict="identical")
        answer = answering.Answer(prepared, judged, SimpleNamespace(), None, failed=[{"error": error}])  # type: ignore[arg-type]
        assert answer.not_there is there
        assert answering.next_rung(answer) == ("start" if there else None)


@pytest.mark.parametrize("text", ["train.py", "train.py:", ":3", "train.py:x", "train.py:0"])
def test_a_place_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="FILE:LINE"):
        asking.place(text)
