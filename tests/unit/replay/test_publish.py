"""From scratch stores to a published replay: the virtual names only, once each, with their objects and their place in the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rearview.model import ArraySummary, RunId, VersionId
from rearview.replay import publish
from rearview.replay.journals.logged import Journals, Left, Logged, recorded
from rearview.replay.running.units import Unit
from rearview.store import check, frames, gc, journal, objects, replays
from rearview.store.encoding import decode
from rearview.store.layout import Store
from rearview.store.replays import Replay
from rearview.testing import checkpoints
from rearview.testing.stores import ProcessBuilder, RunBuilder, StoreBuilder

RUN = RunId("r000000000001")


class Scene:
    """A recorded run of three epochs with a loss each, and workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run: RunBuilder = StoreBuilder(folder / "project").run(RUN)
        self.store = self.run.store
        process = self.run.process()
        for epoch in process.loop("epoch", range(3)):
            process.log("loss", 1.0 / (1 + epoch))
        process.end()
        self.units: list[Unit] = []

    def worker(self, **unit: Any) -> ProcessBuilder:
        """The main process of the next unit, writing into its scratch store."""
        number = len(self.units)
        scratch = self.folder / f"unit{number}"
        built = StoreBuilder(scratch).run(RUN)
        built.store.root.rename(scratch / "store")
        built.store = Store(scratch / "store")
        process = built.process()
        where: dict[str, Any] = {"store": str(self.store.root), "project": "", "scratch": str(scratch), "run": RUN, "replay": "pone1"}
        versions: dict[str, Any] = {"version": VersionId("v1"), "recorded_version": VersionId("v0")}
        self.units.append(Unit(number=number, **where, **versions, **unit))
        return process

    def publish(self, *names: str, ident: str = "pone1", **facts: Any) -> publish.Chosen:
        known: dict[str, Any] = {"verdict": "identical", "covers": [["iterations", 0, 0, 2]], "created": publish.now(), **facts}
        return publish.publish(self.store, Replay(id=ident, run=RUN, names=names, **known), self.units, recorded(self.store.run(RUN)))

    def published(self, ident: str = "pone1") -> list[tuple[str, str, object]]:
        """(path, name, value) of what is there."""
        events = Journals(replays.folder_of(self.store, RUN, ident)).events()
        return [(event.path, event.name, decode(event.value)) for event in events if type(event) is Logged]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def epochs(process: ProcessBuilder, *which: int, loss: bool = True, shift: float = 0.0) -> None:
    for epoch in process.loop("epoch", range(3)):
        if epoch in which:
            process.log("grad", epoch + shift)
            if loss:
                process.log("loss", 1.0 / (1 + epoch))
            process.fact("iteration", block=0, iteration=epoch, seconds=0.1)


def test_the_virtual_names_only(scene: Scene) -> None:
    worker = scene.worker()
    worker.arg("lr", 0.1)
    worker.log("other", 5)
    epochs(worker, 0, 1, 2)
    scene.publish("grad")
    assert scene.published() == [(f"epoch={epoch}", "grad", float(epoch)) for epoch in range(3)]
    assert check.check(scene.store) == [] and len(replays.list_of(scene.store, RUN)) == 1


def test_units_come_together_in_order_each_identity_once(scene: Scene) -> None:
    epochs(scene.worker(), 0, 1)
    epochs(scene.worker(), 1, 2, shift=0.0)
    chosen = scene.publish("grad")
    assert [value for _, _, value in scene.published()] == [0.0, 1.0, 2.0] and chosen.differing == set()


def test_units_that_disagree_are_told(scene: Scene) -> None:
    epochs(scene.worker(), 0, 1)
    epochs(scene.worker(), 1, 2, shift=0.5)
    assert scene.publish("grad").differing == {"grad"}
    assert [value for _, _, value in scene.published()] == [0.0, 1.0, 2.5]


def positions(scene: Scene) -> list[float]:
    """Behind which recorded loss each published record stands; -1 before all."""
    losses = [record.position for record in recorded(scene.store.run(RUN)).records.values()]
    events = Journals(replays.folder_of(scene.store, RUN, "pone1")).events()
    return [sum(position <= event.at for position in losses) - 1 for event in events if type(event) is Logged]


def test_each_stands_behind_what_came_before_it(scene: Scene) -> None:
    worker = scene.worker()
    worker.log("grad", -1.0)
    epochs(worker, 0, 1, 2)
    worker.log("grad", 9.0)
    scene.publish("grad")
    assert positions(scene) == [-1, -1, 0, 1, 2]


def test_also_where_the_unit_logged_nothing_else(scene: Scene) -> None:
    epochs(scene.worker(), 2, loss=False)
    scene.publish("grad")
    assert positions(scene) == [1], "the epochs before it are before it"


def test_a_state_that_was_put_back_says_where_it_is(scene: Scene) -> None:
    manifest = checkpoints.keep(scene.run, 1, checkpoints.epoch(2, 2), {}, at_s=0.00035)
    worker = scene.worker(start=str(manifest.name))
    worker.log("grad", 1.0)
    scene.publish("grad")
    assert positions(scene) == [2]


def test_arrays_come_along(scene: Scene, tmp_path: Path) -> None:
    worker = scene.worker()
    key = objects.put(Store(Path(scene.units[0].scratch) / "store"), b"\0" * 12)
    unused = objects.put(Store(Path(scene.units[0].scratch) / "store"), b"unused")
    worker.log("weights", [ArraySummary("numpy", "float32", (3,), 0.0, 0.0, 0.0, 0, (3,), key, 12)])
    worker.log("text", "xxh3-" + "f" * 32)
    worker.log("other", ArraySummary("numpy", "uint8", (6,), 0.0, 0.0, 0.0, 0, (6,), unused, 6))
    scene.publish("weights", "text")
    assert objects.get(scene.store, key) == b"\0" * 12 and not objects.path_of(scene.store, unused).exists()
    assert check.check(scene.store) == []
    gc.execute(scene.store, gc.plan(scene.store, grace_s=-1.0))
    assert objects.get(scene.store, key) == b"\0" * 12


def test_how_loops_ended_unless_the_unit_just_stopped(scene: Scene) -> None:
    worker = scene.worker()
    block = worker.enter("epoch", range(3))
    worker.advance(block)
    for step in worker.loop("step", range(2), ending=2):
        worker.log("grad", float(step))
    worker.fact("unit_done", why="last")
    worker.leave()
    scene.publish("grad")
    events = Journals(replays.folder_of(scene.store, RUN, "pone1")).events()
    assert [(event.block.loop, event.entries, event.ending) for event in events if type(event) is Left] == [("step", 2, 2)]


def test_what_iterations_are_called(scene: Scene) -> None:
    worker = scene.worker()
    for _ in worker.loop("fold", ["a", "b"]):
        for lr in worker.loop("lr", [0.5, 0.25]):
            worker.log("grad", lr)
    scene.publish("grad")
    assert [path for path, _, _ in scene.published()] == ["fold=a/lr=0.5", "fold=a/lr=0.25", "fold=b/lr=0.5", "fold=b/lr=0.25"]


def test_large_ones_are_written_in_parts_that_stand_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "PART_FRAMES", 10)
    monkeypatch.setattr(publish, "_AT_ONCE", 3)
    worker = scene.worker()
    for _ in worker.loop("fold", ["a", "b"]):
        for step in worker.loop("step", range(20)):
            worker.log("grad", float(step))
    scene.publish("grad")
    folder = replays.folder_of(scene.store, RUN, "pone1")
    parts = journal.parts_of(folder)
    assert len(parts) > 3 and len(scene.published()) == 40 and check.check(scene.store) == []
    for name, path in parts:
        reading = frames.Reading()
        kinds = [body[0] for _, body in frames.walk(path.read_bytes(), reading)]
        assert reading.closed and kinds[0] == frames.FACT, name
        alone = Journals(folder)
        alone.parts = {"0": [(name, path)]}
        list(alone.events())
        assert alone.damage == []


def test_children_keep_their_numbers_and_a_second_worker_is_the_same_process(scene: Scene) -> None:
    worker = scene.worker()
    worker.log("grad", 1.0)
    worker.run.process("0.1").log("grad", 2.0)
    again = worker.run.process()
    again.log("grad", 1.0)
    again.log("grad", 3.0)
    scene.publish("grad")
    journals = Journals(replays.folder_of(scene.store, RUN, "pone1"))
    found = [(event.process, event.ordinal, decode(event.value)) for event in journals.events() if type(event) is Logged]
    assert again.writer.writer == "0x" and found == [("0", 0, 1.0), ("0", 1, 3.0), ("0.1", 0, 2.0)]


def test_nothing_to_publish_is_published_too(scene: Scene) -> None:
    epochs(scene.worker(), 0)
    scene.publish(volatile=("epoch_time",))
    assert scene.published() == [] and [one.volatile for one in replays.list_of(scene.store, RUN)] == [("epoch_time",)]


def test_forgetting_a_name_keeps_the_others(scene: Scene) -> None:
    worker = scene.worker()
    for epoch in worker.loop("epoch", range(2)):
        worker.log("grad", float(epoch))
        worker.log("norm", -float(epoch))
    more = {"digests": {"grad": "1", "norm": "2"}, "predicted_s": 1.5}
    scene.publish("grad", "norm", verdicts={"grad": "volatile", "norm": "close"}, seconds=3.0, more=more)
    (gone,) = publish.forget(scene.store, RUN, "grad")
    assert gone.names == ("grad", "norm")
    (rest,) = replays.list_of(scene.store, RUN)
    assert rest.names == ("norm",) and rest.id != "pone1" and rest.verdicts == {"norm": "close"} and rest.seconds == 3.0
    assert rest.more == {"digests": {"norm": "2"}, "predicted_s": 1.5}, "asked again, what was forgotten is not answered"
    assert scene.published(rest.id) == [("epoch=0", "norm", 0.0), ("epoch=1", "norm", -1.0)] and check.check(scene.store) == []
    assert publish.forget(scene.store, RUN, "grad") == []
    assert [one.id for one in publish.forget(scene.store, RUN, rest.id)] == [rest.id] and replays.list_of(scene.store, RUN) == []


def test_killed_before_the_end_nothing_is_there(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs(scene.worker(), 0)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(replays, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        scene.publish("grad")
    assert replays.list_of(scene.store, RUN) == [] and [finding.severity for finding in check.check(scene.store)] == ["note"]
