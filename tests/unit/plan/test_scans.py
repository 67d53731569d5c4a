"""Plans as data: what runs, from where, and what is put back."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rearview.plan import scans
from rearview.plan.cost import FREE
from rearview.plan.scans import PSEUDORESUME, RESUME, START, Need, Plan, Stretch, plan
from rearview.plan.timeline import BLOCK, IN_ITERATION, ITERATION, OUTSIDE, Boundary, History, MainBlock
from tests.laws import examples


def _kept(block: int, iteration: int, *, part: str | None = None, thinned: bool = False, ending: str | None = None) -> list[Boundary]:
    parts = [BLOCK, ITERATION] if part is None else [part]
    return [
        Boundary(f"{one}-{block}-{iteration}", one, block, iteration, 100, not thinned, ending if one == ITERATION else None,
                 "step" if one == BLOCK else None)
        for one in parts
    ]  # fmt: skip


def _history(*kept: list[Boundary], n: int = 10, blocks: int = 1, status: str = "finished", ending: str = "exhausted") -> History:
    main = tuple(MainBlock("epoch", (10.0,) * n, (9.0,) * n, ending, gap_s=2.0 if k else 0.0) for k in range(blocks))
    return History(1.0, 3.0, main, 5.0, tuple(one for some in kept for one in some), status)


def _every(n: int = 10, step: int = 1) -> list[list[Boundary]]:
    return [_kept(0, k) for k in range(n) if (k + 1) % step == 0]


def _one(found: Plan) -> Stretch:
    assert len(found.stretches) == 1
    return found.stretches[0]


def _names(found: Plan) -> list[str]:
    return [scan.name for scan in found.scans]


def test_a_run_that_went_on_from_anothers_state_begins_with_that() -> None:
    origin = replace(_kept(0, 2, part=ITERATION)[0], name="r0/other")
    history = replace(_history([origin], *_every()[4:]), went_on="a state of run r0", since=(0, 3))
    for need in (Need(nested=frozenset({"step"})), Need(whole=True, proof=True, prefix_answered=True)):
        found = plan(history, need, rates=FREE)
        assert (found.stretches[0].start, found.stretches[0].first, found.left_out) == (origin, (0, 3), ())
    assert not plan(history, Need(after=True), rung=START).stretches, "it cannot be run from the program's beginning"
    gone = plan(replace(history, boundaries=history.boundaries[1:]), Need(nested=frozenset({"step"})), rates=FREE)
    assert gone.stretches[0].first == (0, 5)
    assert "went on from a state of run r0" in gone.left_out[0]


def test_prefix_runs_no_iteration() -> None:
    found = plan(_history(*_every()), Need(prefix=True), rates=FREE)
    one = _one(found)
    assert (one.start, one.first, one.last, one.to_end, one.prefix) == (None, None, None, False, True)
    assert _names(found) == ["prefix"]
    assert found.seconds.expected == 4.0


def test_suffix_restores_the_last_end_and_runs_the_rest() -> None:
    found = plan(_history(*_every()), Need(suffix=True), workers=4, rates=FREE)
    one = _one(found)
    assert one.start is not None
    assert (one.start.name, one.first, one.to_end, one.prefix) == ("iteration-0-9", None, True, False)
    assert _names(found) == ["suffix"]
    assert found.seconds.expected == 1 + 3 + 5


def test_suffix_without_the_last_checkpoint_runs_from_the_nearest() -> None:
    one = _one(plan(_history(*_every()[:8]), Need(suffix=True), rates=FREE))
    assert one.start is not None
    assert (one.start.name, one.first, one.last, one.to_end) == ("iteration-0-7", (0, 8), (0, 9), True)
    assert one.must_run == ((0, 8), (0, 9))


def test_validation_skips_every_nested_block() -> None:
    found = plan(_history(*_every()), Need(after=True), rates=FREE)
    one = _one(found)
    assert (one.first, one.last, one.skip, one.put_back, one.must_run) == ((0, 0), (0, 9), True, 10, ())
    assert _names(found) == ["validation"]
    assert found.seconds.expected == 1 + 3 + 10 * 1
    assert found.plain_s == 1 + 3 + 100 + 5


def test_an_outer_statement_before_the_nested_loop_starts_where_the_iteration_starts() -> None:
    before = _one(plan(_history(*_every()), Need(before=True, only=((0, 4, 4),)), rates=FREE))
    after = _one(plan(_history(*_every()), Need(after=True, only=((0, 4, 4),)), rates=FREE))
    assert before.start is not None and after.start is not None
    assert before.start.name == "iteration-0-3"
    assert after.start.name == "iteration-0-3"
    alone = _one(plan(_history(_kept(0, 4)), Need(after=True, only=((0, 4, 4),)), rates=FREE))
    assert alone.start is not None
    assert (alone.start.name, alone.first, alone.last, alone.put_back) == ("block-0-4", (0, 4), (0, 4), 1)
    forward = _one(plan(_history(_kept(0, 4)), Need(before=True, only=((0, 4, 4),)), rates=FREE))
    assert (forward.start, forward.first, forward.last) == (None, (0, 0), (0, 4))
    assert forward.must_run == ((0, 0), (0, 1), (0, 2), (0, 3))


def test_range_runs_the_nested_loop() -> None:
    found = plan(_history(*_every()), Need(nested=frozenset({"step"}), only=((0, 3, 5),)), rates=FREE)
    one = _one(found)
    assert one.start is not None
    assert (one.start.name, one.first, one.last, one.runs_inside, one.put_back) == ("iteration-0-2", (0, 3), (0, 5), ("step",), 0)
    assert one.must_run == ()
    assert _names(found) == ["range"]
    assert found.seconds.expected == 1 + 3 + 30


def test_a_statement_in_another_nested_loop_leaves_the_kept_one_skipped() -> None:
    one = _one(plan(_history(*_every()), Need(nested=frozenset({"validate"})), rates=FREE))
    assert (one.put_back, one.runs_inside, one.skip) == (10, ("validate",), True)


def test_sparse_checkpoints_run_forward_from_the_nearest() -> None:
    found = plan(_history(*_every(step=5)), Need(after=True), rates=FREE)
    one = _one(found)
    assert (one.start, one.first, one.last, one.put_back) == (None, (0, 0), (0, 9), 2)
    assert one.must_run == tuple((0, k) for k in (0, 1, 2, 3, 5, 6, 7, 8))


def test_no_checkpoint_at_all_runs_from_the_start() -> None:
    one = _one(plan(_history(), Need(after=True), workers=4, rates=FREE))
    assert (one.start, one.first, one.last) == (None, (0, 0), (0, 9))


def test_what_was_thinned_is_run() -> None:
    kept = [*_every()[:3], _kept(0, 3, thinned=True), *_every()[4:]]
    one = _one(plan(_history(*kept), Need(after=True), rates=FREE))
    assert (one.must_run, one.put_back) == (((0, 3),), 9)


def test_a_break_serves_only_for_what_is_behind_the_loop() -> None:
    history = _history(*_every()[:9], _kept(0, 9, part=ITERATION, ending="break"), ending="break")
    suffix = _one(plan(history, Need(suffix=True), rates=FREE))
    assert suffix.start is not None
    assert (suffix.start.name, suffix.first) == ("iteration-0-9", None)
    odd = _history(_kept(0, 3, part=ITERATION, ending="break"))
    assert _one(plan(odd, Need(nested=frozenset({"step"}), only=((0, 4, 4),)), rates=FREE)).start is None


def test_a_killed_run_ends_where_it_ended() -> None:
    history = _history(*_every()[:6], n=8, status="killed", ending="left")
    found = plan(history, Need(after=True, suffix=True), rates=FREE)
    one = _one(found)
    assert (one.last, one.to_end) == ((0, 6), False)
    assert any("cut short" in said for said in found.left_out)
    assert any("never came" in said for said in found.left_out)


def test_a_failed_run_runs_to_where_it_failed() -> None:
    one = _one(plan(_history(*_every(), status="failed", ending="exception"), Need(after=True), rates=FREE))
    assert one.last == (0, 9)


def test_what_is_answered_does_not_run_again() -> None:
    history = _history(*_every())
    assert plan(history, Need(after=True, answered=((0, 0, 9),)), rates=FREE).is_empty
    one = _one(plan(history, Need(after=True, answered=((0, 0, 6),)), rates=FREE))
    assert (one.first, one.last) == ((0, 7), (0, 9))


def test_two_places_far_apart_are_two_stretches() -> None:
    found = plan(_history(*_every(100), n=100), Need(nested=frozenset({"step"}), only=((0, 2, 3), (0, 90, 91))), rates=FREE)
    assert [(one.first, one.last) for one in found.stretches] == [((0, 2), (0, 3)), ((0, 90), (0, 91))]
    near = plan(_history(*_every()), Need(after=True, only=((0, 2, 2), (0, 4, 4))), rates=FREE)
    assert [(one.first, one.last) for one in near.stretches] == [((0, 2), (0, 4))]


def test_mixed_depths_are_one_plan() -> None:
    found = plan(_history(*_every()), Need(prefix=True, after=True, suffix=True), rates=FREE)
    one = _one(found)
    assert (one.prefix, one.first, one.last, one.to_end) == (True, (0, 0), (0, 9), True)
    assert _names(found) == ["prefix", "validation", "suffix"]
    apart = plan(_history(*_every()), Need(prefix=True, suffix=True), rates=FREE)
    assert _one(apart).prefix and _one(apart).to_end


def test_a_statement_that_may_run_anywhere_runs_everything() -> None:
    found = plan(_history(*_every()), Need(whole=True), rates=FREE)
    one = _one(found)
    assert (one.prefix, one.first, one.last, one.to_end, one.skip) == (True, (0, 0), (0, 9), True, False)
    assert _names(found) == ["prefix", "range", "suffix"]


def test_a_state_that_lacks_what_is_read_is_not_used() -> None:
    history = _history(*_every())
    lacking = frozenset(one.name for one in history.boundaries)
    one = _one(plan(history, Need(after=True, lacking=lacking), rates=FREE))
    assert (one.start, one.first, one.skip, one.put_back) == (None, (0, 0), False, 0)


def test_the_ladder() -> None:
    history = _history(*_every())
    need = Need(after=True, only=((0, 5, 6),))
    assert [one.first for one in plan(history, need, 4, RESUME, FREE).stretches] == [(0, 5), (0, 6)]
    pseudo = _one(plan(history, need, 4, PSEUDORESUME, FREE))
    assert (pseudo.start, pseudo.first, pseudo.last, pseudo.put_back, pseudo.skip) == (None, (0, 0), (0, 6), 7, True)
    start = _one(plan(history, need, 4, START, FREE))
    assert (start.start, start.first, start.last, start.put_back, start.skip) == (None, (0, 0), (0, 6), 0, False)


def test_a_killed_run_is_run_up_to_its_last_record() -> None:
    history = replace(_history(*_every()[:6], n=8, status="killed", ending="left"), cut=IN_ITERATION)
    found = plan(history, Need(after=True), rates=FREE)
    one = _one(found)
    assert (one.last, one.to_end, one.until) == ((0, 7), False, True)
    assert any("after its last record" in said for said in found.left_out)
    assert not any(one.until for one in plan(history, Need(after=True, only=((0, 0, 3),)), rates=FREE).stretches)
    behind = replace(_history(*_every()[:6], n=8, status="killed"), cut=OUTSIDE)
    end = plan(behind, Need(suffix=True), rates=FREE).stretches[-1]
    assert (end.to_end, end.until) == (True, True)
    alone = _one(plan(History(status="killed", cut=OUTSIDE), Need(whole=True), rates=FREE))
    assert (alone.prefix, alone.to_end, alone.until) == (True, True, True)


def test_a_state_with_a_lost_file_is_not_begun_with_nor_put_back() -> None:
    history = _history(*_every())
    lost = frozenset(one.name for one in history.boundaries if one.iteration in (3, 4))
    one = _one(plan(history, Need(after=True, only=((0, 5, 6),), lost=lost), rates=FREE))
    assert one.start is not None and one.start.iteration == 5 and one.start.part == BLOCK
    one = _one(plan(history, Need(before=True, after=True, only=((0, 5, 5),), lost=lost), rates=FREE))
    assert one.start is not None and one.start.iteration == 2 and one.skip
    assert one.must_run == ((0, 3), (0, 4)) and one.put_back == 1


def test_a_program_without_main_loop_runs_whole() -> None:
    one = _one(plan(History(1.0, 0.0, (), 9.0), Need(whole=True), rates=FREE))
    assert (one.start, one.first, one.to_end, one.prefix, one.seconds.expected) == (None, None, True, True, 10.0)


def test_a_program_without_main_loop_that_came_to_its_end_is_answered() -> None:
    assert plan(History(), Need(whole=True, prefix_answered=True, end_answered=True), 2).is_empty
    assert plan(History(), Need(before=True, end_answered=True), 2).is_empty
    assert not plan(History(), Need(before=True), 2).is_empty


def test_several_main_blocks() -> None:
    kept = [_kept(block, k) for block in range(2) for k in range(4)]
    history = _history(*kept, n=4, blocks=2)
    later = _one(plan(history, Need(nested=frozenset({"step"}), only=((1, 0, 1),)), rates=FREE))
    assert later.start is not None
    assert (later.start.name, later.first, later.last) == ("iteration-0-3", (1, 0), (1, 1))
    assert later.seconds.expected == 1 + 3 + 2 + 20
    end = plan(history, Need(suffix=True), rates=FREE)
    assert [(one.first, one.last, one.to_end) for one in end.stretches][-1][2]
    assert any(one.first == (1, 0) for one in end.stretches)  # what runs between the blocks is behind a main loop too


def test_workers_share_and_the_interval_holds_the_prediction() -> None:
    found = plan(_history(*_every(200), n=200), Need(nested=frozenset({"step"})), workers=16, rates=FREE)
    assert found.workers == 16
    assert max(one.last[1] - one.first[1] + 1 for one in found.stretches if one.first and one.last) == 13
    assert found.seconds.low <= found.seconds.expected <= found.seconds.high


# -- laws ----------------------------------------------------------------------------------------------------------------

_ENDINGS = st.sampled_from(["exhausted", "break", "exception"])


@st.composite
def _histories(draw: st.DrawFn) -> History:
    blocks, kept = [], []
    for number in range(draw(st.integers(1, 3))):
        n = draw(st.integers(0, 8))
        nested = [draw(st.floats(0, 5)) for _ in range(n)]
        outer = [draw(st.floats(0.01, 2)) for _ in range(n)]
        ending = draw(_ENDINGS)
        blocks.append(MainBlock("epoch", tuple(map(sum, zip(nested, outer, strict=True))), tuple(nested), ending, draw(st.floats(0, 1))))
        for k in range(n):
            last = k == n - 1 and ending == "break"
            for part in draw(st.sets(st.sampled_from([BLOCK, ITERATION]))):
                kept += _kept(number, k, part=part, thinned=draw(st.booleans()), ending="break" if last else None)
    return History(draw(st.floats(0, 2)), draw(st.floats(0, 2)), tuple(blocks), draw(st.floats(0, 2)), tuple(kept),
                   draw(st.sampled_from(["finished", "failed", "killed"])))  # fmt: skip


@st.composite
def _needs(draw: st.DrawFn) -> Need:
    ranges = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7), st.integers(0, 7)), max_size=3).map(tuple)
    return Need(
        draw(st.booleans()), draw(st.booleans()), draw(st.booleans()),
        draw(st.sampled_from([frozenset(), frozenset({"step"}), frozenset({"other"})])),
        draw(st.booleans()), draw(st.integers(0, 9)) == 0, draw(st.none() | ranges), draw(ranges), draw(st.booleans()), draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(_histories(), _needs(), st.integers(1, 5), st.sampled_from(scans.RUNGS))
def test_every_needed_place_is_covered_exactly_once(history: History, need: Need, workers: int, rung: str) -> None:
    found = plan(history, need, workers, rung, FREE)
    ran = [(b, k) for one in found.stretches for b, first, last in one.covers for k in range(first, last + 1)]
    assert len(ran) == len(set(ran))
    wanted = {(b, k) for b in range(len(history.blocks)) for k in range(history.whole_iterations(b)) if need.wants(b, k)}
    assert wanted <= set(ran)
    assert sum(one.prefix for one in found.stretches) == int(need.wants_prefix)
    assert sum(one.to_end for one in found.stretches) == int(need.wants_end and not history.killed)
    assert {k for k in ran if k[1] >= history.whole_iterations(k[0])} == set()


@settings(max_examples=examples(200), deadline=None)
@given(_histories(), _needs(), st.integers(1, 5), st.sampled_from(scans.RUNGS))
def test_each_stretch_starts_at_a_legal_place(history: History, need: Need, workers: int, rung: str) -> None:
    for one in plan(history, need, workers, rung, FREE).stretches:
        if one.start is None:
            assert one.first is None or one.first == next(s.place for s in history.segments() if s.place)
            continue
        assert rung == RESUME and one.start.restorable and one.start.name not in need.lacking
        if one.start.part == BLOCK:
            assert one.first == one.start.place and not need.before and not need.whole and "step" not in need.nested
        else:
            behind = [s.place for s in history.segments()]
            after = behind[behind.index(one.start.place) + 1 :]
            assert one.first == next((place for place in after if place is not None), None) or one.to_end
            assert one.start.ending != "break" or one.first is None or one.first[0] > one.start.block


@settings(max_examples=examples(150), deadline=None)
@given(_histories(), _needs(), st.integers(1, 5), st.sampled_from(scans.RUNGS))
def test_no_plan_costs_more_than_running_everything(history: History, need: Need, workers: int, rung: str) -> None:
    found = plan(history, need, workers, rung, FREE)
    assert found.seconds.expected <= history.plain_s + 1e-9
    assert all(one.seconds.expected <= history.plain_s + 1e-9 for one in found.stretches)
    assert math.isfinite(found.seconds.high)


@settings(max_examples=examples(100), deadline=None)
@given(_histories(), _needs())
def test_a_kept_block_is_never_run_for_an_outer_statement(history: History, need: Need) -> None:
    found = plan(history, need, 2, RESUME, FREE)
    for place in found.must_run:
        kept = history.boundary(BLOCK, *place)
        assert kept is None or not kept.restorable


@pytest.mark.parametrize("workers", [1, 2, 3, 16])
def test_shares_come_in_order_and_leave_no_gap(workers: int) -> None:
    found = plan(_history(*_every(40, 3), n=40), Need(nested=frozenset({"step"})), workers, rates=FREE)
    places = [k for one in found.stretches for _, first, last in one.covers for k in range(first, last + 1)]
    assert places == list(range(40))
