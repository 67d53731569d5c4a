"""The history of a run, read from stores that were put together frame by frame."""

from __future__ import annotations

from pathlib import Path

from rearview.plan.scans import Need, plan
from rearview.plan.timeline import BLOCK, INSIDE, ITERATION, OTHER
from rearview.replay.journals import history, told
from rearview.replay.question import coverage
from rearview.state.take.histories import PENDING
from rearview.store import frames, manifests
from rearview.testing.checkpoints import keep
from rearview.testing.stores import ProcessBuilder, RunBuilder, StoreBuilder


def _times(process: ProcessBuilder, first: int, *seconds: float, wall: float = 0.0, name: str = "epoch", above: int | None = None) -> None:
    around = [] if above is None else [["fold", 0, above]]
    process.fact(
        "timing", block=0, name=name, path=[*around, [name, 0, first]], wall=process.run.begun.timestamp() + wall, first=first,
        total=list(seconds), nested=[0.75 * one for one in seconds],
    )  # fmt: skip


def _train(process: ProcessBuilder, epochs: int, ending: int = 1) -> None:
    for epoch in process.loop("epoch", range(1, epochs + 1), ending=ending):
        for step in process.loop("step", range(3)):
            process.log("loss", step * 0.5)
        process.log("acc", epoch)


def _run(folder: Path) -> RunBuilder:
    return StoreBuilder(folder).run()


def _both(run: RunBuilder, number: int, iteration: int, before: tuple[str, ...] = (), **facts: object) -> None:
    """`before`: loops that the iteration had entered before the one whose end is kept."""
    entered = [{"entered": {"epoch": 1}}, {"entered": {**dict.fromkeys(before, 1), "step": 1}}, {"entered": {}}]
    keep(run, number, [["epoch", 0, iteration, None], ["step", 0, 2, 2]], {"w": b"x" * 10}, part="block", loops=entered, **facts)
    keep(run, number, [["epoch", 0, iteration, None]], {"w": b"y" * 10}, **facts)


def test_a_loop_behind_one_that_was_left_without_a_state_is_not_the_first(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 4)
    process.end()
    _both(run, 0, 1, before=("fit",))
    _both(run, 1, 2)
    found = history.read(run.store, run.run, "finished")
    assert [(one.part, one.place) for one in found.boundaries if one.part != ITERATION] == [(OTHER, (0, 1)), (BLOCK, (0, 2))]


def test_a_finished_run(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 4)
    _times(process, 0, 2.0, 1.0, wall=3.0)
    _times(process, 2, 1.0, 1.5, wall=6.0)
    process.end()
    _both(run, 0, 1)
    found = history.read(run.store, run.run, "finished")
    (block,) = found.blocks
    assert block.total_s == (2.0, 1.0, 1.0, 1.5) and block.nested_s[0] == 1.5 and block.outer_s[0] == 0.5
    assert (block.name, block.ending, block.values, block.iterations) == ("epoch", "exhausted", (1, 2, 3, 4), 4)
    assert found.prefix_s == 3.0 and found.measured
    assert [(one.part, one.place, one.restorable, one.loop) for one in found.boundaries] == [
        (BLOCK, (0, 1), True, "step"), (ITERATION, (0, 1), True, None),
    ]  # fmt: skip


def test_thinned_and_damaged_checkpoints_restore_nothing(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 3)
    _times(process, 0, 1.0, 1.0, 1.0)
    process.end()
    for number in range(2):
        _both(run, number, number)
    names = manifests.list_of(run.store, run.run)
    manifests.put_mark(run.store, names[0], manifests.THINNED)
    manifests.path_of(run.store, names[3]).write_bytes(b"{}")
    damaged: list[str] = []
    found = history.read(run.store, run.run, "finished", damaged)
    assert [one.restorable for one in found.boundaries] == [False, True, True]
    assert len(damaged) == 1 and "damaged" in damaged[0]


def test_a_killed_run_has_a_last_iteration_that_was_cut_short(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    for epoch in process.loop("epoch", range(5)):
        if epoch == 3:
            process.advance(process.enter("step", range(3)))
            process.log("loss", 1.0)
            break
        for _ in process.loop("step", range(3)):
            process.log("loss", 1.0)
        process.log("acc", epoch)
    _times(process, 0, 1.0, 1.0)  # the batch with the third was never written
    process.stop()
    found = history.read(run.store, run.run, "killed")
    assert found.blocks[0].iterations == 4 and found.whole_iterations(0) == 3
    assert found.blocks[0].total_s[2] == 1.0
    assert plan(found, Need(after=True)).stretches[0].last == (0, 2)


def test_loops_around_make_several_main_blocks(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    for fold in process.loop("fold", range(2)):
        _train(process, 3)
        _times(process, 0, 1.0, 1.0, 1.0, wall=2.0 + 5 * fold, above=fold)
    process.end()
    keep(run, 0, [["fold", 0, 1, 1], ["epoch", 0, 0, 1]], {"w": b"x"}, stats={"outside": 1})
    found = history.read(run.store, run.run, "finished")
    assert [(block.path, block.iterations) for block in found.blocks] == [((("fold", 0, 0, 0),), 3), ((("fold", 0, 1, 1),), 3)]
    assert [one.place for one in found.boundaries] == [(1, 0)]
    assert coverage.only("fold#1/epoch=2..3", found) == ((1, 1, 2),)
    assert coverage.only("epoch=1", found) == ((0, 0, 0), (1, 0, 0))


def _keep_inside(run: RunBuilder, number: int, step: int, **facts: object) -> None:
    loops = [{"counts": {}, "entered": {"epoch": 1}}, {"counts": {}, "entered": {"step": 1}}, {"counts": {}, "entered": {}}]
    known = {"loops": loops, "stats": {"compute_s": step + 0.5}, "part": INSIDE, **facts}
    keep(run, number, [["epoch", 0, 1, None], ["step", 0, step, step]], {"w": b"x" * 10}, **known)  # type: ignore[arg-type]


def _steps(run: RunBuilder) -> list[int]:
    inside = history.read(run.store, run.run, "finished").inside
    assert set(inside) <= {(0, 1)}
    return [one.step for one in inside.get((0, 1), ())]


def test_states_inside_the_first_nested_loop(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 3)
    _times(process, 0, 4.0, 4.0, 4.0)
    process.end()
    _keep_inside(run, 1, 0)
    _keep_inside(run, 2, 1)
    found = history.read(run.store, run.run, "finished").inside[0, 1]
    assert [(one.part, one.step, one.ran_s, one.loop, one.lacks) for one in found] == [
        (INSIDE, 0, 0.5, "step", ()), (INSIDE, 1, 1.5, "step", ()),
    ]  # fmt: skip
    _keep_inside(run, 3, 2, missing=[["step", "position", "it is drawn from elsewhere"]])
    _keep_inside(run, 4, 3, missing=[["h", "Tensor", PENDING]])
    entered = [{"entered": {"epoch": 1}}, {"entered": {"warm": 1, "step": 1}}, {"entered": {}}]
    _keep_inside(run, 5, 4, loops=entered)
    _keep_inside(run, 6, 5)
    manifests.put_mark(run.store, manifests.list_of(run.store, run.run)[-1], manifests.THINNED)
    assert _steps(run) == [0, 1], "none that the program cannot go on from exactly"
    other = run.process("0.1")
    other.log("seen", 1)
    other.stop()
    assert _steps(run) == [], "a process beside it logs by its own count"


def test_an_end_state_whose_iteration_went_back_through_its_history_is_halfway(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 5)
    process.end()
    kept, gone = ["reg", "Tensor", PENDING], ["policy.log_probs[0]", "Tensor", PENDING]
    entered = [{"entered": {"epoch": 1}}, {"entered": {"step": 1}}, {"entered": {}}]
    ends: list[list[list[str]] | None] = [[kept], [kept], None, [kept]]
    for number, (behind, at_end) in enumerate(zip([[kept], [kept, gone], [kept], []], ends, strict=True)):
        path = [["epoch", 0, number, None]]
        keep(run, number, [*path, ["step", 0, 2, 2]], {"w": b"x" * 10}, part="block", loops=entered, missing=behind)
        if at_end is not None:
            keep(run, number, path, {"w": b"y" * 10}, missing=at_end)
    found = list(history.read(run.store, run.run, "finished").boundaries)
    assert [(one.pending, one.halfway) for one in found if one.part == BLOCK] == [
        (("reg",), False), (("reg", "policy.log_probs[0]"), True), (("reg",), True), ((), False),
    ], "still there at the end of the iteration; gone by then; nothing says so; none"  # fmt: skip
    assert not any(one.halfway for one in found if one.part == ITERATION)
    assert not any(one.lacks for one in found), "their values are there"


def test_an_iterator_that_states_do_not_place_is_named_where_the_run_draws_from_it(tmp_path: Path) -> None:
    def read(folder: Path, drawn: list[str]) -> list[tuple[str, tuple[str, ...], tuple[str, ...], bool]]:
        run = _run(folder)
        process = run.process()
        _train(process, 3)
        process.end()
        entered = [{"entered": {"epoch": 1}}, {"entered": {"step": 1}}, {"entered": {}}]
        for at, digest in enumerate(drawn):
            roots = {"global/__main__/it": [digest, 0, "adapted"], "global/__main__/w": [str(at), 8, "list"]}
            nested, part = ([], "iteration") if at % 2 else ([["step", 0, 2, 2]], "block")
            path = [["epoch", 0, at // 2, None], *nested]
            missing = [[path[-1][0], "position", "it was made before"]]
            keep(run, at // 2, path, {"w": b"x" * 10}, part=part, loops=entered[: len(path) + 1], missing=missing, roots=roots)
        return [(one.part, one.unplaced, one.lacks, one.halfway) for one in history.read(run.store, run.run, "finished").boundaries]

    assert read(tmp_path / "a", ["4", "4", "8", "8"]) == [
        (BLOCK, ("it",), ("it",), True), (ITERATION, ("it",), ("it",), True), (BLOCK, ("it",), ("it",), True), (ITERATION, (), (), False),
    ], "behind the last state nothing that is kept shows it"  # fmt: skip
    stands = read(tmp_path / "b", ["1", "1", "1", "1"])
    assert stands == [(part, (), (), False) for part in (BLOCK, ITERATION) * 2], "nobody draws from it any more"


def test_a_run_that_was_killed_in_its_first_epoch_is_known_by_the_states_inside(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    process.advance(process.enter("epoch", range(1, 4)))
    process.advance(process.enter("step", range(9)))
    process.log("loss", 1.0)
    process.stop()
    loops = [{"entered": {"epoch": 1}}, {"entered": {"step": 1}}, {"entered": {}}]
    for number, step in enumerate((2, 5)):
        keep(
            run, number, [["epoch", 0, 0, 1], ["step", 0, step, step]], {"w": b"x"}, part=INSIDE, loops=loops, at_s=10.0 + step,
            stats={"compute_s": float(step)},
        )  # fmt: skip
    found = history.read(run.store, run.run, "killed")
    (block,) = found.blocks
    assert (block.name, block.total_s, found.prefix_s, found.whole_iterations(0)) == ("epoch", (5.0,), 10.0, 0)
    assert [one.step for one in found.inside[0, 0]] == [2, 5]


def test_a_state_that_a_later_attempt_went_back_behind_is_not_of_the_run(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 3)
    _times(process, 0, 4.0, 4.0, 4.0)
    process.stop()
    _keep_inside(run, 1, 0)
    _keep_inside(run, 2, 1)
    assert _steps(run) == [0, 1]
    again = run.process(attempt=2)
    again.fact("resumed", run=run.run, attempt=2, checkpoint={"0": "0-a1-000001-inside"})
    again.end()
    assert _steps(run) == [0]
    _keep_inside(run, 1, 2, attempt=2)
    assert _steps(run) == [0, 2]
    run.process(attempt=3).end()
    assert _steps(run) == [], "from the beginning"


def test_a_later_attempt_stands(tmp_path: Path) -> None:
    run = _run(tmp_path)
    first = run.process()
    for _ in first.loop("epoch", range(1, 5)):
        first.log("acc", 1)
        if first.stack[-1].iteration == 2:
            break
    _times(first, 0, 1.0, 1.0, wall=1.0)
    first.stop()
    second = run.process(attempt=2)
    block = second.enter("epoch", range(1, 5))
    block.iteration = 1
    for _ in range(2):
        second.advance(block)
        second.log("acc", 2)
    second.leave()
    _times(second, 2, 3.0, 3.0, wall=9.0)
    second.end()
    found = history.read(run.store, run.run, "finished")
    assert found.blocks[0].total_s == (1.0, 1.0, 3.0, 3.0) and found.blocks[0].ending == "exhausted"


def test_without_times_they_are_guessed(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 4)
    process.end()
    keep(run, 0, [["epoch", 0, 0, 1]], {"w": b"x"}, at_s=0.0)
    found = history.read(run.store, run.run, "finished")
    assert found.blocks[0].iterations == 4 and not found.measured


def test_records_are_stepped_over_and_damage_is_survived(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    process.log("loss", 1.0)
    process.fact("timing", x=1)
    process.log("loss", 2.0)
    process.stop()
    path = next(run.store.run(run.run).glob("*.journal"))
    data = path.read_bytes()
    kinds = [body[0] for body in told.bodies(data)]
    assert kinds == [frames.FACT, frames.NAME, frames.FACT]
    assert [body[0] for body in told.bodies(data[:-3])] == kinds


def test_what_is_answered_by_all_names_is_left_out(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 4)
    _times(process, 0, 1.0, 1.0, 1.0, 1.0)
    process.end()
    found = history.read(run.store, run.run, "finished")
    covers = [[["prefix"], ["iterations", 0, 0, 3], ["end"]], [["iterations", 0, 2, 3], ["end"]]]
    left = coverage.left_over(Need(prefix=True, after=True, suffix=True), found, covers)
    assert [left.wants(0, k) for k in range(4)] == [True, True, False, False]
    assert left.wants_prefix and not left.wants_end
    assert plan(found, coverage.left_over(Need(after=True), found, [covers[0]])).is_empty


def test_a_run_says_how_long_its_process_took_to_it(tmp_path: Path) -> None:
    run = StoreBuilder(tmp_path).run(imported_s=7.5)
    process = run.process()
    _train(process, 2)
    process.end()
    assert history.read(run.store, run.run, "finished").start_s == 7.5
    other = StoreBuilder(tmp_path / "other").run(imported_s=700.0, how="notebook")
    other.process().end()
    assert history.read(other.store, other.run, "finished").start_s == history.START_S  # a kernel waits for somebody


def test_memory_is_that_of_the_end_or_a_guess(tmp_path: Path) -> None:
    run = _run(tmp_path)
    process = run.process()
    _train(process, 2)
    _both(run, 0, 1)
    assert (history.read(run.store, run.run, "killed").memory_bytes or 0) > 300 << 20
    process.fact("memory", peak_bytes=90 << 20)
    process.end()
    assert history.read(run.store, run.run, "finished").memory_bytes == 90 << 20
