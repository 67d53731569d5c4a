"""Published replays: there or not there, forgotten whole, known to check and gc, and what they cover."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from rearview.errors import Damaged, NoSuchRun, NotFound, StoreError
from rearview.model import RunId
from rearview.store import check, frames, gc, journal, objects, replays
from rearview.store.layout import Store, open_store
from rearview.testing.stores import StoreBuilder


def a_replay(run: RunId, ident: str = "", **facts: object) -> replays.Replay:
    known: dict[str, object] = {
        "id": ident or replays.new_id(), "run": run, "created": "2026-07-01T10:00:00.000000+00:00", "names": ("grad",),
        "verdict": "identical", "covers": [["iterations", 0, 0, 4]], "probe_digest": "q1",
    }  # fmt: skip
    return replays.Replay(**{**known, **facts})  # type: ignore[arg-type]


def published(store: Store, replay: replays.Replay, *bodies: bytes) -> Path:
    folder = replays.begin(store, replay.run, replay.id)
    writer = journal.JournalWriter(folder, "0")
    writer.open_part(frames.fact_body("hello", format=1, run=replay.run, writer="0", attempt=1, part=1))
    writer.append(list(bodies))
    writer.close()
    replays.publish(store, replay)
    return folder


@pytest.fixture
def built(tmp_path: Path) -> tuple[Store, RunId]:
    builder = StoreBuilder(tmp_path)
    run = builder.run()
    process = run.process()
    process.log("loss", 0.5)
    process.end()
    return builder.store, run.run


def test_what_was_written_is_read(built: tuple[Store, RunId]) -> None:
    store, run = built
    replay = a_replay(
        run, why=("all 4 records are the same",), compared={"records": 4, "states": 2}, probes=({"file": "a.py", "line": 3},), seconds=1.5,
        first_difference={"name": "é", "recorded": "NaN"}, verdicts={"grad": "volatile"}, rung="resume", more={"later": [1]},
    )  # fmt: skip
    published(store, replay)
    assert replays.read(store, run, replay.id) == replay
    assert replays.list_of(store, run) == [replay]
    assert replay.verdict_of("grad") == "volatile" and replay.verdict_of("other") == "identical"
    assert check.check(store) == []


def test_it_is_not_there_before_its_json(built: tuple[Store, RunId]) -> None:
    store, run = built
    replay = a_replay(run)
    replays.begin(store, run, replay.id)
    assert replays.list_of(store, run) == [] and replays.coverage(store, run, "q1") == []
    with pytest.raises(NotFound):
        replays.read(store, run, replay.id)
    (finding,) = check.check(store)
    assert finding.severity == "note" and "replay.json" in finding.problem


def test_it_is_published_once(built: tuple[Store, RunId]) -> None:
    store, run = built
    replay = a_replay(run)
    published(store, replay)
    with pytest.raises(StoreError):
        replays.publish(store, replay)
    with pytest.raises(FileExistsError):
        replays.begin(store, run, replay.id)


def test_an_id_is_no_path(built: tuple[Store, RunId]) -> None:
    store, run = built
    for name in ("../x", "a/b", "..", "P1234", "p 12"):
        with pytest.raises(StoreError):
            replays.folder_of(store, run, name)


def test_a_run_that_is_gone_takes_none(built: tuple[Store, RunId]) -> None:
    store, _ = built
    with pytest.raises(NoSuchRun):
        replays.begin(store, RunId("rnone"), replays.new_id())


@pytest.mark.parametrize("change", [b'"verdict": "identical"', b'"q1"', b'"grad"', b"checksum"])
def test_a_flipped_byte_is_damage(built: tuple[Store, RunId], change: bytes) -> None:
    store, run = built
    replay = a_replay(run)
    path = published(store, replay) / replays.FILE
    data = path.read_bytes()
    at = data.index(change) + len(change) - 2
    path.write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
    with pytest.raises(Damaged):
        replays.read(store, run, replay.id)
    told: list[str] = []
    assert replays.list_of(store, run, told) == [] and len(told) == 1 and replay.id in told[0]
    assert [finding.severity for finding in check.check(store)] == ["damage"]
    assert replays.forget(store, run, replay.id) == [] and check.check(store) == []


def test_a_part_that_is_gone_or_damaged_is_told(built: tuple[Store, RunId]) -> None:
    store, run = built
    folder = published(store, a_replay(run), frames.fact_body("note", text="x" * 100), frames.fact_body("note", text="y"))
    part = folder / "0-a1-0001.journal"
    data = part.read_bytes()
    part.write_bytes(data[:120] + bytes((data[120] ^ 1,)) + data[121:])
    assert [finding.severity for finding in check.check(store)] == ["damage"]
    assert any(part.name in done for done in check.repair(store))
    assert [(finding.severity, "set aside" in finding.problem) for finding in check.check(store)] == [("note", True)]


def test_forgetting_by_name_and_id(built: tuple[Store, RunId]) -> None:
    store, run = built
    first, second, third = a_replay(run), a_replay(run, names=("norm",)), a_replay(run)
    for one in (first, second, third):
        published(store, one)
    assert {one.id for one in replays.forget(store, run, "grad")} == {first.id, third.id}
    assert replays.list_of(store, run) == [second]
    assert not replays.folder_of(store, run, first.id).exists()
    assert [one.id for one in replays.forget(store, run, second.id)] == [second.id]
    assert replays.forget(store, run, "nothing") == [] and check.check(store) == []


def test_the_oldest_comes_first(built: tuple[Store, RunId]) -> None:
    store, run = built
    late, early = a_replay(run, created="2026-07-02T00:00:00+00:00"), a_replay(run, created="2026-07-01T00:00:00+00:00")
    published(store, late)
    published(store, early)
    assert replays.list_of(store, run) == [early, late]


def old(folder: Path, by_s: float) -> None:
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (time.time() - by_s,) * 2)


def test_gc_removes_what_was_never_finished_after_its_grace(built: tuple[Store, RunId]) -> None:
    store, run = built
    whole, begun = a_replay(run), a_replay(run)
    published(store, whole)
    folder = replays.begin(store, run, begun.id)
    (folder / "0-a1-0001.journal").write_bytes(b"x" * 5000)
    gc.execute(store, gc.plan(store))
    assert folder.exists(), "young: somebody may be writing it"
    old(store.run(run), 3600)
    plan = gc.plan(store)
    assert plan.leftovers == (folder,) and plan.bytes_free >= 5000
    gc.execute(store, plan)
    assert not folder.exists() and replays.list_of(store, run) == [whole]


def test_gc_leaves_what_was_finished_meanwhile(built: tuple[Store, RunId]) -> None:
    store, run = built
    replay = a_replay(run)
    folder = replays.begin(store, run, replay.id)
    old(folder, 3600)
    plan = gc.plan(store)
    replays.publish(store, replay)
    gc.execute(store, plan)
    assert replays.list_of(store, run) == [replay]


def test_gc_keeps_objects_that_replays_name_until_they_are_forgotten(built: tuple[Store, RunId]) -> None:
    store, run = built
    key = objects.put(store, b"an array")
    replay = a_replay(run)
    published(store, replay, frames.fact_body("note", object=key))
    old(store.objects, 7200)
    gc.execute(store, gc.plan(store, grace_s=0.0))
    assert objects.get(store, key) == b"an array"
    replays.forget(store, run, replay.id)
    gc.execute(store, gc.plan(store, grace_s=-1.0))
    with pytest.raises(NotFound):
        objects.get(store, key)


def test_removing_the_run_removes_its_replays(built: tuple[Store, RunId]) -> None:
    store, run = built
    published(store, a_replay(run))
    check.remove_run(store, run)
    assert not store.run(run).exists() and replays.folders(store) == []


def test_a_copy_of_the_store_has_them(built: tuple[Store, RunId], tmp_path: Path) -> None:
    store, run = built
    replay = a_replay(run)
    published(store, replay)
    shutil.copytree(store.root, tmp_path / "elsewhere" / ".rearview")
    other = open_store(tmp_path / "elsewhere" / ".rearview")
    assert replays.list_of(other, run) == [replay] and check.check(other) == []


def test_coverage_is_of_one_question_and_of_what_can_be_trusted(built: tuple[Store, RunId]) -> None:
    store, run = built
    published(store, a_replay(run, covers=[["iterations", 0, 5, 9], ["end"]]))
    published(store, a_replay(run, covers=[["iterations", 0, 0, 4], ["prefix"]], verdict="unverified"))
    published(store, a_replay(run, covers=[["iterations", 1, 0, 4]], verdict="divergent"))
    published(store, a_replay(run, covers=[["iterations", 2, 0, 4]], probe_digest="q2"))
    assert replays.coverage(store, run, "q1") == [["prefix"], ["iterations", 0, 0, 9], ["end"]]
    assert ["iterations", 1, 0, 4] in replays.coverage(store, run, "q1", divergent=True)
    assert replays.coverage(store, run, "q3") == []


def test_what_is_lacking() -> None:
    have = [["iterations", 0, 2, 3], ["iterations", 0, 6, 6], ["prefix"]]
    assert replays.lacking([["prefix"], ["iterations", 0, 0, 9], ["end"]], have) == [
        ["iterations", 0, 0, 1], ["iterations", 0, 4, 5], ["iterations", 0, 7, 9], ["end"],
    ]  # fmt: skip
    assert replays.lacking([["iterations", 0, 2, 3]], have) == []
    assert replays.lacking([["iterations", 1, 2, 3]], have) == [["iterations", 1, 2, 3]]


def test_volatile_names_are_remembered(built: tuple[Store, RunId]) -> None:
    store, run = built
    published(store, a_replay(run, volatile=("epoch_time",)))
    published(store, a_replay(run, names=(), volatile=("t0", "epoch_time")))
    assert {one.volatile for one in replays.list_of(store, run)} == {("epoch_time",), ("t0", "epoch_time")}


def test_the_file_is_json_with_a_schema(built: tuple[Store, RunId]) -> None:
    store, run = built
    facts = json.loads((published(store, a_replay(run)) / replays.FILE).read_bytes())
    assert facts["schema"] == "rearview.replay/1" and list(facts)[-1] == "checksum" and "more" not in facts
