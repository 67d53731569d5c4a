"""One run in one process, without a program around it: what goes into the journal."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview.model import ProcessNumber, RunId
from rearview.record import loops, recorder
from rearview.record.arguments import Given
from rearview.record.keeper import sync
from rearview.record.recorder import Recorder
from rearview.store import frames, journal, layout, processes, runs
from tests.integration.record.reading import Read, the_run

RUN = RunId("r000000000001")


@pytest.fixture
def make(project: Path) -> Iterator[Callable[..., Recorder]]:
    store = layout.create(project / layout.FOLDER)

    def begin(given: dict[str, str] | None = None, **more: Any) -> Recorder:
        runs.write_run(store, RUN, {"tstamp": "", "place": 0, "version": None})
        made = Recorder(store, RUN, ProcessNumber("0"), processes.identity(), Given(given or {}), **more)
        made.begin()
        loops.current.set(made.root)
        return made

    yield begin
    loops.current.set(None)


def loop(rec: Recorder, name: str, iterable: Any) -> Any:
    """As `rv.loop` calls it: the frame it looks at is its caller's caller."""
    return rec.loop(name, iterable)


class FailingDisk:
    """`os.write` that fails on journals while `problem` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.problem: int | None = None
        self.short = False
        self.failed = 0
        self.clock = 0.0
        real = os.write

        def write(fd: int, data: bytes) -> int:
            if self.problem is not None:
                self.failed += 1
                raise OSError(self.problem, os.strerror(self.problem))
            if self.short:
                self.failed += 1
                return real(fd, data[: len(data) // 2])
            return real(fd, data)

        monkeypatch.setattr(recorder, "_write", write)
        monkeypatch.setattr(os, "write", write)
        monkeypatch.setattr(recorder.time, "monotonic", lambda: self.clock)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    return FailingDisk(monkeypatch)


def test_records_and_their_identity(make: Callable[..., Recorder], project: Path) -> None:
    rec = make()
    for _ in loop(rec, "epoch", range(1, 3)):
        for _ in loop(rec, "step", ["a", "b"]):
            rec.log("loss", 0.5, False)
            rec.log("loss", 0.5, False)
        rec.log("acc", 1, True)
    rec.log("end", None, False)
    rec.end("finished")
    read = the_run(project)
    expected = []
    for epoch in ("epoch0", "epoch1"):
        expected += [(f"{epoch}/step{step}", "loss", ordinal) for step in range(2) for ordinal in range(2)] + [(epoch, "acc", 0)]
    assert [(r.at, r.name, r.ordinal) for r in read.records] == [*expected, ("", "end", 0)]
    assert read.records[0].called == (1, "a")
    assert [r.flags for r in read.records if r.name == "acc"] == [frames.VOLATILE, frames.VOLATILE]
    assert read.leaves == [("step", 2, "exhausted"), ("step", 2, "exhausted"), ("epoch", 2, "exhausted")]
    assert read.how == "finished"
    assert read.closed == {"0": True}


@pytest.mark.parametrize("volatile", [False, True])
def test_volatile_is_in_the_frame_on_both_paths(make: Callable[..., Recorder], project: Path, volatile: bool) -> None:
    rec = make()
    for _ in range(3):
        rec.log("float", 0.5, volatile)
        rec.log("text", "a", volatile)
    rec.end("finished")
    assert {r.flags for r in the_run(project).records} == {int(volatile)}


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "\U0001f600", "n" * (1 << 20), "\x1b[31m", "=1+1"])
def test_names_of_any_text(make: Callable[..., Recorder], project: Path, name: str) -> None:
    rec = make()
    for _ in loop(rec, name, range(2)):
        rec.log(name, 0.5, False)
        rec.log(name, name, False)
    rec.arg(name, 1)
    rec.end("finished")
    read = the_run(project)
    assert read.values(name) == [0.5, name, 0.5, name, 1]
    assert {r.path[0][0] for r in read.records[:4]} == {name}


def test_parts_are_readable_alone(make: Callable[..., Recorder], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "PART_BYTES", 2000)
    monkeypatch.setattr(recorder, "PART_FRAMES", 40)
    rec = make()
    for _ in loop(rec, "epoch", range(5)):
        for _ in loop(rec, "step", "abcdefghij"):
            rec.log("loss", 0.5, False)
            rec.log("text", "x" * 20, False)
        rec.log("acc", 0.5, False)
    rec.end("finished")
    read = the_run(project)
    assert len(list((project / ".rearview/runs" / RUN).glob("*.journal"))) > 3
    assert [r.at for r in read.records if r.name == "loss"] == [f"epoch{e}/step{s}" for e in range(5) for s in range(10)]
    assert [r.called for r in read.records if r.name == "loss"] == [(e, s) for e in range(5) for s in "abcdefghij"]
    assert read.leaves == [("step", 10, "exhausted")] * 5 + [("epoch", 5, "exhausted")]
    assert len(read.fact("hello")) == len(list((project / ".rearview/runs" / RUN).glob("*.journal")))


def test_unstorable_is_said_once_by_name_and_type(make: Callable[..., Recorder], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Thing:
        pass

    rec = make()
    for _ in range(3):
        rec.log("thing", Thing(), False)
    rec.log("other", [1, {2: Thing()}], False)
    rec.log("fine", 1, False)
    rec.end("finished")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "'thing'" in said[0]
    assert "Thing" in said[0]
    assert "'other'" in said[1]
    read = the_run(project)
    assert [f["name"] for f in read.fact("unstorable")] == ["thing", "other"]
    assert [r.name for r in read.records] == ["fine"]


def test_unstorable_with_a_giant_name_is_said_in_one_screen(make: Callable[..., Recorder], capsys: pytest.CaptureFixture[str]) -> None:
    rec = make()
    rec.log("n" * 100_000, object(), False)
    rec.end("finished")
    assert 0 < len(capsys.readouterr().err) < 1000


def test_args_are_recorded_once_with_their_origin(make: Callable[..., Recorder], project: Path) -> None:
    rec = make({"lr": "0.5"})
    for _ in loop(rec, "epoch", range(2)):
        assert rec.arg("lr", 0.1) == 0.5
        assert rec.arg("batch", 32) == 32
    rec.end("finished")
    assert [(r.at, r.name, r.value, r.flags) for r in the_run(project).records] == [
        ("", "lr", 0.5, frames.IS_ARG | frames.ARG_GIVEN),
        ("", "batch", 32, frames.IS_ARG),
    ]


def test_threads(make: Callable[..., Recorder], project: Path) -> None:
    rec = make()

    def work(k: int) -> None:
        for i in range(2000):
            rec.log(f"own{k}", float(i), False)
            rec.log("shared", i if i % 2 else float(i), False)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rec.end("finished")
    read = the_run(project)
    assert sorted(r.ordinal for r in read.records if r.name == "shared") == list(range(16_000))
    for k in range(8):
        assert read.values(f"own{k}") == [float(i) for i in range(2000)]


def test_log_in_a_signal_handler_that_interrupts_log(make: Callable[..., Recorder], project: Path) -> None:
    rec = make()
    inside = 0

    def handler(*_: object) -> None:
        nonlocal inside
        mine = inside = inside + 1  # the next alarm may come while this one is handled
        rec.log("alarm", mine, False)
        rec.log("alarm float", float(mine), False)
        rec.arg(f"asked{mine}", mine)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for i in range(20_000):
            rec.log("loss", float(i), False)
            if i % 10 == 0:
                rec.log("text", str(i), False)
            if inside > 200:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    rec.end("finished")
    read = the_run(project)
    assert inside > 20
    assert sorted(read.values("alarm")) == list(range(1, inside + 1))
    assert sorted(read.values("alarm float")) == [float(k) for k in range(1, inside + 1)]
    assert sorted(r.value for r in read.records if r.name.startswith("asked")) == list(range(1, inside + 1))
    assert read.values("loss") == [float(k) for k in range(i + 1)]


def test_a_handler_inside_arg_or_flush_loses_nothing(make: Callable[..., Recorder], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is logged afterwards: what the handler logged must not wait for a record that never comes."""
    rec = make()
    real = rec.journal.append
    interrupts = iter(["in arg", "in flush"])

    def append(bodies: list[bytes]) -> None:
        name = next(interrupts, None)
        if name is not None:
            rec.log(name, 1, False)
        real(bodies)

    monkeypatch.setattr(rec.journal, "append", append)
    rec.arg("lr", 1)
    rec.fact("tick", wall=0.0)
    rec.flush()
    monkeypatch.undo()
    rec.end("finished")
    assert {r.name for r in the_run(project).records} == {"lr", "in arg", "in flush"}


def test_ctrl_c_inside_log(make: Callable[..., Recorder], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the interrupted write happened is not certain; everything before and after is there, nothing twice."""
    real, hits = os.write, iter(range(100))

    def write(fd: int, data: bytes) -> int:
        at = next(hits)
        if at == 5:
            raise KeyboardInterrupt
        done = real(fd, data)
        if at == 9:
            raise KeyboardInterrupt
        return done

    rec = make()
    rec.log("loss", -1.0, False)
    monkeypatch.setattr(recorder, "_write", write)
    acknowledged, doubtful = [], []
    for _ in loop(rec, "step", [f"s{k}" for k in range(30)]):
        for k in range(2):
            try:
                rec.log("loss", float(k), False)
                acknowledged.append((_, k))
            except KeyboardInterrupt:
                doubtful.append((_, k))
    rec.end("finished")
    read = the_run(project)
    there = [(r.called[0], int(r.value)) for r in read.records if r.path]
    assert set(acknowledged) <= set(there) <= set(acknowledged) | set(doubtful)
    assert len(doubtful) == 2
    assert all(r.ordinal == int(r.value) for r in read.records if r.path)


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, None])
def test_a_failing_disk_is_said_once_and_records_come_again(
    make: Callable[..., Recorder], project: Path, disk: FailingDisk, capsys: pytest.CaptureFixture[str], problem: int | None
) -> None:
    rec = make()
    expected = []
    for i in loop(rec, "step", [f"s{k}" for k in range(40)]):
        k = int(i[1:])
        failing = 10 <= k < 20 or 30 <= k < 35
        disk.problem, disk.short = (problem, False) if failing and problem else (None, failing)
        disk.clock += 0.7
        for _ in loop(rec, "inner", range(2)):
            rec.log("loss", float(k), False)
        if not failing:
            expected.append(float(k))
    disk.problem, disk.short = None, False
    disk.clock += 10
    rec.end("finished")
    said = [line for line in capsys.readouterr().err.splitlines() if "degraded" in line]
    assert len(said) == 1
    read = the_run(project)
    values = read.values("loss")
    assert rec.trouble.lost == 80 - len(values)
    assert disk.failed < 40, "a full disk is not tried with every record"
    for value in expected:
        if value not in (20.0, 21.0, 35.0, 36.0):  # until the next try
            assert values.count(value) == 2, value
    assert all(r.called[0] == f"s{int(r.value)}" and r.path[0][2] == int(r.value) for r in read.records)
    assert read.leaves[-1] == ("step", 40, "exhausted")
    assert read.how == "finished"


def test_a_disk_that_stays_full_leaves_no_heap_of_empty_files(make: Callable[..., Recorder], project: Path, disk: FailingDisk) -> None:
    rec = make()
    rec.log("loss", 0.5, False)
    disk.problem = errno.ENOSPC
    for _ in range(50):
        disk.clock += 2
        rec.log("loss", 0.5, False)
    assert len(list((project / ".rearview/runs" / RUN).iterdir())) <= 3
    disk.problem = None
    disk.clock += 2
    rec.log("loss", 0.75, False)
    rec.end("finished")
    read = the_run(project)
    assert read.values("loss") == [0.5, 0.75]
    assert [r.ordinal for r in read.records] == [0, 51]
    assert read.how == "finished"


def test_the_end_is_noted_when_there_is_room_again(make: Callable[..., Recorder], project: Path, disk: FailingDisk) -> None:
    """Between the last failed try and the end nothing was logged, and the time for the next try has not come."""
    rec = make()
    rec.log("loss", 0.5, False)
    disk.problem = errno.ENOSPC
    rec.log("loss", 0.5, False)
    disk.clock += 2
    rec.log("loss", 0.5, False)
    disk.problem = None
    rec.end("finished")
    assert the_run(project).how == "finished"


def test_a_failed_sync_is_said_once_and_a_new_part_begins(
    make: Callable[..., Recorder], project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After an fsync error nothing is known about the file's pages: never write on as if nothing had happened."""
    rec = make()
    rec.log("loss", 0.5, False)

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        sync(rec)
    rec.trouble.retry_at = 0.0
    rec.log("loss", 0.75, False)
    sync(rec)
    rec.end("finished")
    assert len([line for line in capsys.readouterr().err.splitlines() if "degraded" in line]) == 1
    assert the_run(project).values("loss") == [0.5, 0.75]
    assert len(list((project / ".rearview/runs" / RUN).glob("*.journal"))) == 2


def test_sync_always(make: Callable[..., Recorder], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd))[1])
    rec = make(sync_always=True)
    for k in range(5):
        rec.log("loss", float(k), False)
        assert synced[-1] == os.fstat(rec.journal.fd).st_size, "the record was synced before the call returned"
    rec.arg("lr", 1)
    assert synced[-1] == os.fstat(rec.journal.fd).st_size
    rec.end("finished")


def test_log_after_the_end_is_nothing(make: Callable[..., Recorder], project: Path) -> None:
    rec = make()
    rec.log("loss", 0.5, False)
    iterator = iter(loop(rec, "step", range(3)))
    next(iterator)
    rec.end("finished")
    rec.log("loss", 0.5, False)
    rec.log("new", "a", False)
    assert rec.arg("late", 3) == 3
    assert list(iterator) == [1, 2]
    rec.flush()
    assert [r.name for r in the_run(project).records] == ["loss"]


def test_a_fact_that_comes_after_the_end_is_no_alarm(
    make: Callable[..., Recorder], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The keeper may be in the middle of its round when a run ends."""
    rec = make()
    rec.log("loss", 0.5, False)
    rec.end("finished")
    rec.fact("inputs", files={})
    rec.flush()
    assert not rec.trouble.lost and not rec.trouble.failing
    assert capsys.readouterr().err == ""
    read = the_run(project)
    assert read.values("loss") == [0.5] and read.how == "finished" and not read.fact("inputs")


def test_a_fact_that_waits_for_the_disk_is_no_lost_record(make: Callable[..., Recorder], project: Path, disk: FailingDisk) -> None:
    rec = make()
    rec.log("loss", 0.5, False)
    rec.fact("memory", peak_bytes=1)
    disk.problem = errno.EIO
    rec.flush()
    assert disk.failed
    disk.problem = None
    disk.clock += 2
    rec.end("finished")
    assert rec.trouble.lost == 0
    read = the_run(project)
    assert read.fact("memory") and read.fact("end")[0]["lost"] == 0


def test_log_inside_the_users_iterator(make: Callable[..., Recorder], project: Path) -> None:
    """What is logged while an item is fetched belongs to the iteration that it begins."""
    rec = make()

    def stream() -> Iterator[str]:
        for k in "abc":
            rec.log("fetched", k, False)
            yield k
        rec.log("done", 1, False)

    for k in loop(rec, "step", stream()):
        if k != "b":
            rec.log("used", k, False)
    rec.end("finished")
    read: Read = the_run(project)
    assert [(r.name, r.at, r.called) for r in read.records] == [
        ("fetched", "step0", ("a",)), ("used", "step0", ("a",)), ("fetched", "step1", ("b",)),
        ("fetched", "step2", ("c",)), ("used", "step2", ("c",)), ("done", "step3", (None,)),
    ]  # fmt: skip
    assert read.leaves == [("step", 3, "exhausted")]


def test_log_in_a_destructor_while_a_record_is_written(make: Callable[..., Recorder], project: Path) -> None:
    rec = make()

    class Last:
        def __del__(self) -> None:
            rec.log("gone", 1, False)

    def items() -> Iterator[Last]:
        for _ in range(3):
            yield Last()

    for item in loop(rec, "step", items()):
        del item
        rec.log("loss", 0.5, False)
    rec.end("finished")
    read = the_run(project)
    assert read.values("gone") == [1, 1, 1]
    assert read.values("loss") == [0.5] * 3
