"""Recorded and replayed, matched by identity and compared bit for bit."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest

from rearview.model import ArraySummary, ProcessNumber, RunId
from rearview.replay.journals.logged import Journals, place_of, recorded
from rearview.replay.proof.compare import Comparison, Stretch, compare
from rearview.replay.proof.values import relative_difference, same_value
from rearview.store import frames
from rearview.store.encoding import encode
from rearview.store.manifests import Manifest
from rearview.testing.stores import ProcessBuilder, StoreBuilder

MAIN = {0: place_of([["epoch", 0, 0, 0]])}


class Sides:
    """A recorded run, and what a worker logged of it."""

    def __init__(self, folder: Path) -> None:
        self._built = [StoreBuilder(folder / side).run("r000000000001") for side in ("store", "scratch")]
        self.record, self.replay = (run.process() for run in self._built)
        self.manifests: dict[str, Manifest] = {}

    def compare(self, virtual: tuple[str, ...] = (), mains: dict[int, str] | None = None, **stretch: Any) -> Comparison:
        truth, worker = (run.store.run(run.run) for run in self._built)
        events = Journals(worker, scratch=True).events()
        return compare(recorded(truth), [Stretch(events, **stretch)], virtual, MAIN if mains is None else mains, self.manifests.get)


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(tmp_path)


def train(process: ProcessBuilder, epochs: range = range(3), *, worker: bool = False, loss: dict[int, object] | None = None) -> None:
    """Two loops: a loss per step, an accuracy per epoch."""
    process.advance(block := process.enter("epoch", range(3)))
    for epoch in range(3):
        if epoch:
            process.advance(block)
        for step in process.loop("step", range(2)):
            if epoch in epochs:
                process.log("loss", (loss or {}).get(epoch * 2 + step, 1.0 / (1 + epoch * 2 + step)))
        if epoch in epochs:
            process.log("acc", 0.5 + epoch)
            if worker:
                process.fact("iteration", block=0, iteration=epoch, seconds=0.1)
    process.leave()


def test_the_same(sides: Sides) -> None:
    train(sides.record)
    train(sides.replay, worker=True)
    found = sides.compare()
    assert found.identical and found.records == 9 and found.differing_names == []
    assert found.names["loss"].varies and found.names["loss"].compared == 6


def test_the_first_difference_is_named_with_its_place(sides: Sides) -> None:
    train(sides.record)
    train(sides.replay, loss={3: 0.25000000000000006, 5: 7.0})
    found = sides.compare()
    assert found.first is not None and found.first.as_json() == {
        "kind": "value", "name": "loss", "path": "epoch=1/step=1", "recorded": "0.25", "replayed": "0.25000000000000006", "process": "0",
        "part": "",
    }  # fmt: skip
    assert found.differing_names == ["loss"] and found.names["loss"].differing == 2 and found.names["acc"].same
    assert found.names["loss"].largest == pytest.approx((7 - 1 / 6) / 7) and found.names["loss"].largest_path == "epoch=2/step=1"


NAN, OTHER_NAN = struct.unpack("<2d", struct.pack("<2Q", 0x7FF8000000000000, 0x7FF8000000000001))


@pytest.mark.parametrize(
    ("before", "after"),
    [(0.0, -0.0), (1, 1.0), (1, True), (NAN, OTHER_NAN), ("a", b"a"), ([1], (1,)), (None, 0), (10**30, float(10**30))],
    ids=lambda value: repr(value)[:12],
)
def test_equal_is_not_the_same(sides: Sides, before: object, after: object) -> None:
    sides.record.log("x", before)
    sides.replay.log("x", after)
    assert not sides.compare().identical


@pytest.mark.parametrize("value", [NAN, OTHER_NAN, -0.0, math.inf, 10**40, "é\ud800", {"a": [None, 1.5]}], ids=repr)
def test_the_same_is_the_same(sides: Sides, value: object) -> None:
    sides.record.log("x", value)
    sides.replay.log("x", value)
    assert sides.compare().identical and sides.compare().records == 1


def array(key: str, mean: float = 0.0, dtype: str = "float32") -> ArraySummary:
    return ArraySummary("numpy", dtype, (3,), 0.0, 1.0, mean, 0, (1, 2), "xxh3-" + key * 32, 12)


def test_arrays_are_compared_by_their_bytes() -> None:
    assert same_value(encode(array("a")), encode(array("a", mean=0.1)))
    assert not same_value(encode(array("a")), encode(array("b")))
    assert not same_value(encode(array("a")), encode(array("a", dtype="int32")))
    assert not same_value(encode([array("a"), 0.0]), encode([array("a", 0.1), -0.0]))
    assert relative_difference(array("a", 0.5), array("b", 0.4)) == pytest.approx(0.1)


def test_a_later_attempt_is_the_truth(sides: Sides) -> None:
    train(sides.record, loss={4: 99.0, 5: 98.0})
    second = sides.record.run.process(attempt=2)
    block = second.enter("epoch", range(3))
    block.iteration = 1
    second.advance(block)
    for step in second.loop("step", range(2)):
        second.log("loss", 1.0 / (5 + step))
    train(sides.replay)
    found = sides.compare()
    assert found.identical and found.records == 9


def test_what_only_one_side_logged_differs(sides: Sides) -> None:
    train(sides.record)
    sides.record.log("final", 1.0)
    train(sides.replay, worker=True)
    sides.replay.log("late", 2.0)
    sides.replay.fact("unit_done", why="end")
    found = sides.compare(prefix=True, to_end=True)
    assert [(one.kind, one.name, one.recorded, one.replayed) for one in found.differences] == [
        ("extra", "late", None, "2.0"), ("missing", "final", "1.0", None),
    ]  # fmt: skip


def test_a_record_that_was_not_logged_again_in_a_finished_iteration(sides: Sides) -> None:
    train(sides.record)
    for epoch in sides.replay.loop("epoch", range(3)):
        for step in sides.replay.loop("step", range(2)):
            sides.replay.log("loss", 1.0 / (1 + epoch * 2 + step))
        if epoch < 2:
            sides.replay.fact("iteration", block=0, iteration=epoch)
    found = sides.compare()
    assert [(one.kind, one.path) for one in found.differences] == [("missing", "epoch=0"), ("missing", "epoch=1")]
    assert sides.compare(mains={}).identical, "without knowing where the main loop is nothing can be missed"


def test_iterations_that_were_not_run_are_not_missed(sides: Sides) -> None:
    train(sides.record)
    train(sides.replay, range(1, 2), worker=True)
    found = sides.compare()
    assert found.identical and found.records == 3


def manifest(part: str, path: list[list[Any]], taken_at: int = 0, **facts: Any) -> Manifest:
    who: dict[str, Any] = {"run": RunId("r000000000001"), "process": ProcessNumber("0"), "attempt": 1, "number": 1}
    return Manifest(**who, part=part, path=path, tree="xxh3-" + "0" * 32, tree_bytes=1, buffers=(), taken_at=taken_at, **facts)


def test_what_was_put_back_is_not_missed(sides: Sides) -> None:
    train(sides.record)
    sides.manifests["b1"] = manifest("block", [["epoch", 0, 1, 1], ["step", 0, 1, 1]])
    for epoch in sides.replay.loop("epoch", range(3)):
        if epoch == 1:
            sides.replay.fact("put_back", manifest="b1", seconds=0.1)
            sides.replay.log("acc", 1.5)
            sides.replay.fact("iteration", block=0, iteration=1)
    assert sides.compare().identical and sides.compare().records == 1
    sides.manifests["b1"] = manifest("block", [["epoch", 0, 0, 0], ["step", 0, 1, 1]])
    assert [one.name for one in sides.compare().differences] == ["loss", "loss"], "the block of another iteration"


def test_what_came_before_the_restore_point_is_not_missed(sides: Sides) -> None:
    for epoch in sides.record.loop("epoch", range(2)):
        sides.record.log("lr", 0.1)
        began = sides.record.clock_us + 1
        sides.record.log("acc", float(epoch))
    for _ in sides.replay.loop("epoch", range(1, 2)):
        sides.replay.stack[-1].iteration = 1
        sides.replay.log("acc", 1.0)
        sides.replay.fact("iteration", block=0, iteration=1)
    start = manifest("block", [["epoch", 0, 1, 1], ["step", 0, 1, 1]], began)
    assert sides.compare(began=start).identical
    assert [one.name for one in sides.compare().differences] == ["lr"]


def test_what_was_logged_up_to_the_place_where_a_unit_ends_must_be_there(sides: Sides) -> None:
    moments = []
    for process in (sides.record, sides.replay):
        process.advance(process.enter("epoch", range(1)))
        for step in process.loop("step", range(6)):
            if process is sides.record or step in (2, 3):
                process.log("loss", step / 3)
            moments.append(process.clock_us)
        process.leave()
    sides.replay.fact("unit_done", why="inside")
    since, until = (manifest("inside", [["epoch", 0, 0, 0], ["step", 0, step, step]], moments[step]) for step in (1, 3))
    assert sides.compare(began=since, stopped=until).identical
    later = manifest("inside", [["epoch", 0, 0, 0], ["step", 0, 4, 4]], moments[4])
    found = sides.compare(began=since, stopped=later)
    assert found.first is not None and (found.first.kind, found.first.path) == ("missing", "epoch=0/step=4")
    assert not sides.compare(stopped=until).identical, "from the beginning of the iteration"


def test_what_is_before_and_behind_the_loop(sides: Sides) -> None:
    for process, logs in ((sides.record, True), (sides.replay, False)):
        if logs:
            process.log("before", 1)
        train(process)
        if logs:
            process.log("behind", 2)
    sides.replay.fact("unit_done", why="end")
    assert [one.name for one in sides.compare(to_end=True).differences] == ["behind"]
    assert [one.name for one in sides.compare(to_end=True, prefix=True).differences] == ["before", "behind"]
    assert sides.compare().identical


def test_virtual_names_are_no_differences(sides: Sides) -> None:
    train(sides.record)
    train(sides.replay)
    sides.replay.log("grad", 1.0)
    sides.replay.log("grad", 2.0)
    sides.replay.log("speed", 1.0, flags=frames.VOLATILE)
    found = sides.compare(virtual=("grad", "speed"))
    assert found.identical and found.virtual == {"grad": 2, "speed": 1} and found.virtual_flagged == {"speed"}
    assert [one.kind for one in sides.compare().differences] == ["extra"] * 3


def test_the_first_difference_of_each_name_is_kept(sides: Sides) -> None:
    for process, shift in ((sides.record, 0.0), (sides.replay, 1.0)):
        for _ in range(30):
            process.log("loss", 1.0 + shift)
        process.log("acc", 1.0 + shift)
    found = sides.compare()
    assert len(found.differences) == 21 and found.differences[-1].name == "acc" and found.names["loss"].differing == 30


def test_arguments_are_not_compared(sides: Sides) -> None:
    sides.record.arg("lr", 0.1)
    sides.replay.arg("lr", 0.2)
    assert sides.compare().identical and sides.compare().records == 0


def test_records_of_two_workers_count_once(sides: Sides) -> None:
    train(sides.record)
    train(sides.replay)
    again = sides.replay.run.process()
    train(again)
    found = sides.compare()
    assert found.identical and found.records == 9 and again.writer.writer == "0x"


MISSING = [["global/__main__/f", "file", "an open file"], ["epoch", "position", "it was made before"]]


def test_states(sides: Sides) -> None:
    roots = {"global/__main__/t0": ["a", 8, "float"], "given/net": ["b", 8, "object"]}
    sides.manifests["m"] = manifest("iteration", [["epoch", 0, 0, 1]], roots=roots, missing=MISSING)
    path = [["epoch", 0, 0, 1]]
    sides.replay.fact("compared", manifest="m", part="iteration", path=path, roots=12, differ=[], differing=0, lacks=0)
    sides.replay.log("loss", 1.0)
    sides.record.log("loss", 1.0)
    differ = [["global/__main__/t0", "a", "c"]]
    sides.replay.fact("compared", manifest="m", part="iteration", path=path, roots=12, differ=differ, differing=1, lacks=1)
    found = sides.compare()
    assert (found.states, found.states_same, found.roots_compared, found.records) == (2, 1, 24, 1)
    assert found.roots["global/__main__/t0"].kind == "float" and found.lacking == {
        "global/__main__/f": "an open file", "the position of epoch": "it was made before",
    }  # fmt: skip
    assert found.first is not None and (found.first.kind, found.first.path, found.first.part) == ("state", "epoch=1", "iteration")
    sides.replay.fact("compared", manifest="m", part="iteration", path=path, roots=12, differ=differ, differing=21)
    assert "more roots than were named" in sides.compare().differing_roots


def test_what_the_worker_said(sides: Sides) -> None:
    sides.replay.fact("loaded_elsewhere", path="model.py", why="a .pth file came first")
    sides.replay.fact("probe_failed", file="train.py", line=4, traceback="Traceback")
    sides.replay.fact("inexact", manifest="m", why="net.cache was left out")
    found = sides.compare()
    assert found.loaded_elsewhere == [("model.py", "a .pth file came first")] and found.failed[0]["line"] == 4
    assert found.inexact == ["net.cache was left out"] and found.identical


def test_closeness() -> None:
    assert relative_difference(1.0, 1.1) == pytest.approx(0.1 / 1.1)
    assert relative_difference(1e-12, -1e-12, scale=1.0) < 1e-8
    assert relative_difference(1.0, math.nan) == math.inf and relative_difference("a", "b") == math.inf
    assert relative_difference(2**2000, 1) == math.inf and relative_difference(3, 3.0) == 0.0


def test_a_child_has_its_own_records(sides: Sides) -> None:
    for process in (sides.record, sides.replay):
        child = process.run.process("0.1")
        child.log("loss", 1.0 if process is sides.record else 2.0)
        process.log("loss", 3.0)
    found = sides.compare()
    assert found.records == 2 and found.first is not None and found.first.process == "0.1"
