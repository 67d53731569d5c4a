"""What policies keep and a budget thins: verdicts with their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rearview.model import RunId
from rearview.plan.policies import Policy, parse
from rearview.plan.retention import UNFINISHED_FOR_S, Decision, Item, RunFacts, Verdict, choose

NOW = 1_000_000.0


def item(number: int, *, run: str = "ra", attempt: int = 1, boundary: str = "iteration", **more: Any) -> Item:
    pieces = {f"{run}{attempt}-{number}{boundary}": 10}
    known: dict[str, Any] = {"path": f"epoch={number}", "at": 60.0 * number, "size_bytes": 10, "pieces": pieces}
    return Item(RunId(run), attempt, number, boundary, **{**known, **more})


def kept(verdicts: Sequence[Verdict]) -> list[int]:
    return [verdict.item.number for verdict in verdicts if verdict.keep]


def why(verdicts: Sequence[Verdict], number: int) -> str:
    return next(verdict.why for verdict in verdicts if verdict.item.number == number)


def test_everything() -> None:
    verdicts = choose([item(k) for k in range(5)], parse("everything"), NOW)
    assert kept(verdicts) == [0, 1, 2, 3, 4]
    assert why(verdicts, 1) == "everything is kept"


def test_newest_by_attempt_and_number_whatever_the_clock_says() -> None:
    items = [item(k, at=1000.0 - k) for k in range(4)] + [item(k, attempt=2, at=5.0) for k in range(2)]
    verdicts = choose(items, parse("newest:3"), NOW)
    assert [(v.item.attempt, v.item.number) for v in verdicts if v.keep] == [(1, 3), (2, 0), (2, 1)]
    assert next(v.why for v in verdicts if not v.keep) == "not kept by newest:3"


def test_every_nth_and_the_last() -> None:
    verdicts = choose([item(k) for k in range(8)], parse("every:3"), NOW)
    assert kept(verdicts) == [0, 3, 6, 7]
    assert why(verdicts, 7) == "the last of its run"


def test_peak_and_end() -> None:
    values = [0.1, 0.9, float("nan"), 0.9, 0.4]
    items = [item(k, metrics={"acc": value}) for k, value in enumerate(values)]
    best = choose(items, parse("peak-and-end", peak="max:acc"), NOW)
    assert kept(best) == [1, 4]
    assert why(best, 1) == "the best acc (0.9)"
    assert kept(choose(items, parse("peak-and-end", peak="min:acc"), NOW)) == [0, 4]


def test_an_unknown_peak_costs_nobody_a_checkpoint() -> None:
    verdicts = choose([item(k) for k in range(3)], parse("peak-and-end", peak="max:acc"), NOW)
    assert kept(verdicts) == [0, 1, 2]
    assert "acc was not logged" in why(verdicts, 0)


def test_terms_add_up() -> None:
    items = [item(k, metrics={"acc": -k}) for k in range(10)]
    assert kept(choose(items, parse("peak-and-end, newest:2, every:4", peak="max:acc"), NOW)) == [0, 4, 8, 9]


def test_a_pin_and_what_a_resume_starts_from_stay() -> None:
    items = [item(k, pinned=k == 1) for k in range(4)]
    verdicts = choose(items, parse("newest:1, budget:1"), NOW, {"ra": RunFacts(finished=False)})
    assert kept(verdicts) == [1, 3]
    assert why(verdicts, 1) == "pinned"
    assert why(verdicts, 3) == "one of the newest 1, a resume starts from it"
    assert why(choose(items, parse("budget:30"), NOW), 2) == "within the budget"


def test_parts_of_a_decision_go_together() -> None:
    items = [item(k, boundary=boundary) for k in range(3) for boundary in ("block", "iteration")]
    assert kept(choose(items, parse("newest:1"), NOW)) == [2, 2]
    pinned = [item(0, boundary="block", pinned=True), item(0, boundary="iteration"), item(1)]
    assert kept(choose(pinned, parse("newest:1"), NOW)) == [0, 0, 1]


def test_a_process_below_a_rank_has_a_line_of_its_own() -> None:
    items = [item(k) for k in range(2)] + [item(k, process="0.1", pieces={f"f{k}": 1}) for k in range(5)]
    verdicts = choose(items, parse("newest:1"), NOW)
    assert [(v.item.process, v.item.number) for v in verdicts if v.keep] == [("", 1), ("0.1", 4)]


def test_what_lacks_a_part_counts_for_nothing() -> None:
    items = [item(0), item(1), item(2, whole=False)]
    ended = {"ra": RunFacts()}
    assert kept(choose(items, parse("newest:1"), items[2].at + UNFINISHED_FOR_S + 1, ended)) == [1]
    soon = choose(items, parse("newest:1"), items[2].at + 1, ended)
    assert kept(soon) == [1, 2]
    assert "may still come" in why(soon, 2)
    running = choose(items, parse("newest:1"), NOW, {"ra": RunFacts(running=True, finished=False)})
    assert why(running, 2) == "it is being written"


def test_each_run_has_its_own_policy_and_the_budget_is_over_all() -> None:
    items = [item(k, run=run) for run in ("ra", "rb") for k in range(5)]
    runs = {"ra": RunFacts(policy=parse("newest:1")), "rb": RunFacts(began=10.0)}
    verdicts = choose(items, parse("everything"), NOW, runs)
    assert [(v.item.run, v.item.number) for v in verdicts if v.keep] == [("ra", 4)] + [("rb", k) for k in range(5)]
    assert len(kept(choose(items, parse("budget:30"), NOW, runs))) == 3


def test_bytes_that_others_share_come_free_with_the_last_of_them() -> None:
    frozen = {"frozen": 100}
    items = [item(k, pieces={**frozen, f"head{k}": 5}) for k in range(3)]
    verdicts = choose(items, parse("newest:1"), NOW)
    assert [verdict.frees_bytes for verdict in verdicts] == [5, 5, 0]
    alone = choose([*items[:2], item(2)], parse("newest:1"), NOW)
    assert [verdict.frees_bytes for verdict in alone] == [5, 105, 0]


def test_a_budget_does_not_drop_what_frees_nothing() -> None:
    items = [item(0, pieces={"a": 50}), item(1, pieces={"a": 50}), item(2, pieces={"b": 50}), item(3, pieces={"a": 50})]
    verdicts = choose(items, parse("budget:50"), NOW)
    assert kept(verdicts) == [0, 1, 3]
    assert "shared" in why(verdicts, 0)


def test_other_bytes_count_and_only_the_protected_are_left() -> None:
    verdicts = choose([item(k, pinned=k == 0) for k in range(5)], parse("budget:100"), NOW, other_bytes=1000)
    assert kept(verdicts) == [0, 4]
    assert "without a checkpoint" in why(verdicts, 2)


# Laws


@st.composite
def stores(draw: st.DrawFn) -> tuple[list[Item], Mapping[str, RunFacts]]:
    runs: dict[str, RunFacts] = {}
    items = []
    for r in range(draw(st.integers(1, 3))):
        run = f"r{r}"
        began = float(draw(st.integers(0, 5000)))
        runs[run] = RunFacts(began, finished=draw(st.booleans()))
        at = began
        for number in range(draw(st.integers(0, 12))):
            at += draw(st.integers(0, 500))
            parts = draw(st.sampled_from([("iteration",), ("block", "iteration"), ("inside",)]))
            metrics = {"acc": draw(st.sampled_from([0.0, 0.5, float("nan"), 0.7]))} if draw(st.booleans()) else {}
            for part in parts:
                own = {f"{run}-{number}-{part}": draw(st.integers(1, 50))}
                pieces = {**own, **{f"s{k}": 20 for k in draw(st.sets(st.integers(0, 5), max_size=2))}}
                whole, pinned = draw(st.integers(0, 9)) > 0, draw(st.integers(0, 9)) == 0
                items.append(item(number, run=run, boundary=part, at=at, pieces=pieces, whole=whole, pinned=pinned, metrics=metrics))
    return items, runs


policies = st.builds(
    Policy, st.booleans(), st.sampled_from([None, parse("peak-and-end:max:acc").peak]), st.integers(0, 4), st.integers(0, 4),
    st.integers(0, 300),
)  # fmt: skip


def held(verdicts: Sequence[Verdict]) -> dict[str, int]:
    return {piece: size for verdict in verdicts if verdict.keep for piece, size in verdict.item.pieces.items()}


def decisions(verdicts: Sequence[Verdict]) -> set[Decision]:
    return {verdict.item.decision for verdict in verdicts if verdict.keep}


@given(stores(), policies)
def test_the_budget_is_met_or_only_protected_ones_are_left(store: tuple[list[Item], Mapping[str, RunFacts]], policy: Policy) -> None:
    items, runs = store
    verdicts = choose(items, policy, NOW, runs)
    if policy.budget_bytes and sum(held(verdicts).values()) > policy.budget_bytes:
        words = ("pinned", "the last of its run", "a resume starts", "the best", "shared", "may still come", "being written")
        assert all(any(word in verdict.why for word in words) for verdict in verdicts if verdict.keep)


@given(stores(), policies)
def test_a_second_time_nothing_more_goes(store: tuple[list[Item], Mapping[str, RunFacts]], policy: Policy) -> None:
    items, runs = store
    once = [verdict.item for verdict in choose(items, policy, NOW, runs) if verdict.keep]
    assert all(verdict.keep for verdict in choose(once, policy, NOW, runs))


@given(stores(), policies, st.integers(0, 300))
def test_a_larger_budget_keeps_more(store: tuple[list[Item], Mapping[str, RunFacts]], policy: Policy, more: int) -> None:
    items, runs = store
    if policy.budget_bytes:
        larger = Policy(policy.everything, policy.peak, policy.every, policy.newest, policy.budget_bytes + more)
        assert decisions(choose(items, policy, NOW, runs)) <= decisions(choose(items, larger, NOW, runs))


@given(stores(), policies, st.integers(1, 4))
def test_one_more_term_keeps_more(store: tuple[list[Item], Mapping[str, RunFacts]], policy: Policy, newest: int) -> None:
    items, runs = store
    plain = Policy(policy.everything, policy.peak, policy.every, 0)
    if not plain.keeps_all:
        more = Policy(plain.everything, plain.peak, plain.every, newest)
        assert decisions(choose(items, plain, NOW, runs)) <= decisions(choose(items, more, NOW, runs))


@given(stores(), policies)
def test_what_must_stay_stays(store: tuple[list[Item], Mapping[str, RunFacts]], policy: Policy) -> None:
    items, runs = store
    verdicts = choose(items, policy, NOW, runs)
    assert [verdict.item for verdict in verdicts] == items
    stayed = decisions(verdicts)
    for run in {one.run for one in items}:
        whole = [one.decision for one in items if one.run == run and one.whole]
        assert not whole or max(whole) in stayed
    assert {one.decision for one in items if one.pinned} <= stayed
    for decision in {one.decision for one in items}:
        alike = {verdict.keep for verdict in verdicts if verdict.item.decision == decision and verdict.item.whole}
        assert len(alike) <= 1, "the parts of a decision go together"


@given(stores(), policies)
def test_what_comes_free_is_what_nobody_holds_any_more(store: tuple[list[Item], Mapping[str, RunFacts]], policy: Policy) -> None:
    items, runs = store
    verdicts = choose(items, policy, NOW, runs)
    every = {piece: size for one in items for piece, size in one.pieces.items()}
    assert sum(verdict.frees_bytes for verdict in verdicts) == sum(every.values()) - sum(held(verdicts).values())
