"""Iterations in parts: states inside a nested loop are where stretches end and begin, where that is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rearview.plan import partition, scans
from rearview.plan.cost import FREE, Rates
from rearview.plan.partition import Partition, Piece, Share
from rearview.plan.scans import PSEUDORESUME, START, Need, Plan, plan
from rearview.plan.timeline import BLOCK, IN_ITERATION, INSIDE, ITERATION, Boundary, History, MainBlock
from tests.laws import examples

INNER = Need(nested=frozenset({"step"}))


def _inside(iteration: int, *steps: int, block: int = 0, loop: str = "step") -> list[Boundary]:
    return [
        Boundary(f"inside-{block}-{iteration}-{step}", INSIDE, block, iteration, 100, loop=loop, step=step, ran_s=float(step + 1))
        for step in steps
    ]


def _end(iteration: int, *parts: str, block: int = 0) -> list[Boundary]:
    return [Boundary(f"{part}-{block}-{iteration}", part, block, iteration, 100, loop="step" if part == BLOCK else None) for part in parts]


def _history(*kept: list[Boundary], n: int = 2, blocks: int = 1, status: str = "finished") -> History:
    """Epochs of ten seconds; step k ends k + 1 seconds after the epoch's beginning."""
    main = tuple(MainBlock("epoch", (10.0,) * n, (9.0,) * n) for _ in range(blocks))
    return History(0.5, 0.25, main, 0.0, tuple(one for some in kept for one in some), status)


def _ran(found: Plan) -> list[tuple[str | None, str | None]]:
    """Where stretches begin, and where inside they end."""
    return [(one.start.name if one.start else None, one.stop.name if one.stop else None) for one in found.stretches]


def test_workers_share_one_long_epoch() -> None:
    found = plan(_history(_inside(0, 3, 6), n=1), INNER, workers=3, rates=FREE)
    assert _ran(found) == [(None, "inside-0-0-3"), ("inside-0-0-3", "inside-0-0-6"), ("inside-0-0-6", None)]
    assert [one.seconds.expected for one in found.stretches] == [0.75 + 4, 0.75 + 3, 0.75 + 3]
    assert [(one.first, one.last, one.covers) for one in found.stretches] == [((0, 0), (0, 0), ())] * 3
    assert found.shared == {(0, 0): frozenset({(0, 0, -1, 3), (0, 0, 3, 6), (0, 0, 6, -1)})}
    assert found.speedup > 2


def test_one_worker_runs_an_epoch_in_one_go() -> None:
    (one,) = plan(_history(_inside(0, 3, 6), n=1), INNER, workers=1, rates=FREE).stretches
    assert (one.start, one.stop, one.parts, one.covers) == (None, None, (), ((0, 0, 0),))


def test_epochs_between_are_whole_and_shared_ones_are_not() -> None:
    kept = [*(_end(k, BLOCK, ITERATION) for k in range(3)), *(_inside(k, 4) for k in range(3))]
    found = plan(_history(*kept, n=3), INNER, workers=2, rates=FREE)
    assert _ran(found) == [(None, "inside-0-1-4"), ("inside-0-1-4", None)]
    assert [(one.covers, one.parts) for one in found.stretches] == [(((0, 0, 0),), ((0, 1, -1, 4),)), (((0, 2, 2),), ((0, 1, 4, -1),))]


def test_a_statement_behind_the_nested_loop_needs_only_the_last_part() -> None:
    history = _history(_end(0, ITERATION), _inside(1, 3, 6))
    (one,) = plan(history, Need(after=True, only=((0, 1, 1),)), rates=FREE).stretches
    assert one.start is not None
    assert (one.start.name, one.stop, one.covers, one.parts, one.must_run) == ("inside-0-1-6", None, ((0, 1, 1),), (), ((0, 1),))
    assert one.seconds.expected == 0.75 + 3
    (other,) = plan(history, Need(nested=frozenset({"val"}), only=((0, 1, 1),)), rates=FREE).stretches
    assert other.start == one.start, "other nested loops come behind the first"


def test_a_statement_before_the_nested_loop_needs_only_the_first_part() -> None:
    history = _history(_end(0, ITERATION), _inside(1, 3, 6))
    (one,) = plan(history, Need(before=True, only=((0, 1, 1),)), rates=FREE).stretches
    assert one.start is not None and one.stop is not None
    assert (one.start.name, one.stop.name, one.covers, one.parts) == ("iteration-0-0", "inside-0-1-3", ((0, 1, 1),), ())


def test_before_and_behind_are_two_stretches_where_what_is_between_costs_more() -> None:
    history, need = _history(_end(0, ITERATION), _inside(1, 0, 8)), Need(before=True, after=True, only=((0, 1, 1),))
    found = plan(history, need, rates=FREE)
    assert _ran(found) == [("iteration-0-0", "inside-0-1-0"), ("inside-0-1-8", None)]
    dear = plan(history, need, rates=Rates(worker_s=60.0))
    assert _ran(dear) == [("iteration-0-0", None)] and dear.stretches[0].covers == ((0, 1, 1),)


def test_a_block_that_is_put_back_is_not_cut() -> None:
    history = _history(_end(0, BLOCK, ITERATION), _end(1, BLOCK, ITERATION), _inside(1, 3, 6))
    (one,) = plan(history, Need(before=True, after=True), rates=FREE).stretches
    assert (one.stop, one.put_back, one.covers) == (None, 2, ((0, 0, 1),))


@pytest.mark.parametrize("rung", [PSEUDORESUME, START])
def test_other_rungs_begin_nowhere_inside(rung: str) -> None:
    assert _ran(plan(_history(_inside(0, 3, 6)), INNER, 3, rung, FREE)) == [(None, None)]


def _whole(history: History, need: Need) -> bool:
    return all(one.in_whole_iterations and not one.parts for one in plan(history, need, 4, rates=FREE).stretches)


def test_what_cannot_be_exact_runs_in_whole_iterations() -> None:
    history = _history(_end(0, ITERATION), _inside(0, 4), _inside(1, 4))
    assert not _whole(history, INNER)
    assert _whole(history, replace(INNER, unparted=True)), "statements carry something of their own from step to step"
    assert _whole(history, Need(whole=True)), "where it runs is not known: perhaps in a process that loads ahead"
    assert not _whole(history, Need(whole=True, proof=True))
    assert _whole(history, replace(INNER, lacking=frozenset({"inside-0-0-4", "inside-0-1-4"})))
    assert _whole(history, replace(INNER, lost=frozenset({"inside-0-0-4", "inside-0-1-4"})))
    thinned = replace(history, boundaries=tuple(replace(one, restorable=one.part != INSIDE) for one in history.boundaries))
    assert _whole(thinned, INNER)


def test_the_way_to_a_state_inside_must_be_exact() -> None:
    second = replace(INNER, only=((0, 1, 1),))
    assert _whole(_history(_inside(1, 4)), second), "the state that the epoch began with is not kept"
    assert _whole(_history(_end(0, ITERATION), _inside(1, 4)), replace(second, lacking=frozenset({"iteration-0-0"})))
    assert not _whole(_history(_end(0, ITERATION), _inside(1, 4)), second)
    assert _whole(_history(_end(1, ITERATION), _inside(0, 4, block=1), blocks=2), replace(INNER, only=((1, 0, 0),)))


def test_the_iteration_in_which_a_run_was_killed_ends_at_its_last_record() -> None:
    killed = History(
        0.5, 0.25, (MainBlock("epoch", (10.0, 10.0), (9.0, 9.0), "left"),), 0.0, (*_end(0, ITERATION), *_inside(1, 4)), "killed",
        cut=IN_ITERATION,
    )  # fmt: skip
    found = plan(killed, replace(INNER, only=((0, 1, 1),)), workers=2, rates=FREE)
    assert _ran(found) == [("iteration-0-0", "inside-0-1-4"), ("inside-0-1-4", None)]
    assert [one.until for one in found.stretches] == [False, True]
    assert _whole(killed, replace(INNER, lost=frozenset({"inside-0-1-4"})))


# -- laws ----------------------------------------------------------------------------------------------------------------


@st.composite
def _histories(draw: st.DrawFn) -> History:
    kept: list[Boundary] = []
    blocks = draw(st.integers(1, 2))
    n = draw(st.integers(1, 4))
    for block in range(blocks):
        for k in range(n):
            kept += _end(k, *draw(st.sets(st.sampled_from([BLOCK, ITERATION]))), block=block)
            loop = draw(st.sampled_from(["step", "warm"]))
            kept += _inside(k, *sorted(draw(st.sets(st.integers(0, 8), max_size=3))), block=block, loop=loop)
    return _history(kept, n=n, blocks=blocks, status=draw(st.sampled_from(["finished", "failed", "killed"])))


@st.composite
def _needs(draw: st.DrawFn) -> Need:
    return Need(
        draw(st.booleans()), draw(st.booleans()), draw(st.booleans()), draw(st.sets(st.sampled_from(["step", "val"])).map(frozenset)),
        draw(st.booleans()), draw(st.integers(0, 9)) == 0, proof=draw(st.booleans()), unparted=draw(st.integers(0, 5)) == 0,
        only=draw(st.none() | st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 3)), max_size=2).map(tuple)),
    )  # fmt: skip


def _each(rows: Sequence[Sequence[Piece]], workers: int) -> Partition:
    """A share of its own for everything that can begin one."""
    shares = []
    for number, row in enumerate(rows):
        begins = [at for at, piece in enumerate(row) if at == 0 or piece.begin_s is not None]
        shares += [Share(number, first, last - 1, 1.0) for first, last in zip(begins, [*begins[1:], len(row)], strict=True)]
    return Partition(tuple(shares), workers, 1.0)


def _steps(found: Plan, place: tuple[int, int]) -> list[tuple[int, int]]:
    """What stretches run of an iteration: from behind a step to another; 99 is its end."""
    ran = []
    for one in found.stretches:
        if one.first is None or one.last is None or not one.first <= place <= one.last:
            continue
        since = one.start.step if one.start is not None and one.start.part == INSIDE and one.start.place == place else -1
        ran.append((since, one.stop.step if one.stop is not None and one.stop.place == place else 99))
    return sorted(ran)


@settings(max_examples=examples(300), deadline=None)
@given(_histories(), _needs(), st.integers(1, 5), st.sampled_from(scans.RUNGS), st.booleans())
def test_every_needed_step_is_run_exactly_once(history: History, need: Need, workers: int, rung: str, each: bool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        if each:
            patched.setattr(partition, "partition", _each)
        found = plan(history, need, workers, rung, FREE)
    covered = {(b, k) for one in found.stretches for b, first, last in one.covers for k in range(first, last + 1)}
    for block in range(len(history.blocks)):
        for k in range(history.whole_iterations(block)):
            place, ran = (block, k), _steps(found, (block, k))
            assert all(until <= since for (_, until), (since, _) in pairwise(ran)), "no step twice"
            if not need.wants(*place):
                continue
            assert (place in covered) != (place in found.shared), "in one stretch, or shared"
            loop = history.inside[place][0].loop if place in history.inside else "step"
            if need.goes_into(loop):
                assert ran[0][0] == -1 and ran[-1][1] == 99
                assert all(until == since for (_, until), (since, _) in pairwise(ran)), "no step left out"
            assert not need.before or ran[0][0] == -1
            assert not (need.after or need.nested) or ran[-1][1] == 99
    for one in found.stretches:
        assert one.stop is None or (one.stop.place == one.last and not one.to_end)
        assert one.start is None or one.start.part != INSIDE or one.start.place == one.first
