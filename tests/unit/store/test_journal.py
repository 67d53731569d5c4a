"""The append-only file: parts, numbers, and what happens when a part cannot be opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rearview.errors import RecordingFailed
from rearview.store import frames, journal
from rearview.store.journal import JournalWriter, PartName

HELLO = frames.fact_body("hello", run="r1")


def bodies(path: Path) -> tuple[list[bytes], frames.Reading]:
    reading = frames.Reading()
    return [body for _, body in frames.walk(path.read_bytes(), reading)], reading


@pytest.mark.parametrize("writer", ["0", "0.2", "0.s1.s2", "supervisor", "12", "0x"])
def test_names_of_parts(writer: str) -> None:
    name = PartName(writer, 3, 12)
    assert PartName.parse(str(name)) == name


@pytest.mark.parametrize("name", ["run.json", "x.journal", "0-b1-1.journal", "0-a1-x.journal", "0-a1-1.journal.tmp", ".journal", "a-b-c"])
def test_other_names_are_no_parts(name: str) -> None:
    assert PartName.parse(name) is None


def test_parts_in_order(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "0")
    for part in range(12):
        writer.open_part(HELLO)
        writer.append([bytes((frames.FACT,)) + b"n"] * part)
    writer.close()
    (tmp_path / "run.json").write_text("{}")
    names = [name for name, _ in journal.parts_of(tmp_path)]
    assert [name.part for name in names] == list(range(1, 13))
    for k, (_, path) in enumerate(journal.parts_of(tmp_path)):
        found, reading = bodies(path)
        assert len(found) == 1 + k
        assert reading.closed
        assert not reading.damage
        assert not reading.torn_bytes


def test_two_writers_of_one_number_do_not_share_a_file(tmp_path: Path) -> None:
    one, two = JournalWriter(tmp_path, "0"), JournalWriter(tmp_path, "0")
    one.open_part(HELLO)
    two.open_part(HELLO)
    assert (one.writer, two.writer) == ("0", "0x")
    one.close()
    two.close()
    assert len(journal.parts_of(tmp_path)) == 2


@pytest.mark.parametrize("when", ["open", "write", "short"])
def test_a_part_that_cannot_be_begun_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    writer = JournalWriter(tmp_path, "0")
    real = os.write

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open" if when == "open" else "write", fail if when != "short" else lambda fd, data: real(fd, data[:5]))
        for _ in range(3):
            with pytest.raises((OSError, RecordingFailed)):
                writer.open_part(HELLO)
    assert list(tmp_path.iterdir()) == []
    writer.open_part(HELLO)
    assert writer.part == 1
    writer.close()


def test_a_short_write_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = JournalWriter(tmp_path, "0")
    writer.open_part(HELLO)
    writer.append([b"\x06one"])
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
        with pytest.raises(RecordingFailed, match="full"):
            writer.append([b"\x06two"])
    writer.append([b"\x06three"])
    writer.close()
    ((_, path),) = journal.parts_of(tmp_path)
    found, reading = bodies(path)
    assert found[1:] == [b"\x06one", b"\x06three"]
    assert reading.closed
    assert not reading.damage


def test_a_sync_handle_outlives_the_part(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "0")
    writer.open_part(HELLO)
    handle = writer.sync_handle()
    assert handle is not None
    assert writer.sync_handle() is None, "nothing new"
    writer.close()
    handle.sync()
    handle.close()


def test_a_reader_can_go_on_where_it_stopped(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "0")
    writer.open_part(HELLO)
    ((_, path),) = journal.parts_of(tmp_path)
    seen: list[bytes] = []
    at, expected = 0, 0
    for k in range(5):
        writer.append([b"\x06" + bytes([k, j]) for j in range(k)] or [b"\x06-"])
        reading = frames.Reading()
        new = list(frames.walk(path.read_bytes(), reading, at, expected))
        seen += [body for _, body in new]
        at, expected = reading.good_bytes, expected + len(new)
    writer.close()
    assert seen == bodies(path)[0]
