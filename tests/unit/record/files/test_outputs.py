"""Output files at a checkpoint: lengths, buffers, content."""

from __future__ import annotations

import io
import logging.handlers
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

import rearview  # noqa: F401  (its import watches files)
from rearview.record.files import outputs, own, written
from rearview.record.resume import aside
from rearview.store import layout, objects
from rearview.store.layout import Store
from tests.unit.record.files.noted import follow, resume, rows, survey


def test_modes_of_opening() -> None:
    assert [written.mode_of(None, flags) for flags in (os.O_RDONLY, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_APPEND, os.O_RDWR)] == [
        None, "w", "a", "+",
    ]  # fmt: skip
    assert written.mode_of(None, os.O_WRONLY | os.O_CREAT | os.O_EXCL) == "x"


def test_unwritten_buffers_belong_to_the_file_at_the_boundary(store: Store) -> None:
    with open(store.project / "log.csv", "w") as file:
        file.write("a,b\n")
        assert (store.project / "log.csv").stat().st_size == 0, "the buffer is what this test is about"
        noted = rows(follow(store), store)
    assert noted["log.csv"][1:3] == [4, "w"]
    assert objects.get(store, noted["log.csv"][3]) == b"a,b\n"
    assert noted["log.csv"][6] == 4, "where its handle stands"


def test_a_path_of_any_kind_is_seen(store: Store) -> None:
    class Somewhere:
        def __fspath__(self) -> bytes:
            return os.fsencode(store.project / "said")

    open(os.fsencode(store.project / "bytes"), "a").close()
    open(Somewhere(), "a").close()
    io.FileIO(store.project / "path", "w").close()
    os.close(os.open(os.fsencode(store.project / "descriptor"), os.O_CREAT | os.O_WRONLY))
    assert {name: row[2] for name, row in rows(follow(store), store).items()} == {
        "bytes": "a", "said": "a", "path": "w", "descriptor": "+",
    }  # fmt: skip


def test_a_handle_that_nobody_holds_by_name_is_found(store: Store) -> None:
    handler = logging.FileHandler(store.project / "train.log", mode="w")
    handler.stream.write("unflushed")
    try:
        assert rows(follow(store), store)["train.log"][1] == 9
    finally:
        handler.close()


def test_content_is_that_of_the_boundary_though_the_program_goes_on(store: Store) -> None:
    followed = follow(store)
    path = store.project / "metrics.json"
    path.write_text("one")
    marks = followed.at_boundary()
    path.write_text("two, longer")
    row = followed.note(marks, lambda data: objects.put(store, data))[0]
    assert objects.get(store, row[3]) == b"one"


def test_a_growing_file_is_not_kept_again_and_again(store: Store) -> None:
    followed, kept = follow(store), []

    def keep(data: bytes) -> str:
        kept.append(len(data))
        return objects.put(store, data)

    with open(store.project / "long.log", "ab") as file:
        for _ in range(5):
            file.write(os.urandom(100_000))
            row = followed.note(followed.at_boundary(), keep)[0]
    assert kept == [100_000]
    assert row[1] == 500_000
    assert row[3] is None
    assert row[5] is not None


def test_an_unchanged_file_keeps_its_row_and_its_content(store: Store) -> None:
    followed = follow(store)
    (store.project / "config.json").write_text("{}")
    first = rows(followed, store)["config.json"]
    assert rows(followed, store)["config.json"] == first
    assert first[3] is not None


def _rewrite(file: Any, text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


@pytest.mark.parametrize("content", ["one", "one" * outputs.TINY_BYTES], ids=["tiny", "larger"])
def test_a_file_that_is_written_anew_in_place(store: Store, content: str) -> None:
    """What is kept of it is what it had at the boundary, or nothing."""
    followed = follow(store)
    with open(store.project / "status.txt", "w") as file:
        _rewrite(file, content)
        marks = followed.at_boundary()
        _rewrite(file, "2" * len(content))
        row = followed.note(marks, lambda data: objects.put(store, data))[0]
    assert row[1] == len(content)
    assert row[5] == outputs.digest(content[-outputs.TAIL_BYTES :].encode())
    assert row[3] == (objects.key_of(b"one") if content == "one" else None)


def test_writing_anew_in_one_tick_of_the_clock_is_seen(store: Store) -> None:
    followed = follow(store)
    path = store.project / "status.txt"
    with open(path, "w") as file:
        for text in ("one", "two"):
            _rewrite(file, text)
            os.utime(path, ns=(0, now := time.time_ns() // 10**9 * 10**9 + 10**9))
            assert path.stat().st_mtime_ns == now
            assert objects.get(store, rows(followed, store)["status.txt"][3]) == text.encode()


def test_a_rotated_file(store: Store) -> None:
    followed = follow(store)
    handler = logging.handlers.RotatingFileHandler(store.project / "train.log", maxBytes=20, backupCount=1)
    try:
        for text in ("first line", "second line"):
            handler.emit(logging.LogRecord("a", 30, "a.py", 1, text, None, None))
        marks = followed.at_boundary()
        for text in ("third line", "fourth line"):
            handler.emit(logging.LogRecord("a", 30, "a.py", 1, text, None, None))
        noted = {row[0]: row for row in followed.note(marks, lambda data: objects.put(store, data))}
    finally:
        handler.close()
    assert {path: objects.get(store, row[3]) for path, row in noted.items()} == {
        "train.log": b"second line\n", "train.log.1": b"first line\n",
    }  # fmt: skip


def test_what_was_only_added_to_is_kept_though_it_is_read_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_ENDS_AT_BOUNDARY", 0)
    contents = []
    for mode in ("a", "w"):
        followed = follow(store)
        with open(store.project / f"{mode}.log", mode) as file:
            file.write("one")
            marks = followed.at_boundary()
            file.write("two")
            file.flush()
            row = next(row for row in followed.note(marks, lambda data: objects.put(store, data)) if row[0] == f"{mode}.log")
        contents.append(row[3] and objects.get(store, row[3]))
    assert contents == [b"one", None], "who can write anywhere may have"


def test_a_larger_file_written_anew_in_its_length_is_kept_again(store: Store) -> None:
    followed, size = follow(store), 2 * outputs.TINY_BYTES
    with open(store.project / "table.bin", "w+b") as file:
        for first in (b"1", b"2"):
            file.seek(0)
            file.write(first + bytes(size - 1))
            file.flush()
            os.utime(file.fileno(), ns=(0, 10**18 + int(first)))
            key = rows(followed, store)["table.bin"][3]
            assert objects.get(store, key)[:1] == first
            assert rows(followed, store)["table.bin"][3] == key, "and stays kept"


def test_what_the_program_had_deleted_is_not_made_again(store: Store) -> None:
    """Programs keep their newest few files and delete the others."""
    followed = follow(store)
    (store.project / "old").mkdir()
    for name in ("e0.pt", "e1.pt", "old/e0.pt"):
        (store.project / name).write_text(name)
    assert set(rows(followed, store)) == {"e0.pt", "e1.pt", "old/e0.pt"}
    os.remove(store.project / "e0.pt")
    shutil.rmtree(store.project / "old")
    noted = rows(followed, store)
    assert set(noted) == {"e1.pt"}
    assert set(survey(store, noted, later=[["e0.pt", "w", None], ["old/e0.pt", "w", None]])) == {"e1.pt"}


def test_what_is_not_the_runs_own_is_left_out(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    elsewhere = tmp_path / "home" / ".cache"
    elsewhere.mkdir(parents=True)
    project = tmp_path / "project"
    project.mkdir()
    inner = layout.create(project / layout.FOLDER)
    monkeypatch.chdir(project)
    for path in (elsewhere / "fonts.json", inner.root / "x", project / "out.txt", project / "gone.tmp"):
        path.write_text("x")
    (project / "gone.tmp").unlink()
    os.mkfifo(project / "pipe")
    written.opened(str(project / "pipe"), "w")
    assert list(rows(outputs.Outputs(project, inner.root), inner)) == ["out.txt"]


@pytest.fixture
def elsewhere(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, outside the project and the current folder."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr(written, "scratch", set())
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_what_is_held_open_among_temporary_files_is_an_output(store: Store, elsewhere: Path) -> None:
    followed = outputs.Outputs(Path.cwd(), store.root)
    (elsewhere / "cache.json").write_text("closed before the boundary")
    (elsewhere / "link.txt").symlink_to("real.txt")
    held = open(elsewhere / "link.txt", "w")  # noqa: SIM115
    held.write("epoch 0\n")
    with tempfile.NamedTemporaryFile() as scratch, tempfile.TemporaryDirectory() as folder, open(f"{folder}/a.txt", "w") as inner:
        scratch.write(b"x")
        inner.write("x")
        assert {path: row[1] for path, row in rows(followed, store).items()} == {str(elsewhere / "link.txt"): 8}
    held.write("epoch 1\n")
    held.close()
    assert rows(followed, store)[str(elsewhere / "link.txt")][1] == 16, "and stays one"


def test_what_is_not_followed_is_not_touched(store: Store, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(elsewhere.parent))
    (elsewhere.parent / ".cache").mkdir()
    cache, old, mine = elsewhere.parent / ".cache" / "weights.bin", elsewhere / "old.bin", Path("mine.csv").absolute()
    for path in (cache, old, mine):
        path.write_text("by the run")
    with tempfile.NamedTemporaryFile(delete=False) as scratch:
        scratch.write(b"x")
    fact = own.fresh({}, Path.cwd(), store.root)
    assert fact is not None
    opened = {row[0]: row[1:] for row in fact["files"] if Path(row[0]) != elsewhere}
    assert opened == {str(cache): ["w", None, True], str(old): ["w", None, True], "mine.csv": ["w", None]}
    found = aside.survey(store, Path.cwd(), [], [[*row[:3], "0", *row[3:]] for row in fact["files"]], [], None)
    plans = {plan.path: plan for plan in found}
    assert {path: plan.what for path, plan in plans.items()} == {str(cache): aside.APART, str(old): aside.APART, "mine.csv": aside.BEGUN}
    with open(old, "a") as live:
        assert resume(store, plans) == []
        live.write(", and more")
    assert (cache.read_text(), old.read_text(), mine.exists()) == ("by the run", "by the run, and more", False)
    assert len(list((store.root / "aside").glob("0*"))) == 1


def test_a_file_put_in_place_by_renaming_is_an_output(store: Store) -> None:
    temp = store.project / "best.json.tmp"
    temp.write_text("1")
    os.replace(temp, store.project / "best.json")
    assert list(rows(follow(store), store)) == ["best.json"]


def test_before_or_inside_the_loop(store: Store) -> None:
    followed = follow(store)
    (store.project / "early").write_text("x")
    followed.loop_begins()
    (store.project / "late").write_text("x")
    noted = rows(followed, store)
    assert (noted["early"][7], noted["late"][7]) == (True, False)


def test_failing_to_keep_is_no_failure(store: Store) -> None:
    (store.project / "a").write_text("x")

    def keep(_: bytes) -> str:
        raise OSError(28, "no space")

    followed = follow(store)
    assert followed.note(followed.at_boundary(), keep)[0][:4] == ["a", 1, "w", None]


def test_the_fact_says_each_file_once_with_its_size_before(store: Store) -> None:
    (store.project / "older.csv").write_bytes(b"12345")
    written.files.clear()
    written.removed.clear()
    written.made.clear()
    written.read_back.clear()
    with open(store.project / "older.csv", "a") as file:
        file.write("6")
    known: dict[str, int] = {}
    assert own.fresh(known, store.project, store.root) == {"files": [["older.csv", "a", 5]], "removed": []}
    assert own.fresh(known, store.project, store.root) is None
    shutil.rmtree(store.project / "nothing", ignore_errors=True)
    assert own.fresh(known, store.project, store.root) == {"files": [], "removed": ["nothing"]}
    follow(store).loop_begins()
    os.unlink(store.project / "older.csv")
    assert own.fresh(known, store.project, store.root) is None, "deleted by the loop, not before it"


@pytest.mark.torch
def test_torch_save_is_seen(store: Store) -> None:
    torch = pytest.importorskip("torch")
    followed = follow(store)
    followed.loop_begins()
    torch.save({"a": torch.zeros(3)}, store.project / "net.pt")
    followed.loop_begins()  # watching twice is watching once
    noted = rows(followed, store)
    assert noted["net.pt"][1] == (store.project / "net.pt").stat().st_size
