"""How far a worker has come, from a journal that grows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from rearview.replay.running.progress import Seen, Tail
from rearview.replay.worker.replayer import ReplayRecorder
from rearview.testing.stores import StoreBuilder


def test_each_fact_is_seen_once_as_it_is_written(tmp_path: Path) -> None:
    run = StoreBuilder(tmp_path / "store-folder").run()
    scratch = tmp_path / "unit"
    scratch.mkdir()
    (scratch / "store").symlink_to(run.store.root)
    seen = Seen(Tail(scratch, run.run))
    seen.look()
    assert seen.hello_wall is None
    process = run.process()
    process.log("loss", 1.0)
    process.fact("iteration", block=0, iteration=0, seconds=0.5, nested_s=0.4)
    seen.look()
    assert seen.iterations == [(0, 0)] and seen.seconds == {(0, 0): 0.5} and seen.hello_wall is not None
    path = next(run.store.run(run.run).glob("*.journal"))
    whole = path.read_bytes()
    process.fact("iteration", block=0, iteration=1, seconds=0.5, nested_s=0.4)
    grown = path.read_bytes()
    path.write_bytes(grown[: len(whole) + 9])  # in the middle of being written
    seen.look()
    assert seen.iterations == [(0, 0)]
    path.write_bytes(grown)
    process.rotate()
    process.fact("put_back", manifest="0-a1-000001-block", seconds=0.25)
    process.fact("unit_done", why="last")
    process.end()
    seen.look()
    seen.look()
    assert seen.iterations == [(0, 0), (0, 1)] and seen.done == "last" and seen.ended == "finished"
    assert seen.measured == [("put_back", "0-a1-000001-block", 0.25)]


def test_that_an_iteration_ended_is_written_at_once() -> None:
    wrote: list[str] = []
    unit = SimpleNamespace(to_end=False, last=(0, 3))
    worker = SimpleNamespace(unit=unit, _look_along=lambda: wrote.append("facts"), flush=lambda: wrote.append("flush"))
    ReplayRecorder._iteration_ended(cast(ReplayRecorder, worker), (0, 2))  # not with its next record: it may be killed before
    assert wrote == ["facts", "flush"]
