"""Output files at a checkpoint: lengths, buffers, content; and what becomes of them when a run is resumed."""

from __future__ import annotations

import io
import json
import logging.handlers
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import rearview  # noqa: F401  (its import watches files)
from rearview.record import firsts
from rearview.record.files import outputs, own, written
from rearview.record.resume import aside, undoing
from rearview.store import layout, objects
from rearview.store.layout import Store


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "files", {})
    monkeypatch.setattr(written, "removed", {})
    monkeypatch.setattr(written, "made", {})
    monkeypatch.setattr(written, "loop_begun", None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return layout.create(tmp_path / layout.FOLDER)


def rows(followed: outputs.Outputs, store: Store, mapped: Sequence[str] = ()) -> dict[str, list[Any]]:
    """The files of a checkpoint taken now, as a manifest has them."""
    noted = followed.note(followed.at_boundary(mapped), lambda data: objects.put(store, data))
    return {row[0]: row for row in json.loads(json.dumps(noted))}


def follow(store: Store) -> outputs.Outputs:
    return outputs.Outputs(store.project, store.root)


Plans = dict[str, aside.Plan]


def survey(store: Store, noted: dict[str, list[Any]], later: Any = (), removed: Any = (), ended: float | None = None) -> Plans:
    plans = aside.survey(store, store.project, noted.values(), later, removed, ended)
    return {plan.path: plan for plan in plans}


def resume(store: Store, plans: Plans, before_loop: Any = lambda: None) -> list[str]:
    """Set aside, run the code before the loop, bring back."""
    folder = store.root / "aside"
    files = aside.set_aside(store, list(plans.values()), folder)
    before_loop()
    return aside.bring_back(folder, json.loads(json.dumps(files)))


# -- noting --------------------------------------------------------------------------------------------------------------


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


# -- bringing back -------------------------------------------------------------------------------------------------------


def test_rows_after_the_checkpoint_are_cut_and_an_emptied_file_continues(store: Store) -> None:
    path = store.project / "log.csv"
    path.write_text("epoch,loss\n0,1\n")
    noted = rows(follow(store), store)
    with open(path, "a") as more:
        more.write("1,0.5\n")
    plans = survey(store, noted)
    assert plans["log.csv"].what == aside.CUT
    live = []

    def before_loop() -> None:
        live.append(open(path, "w"))  # noqa: SIM115
        live[0].write("epoch,loss\n")

    inode = path.stat().st_ino
    assert resume(store, plans, before_loop) == []
    live[0].write("1,0.25\n")
    live[0].close()
    assert path.read_text() == "epoch,loss\n0,1\n1,0.25\n"
    assert path.stat().st_ino == inode
    assert (store.root / "aside" / "00000").read_text() == "epoch,loss\n0,1\n1,0.5\n", "what was there is kept"


def test_a_file_that_is_opened_under_another_name_is_said(store: Store) -> None:
    """A folder named by the time: the code before the loop opens another file, and rows would go there in silence."""
    followed = follow(store)
    with open(store.project / "at-1.csv", "w") as file:
        followed.loop_begins()
        file.write("1\n")
        noted = rows(followed, store)
    with open(store.project / "at-2.csv", "w"):
        said = resume(store, survey(store, noted))
    assert len(said) == 1
    assert said[0].startswith("at-1.csv was open at the checkpoint and is not now")


def test_an_appending_handle_of_the_code_before_the_loop(store: Store) -> None:
    path = store.project / "log.txt"
    path.write_text("begin\nstep 0\n")
    noted = rows(follow(store), store)
    path.write_text("begin\nstep 0\nstep 1\n")
    live = []

    def before_loop() -> None:
        live.append(open(path, "a"))  # noqa: SIM115
        live[0].write("begin\n")  # stays in the buffer: it must not come out later

    resume(store, survey(store, noted), before_loop)
    live[0].write("step 1\n")
    live[0].close()
    assert path.read_text() == "begin\nstep 0\nstep 1\n"


def test_a_file_written_anew_gets_its_content_back(store: Store) -> None:
    path = store.project / "best.json"
    path.write_text("at the checkpoint")
    noted = rows(follow(store), store)
    path.write_text("later, and longer than it was")
    plans = survey(store, noted)
    assert plans["best.json"].what == aside.PUT_BACK
    resume(store, plans)
    assert path.read_text() == "at the checkpoint"


def test_a_deleted_file_is_made_again(store: Store) -> None:
    path = store.project / "out" / "table.txt"
    path.parent.mkdir()
    path.write_text("rows")
    noted = rows(follow(store), store)
    shutil.rmtree(path.parent)
    plans = survey(store, noted)
    assert plans["out/table.txt"].what == aside.MADE
    resume(store, plans)
    assert path.read_text() == "rows"


def test_the_code_before_the_loop_deletes_the_folder(store: Store) -> None:
    path = store.project / "out" / "large.bin"
    path.parent.mkdir()
    content = os.urandom(outputs.SMALL_BYTES + 10)
    path.write_bytes(content)
    noted = rows(follow(store), store)
    assert noted["out/large.bin"][3] is None
    plans = survey(store, noted, removed=["out"])
    assert plans["out/large.bin"].what == aside.SAME
    assert plans["out/large.bin"].is_emptied()
    resume(store, plans, lambda: shutil.rmtree(path.parent))
    assert path.read_bytes() == content


def test_a_large_file_written_anew_cannot_be_brought_back_and_stays(store: Store) -> None:
    path = store.project / "last.pt"
    path.write_bytes(os.urandom(outputs.SMALL_BYTES + 1))
    noted = rows(follow(store), store)
    now = os.urandom(outputs.SMALL_BYTES + 1)
    path.write_bytes(now)
    plans = survey(store, noted)
    assert plans["last.pt"].what == aside.LOST
    assert "not kept" in aside.in_words(plans["last.pt"])
    resume(store, plans)
    assert path.read_bytes() == now


def test_an_equal_end_does_not_prove_a_large_file_that_was_written_anew(store: Store) -> None:
    path, end = store.project / "best.bin", b"z" * outputs.TAIL_BYTES
    with open(path, "wb") as file:
        file.truncate(20 << 20)  # too large for its content to be kept
        file.seek(0, os.SEEK_END)
        file.write(b"old" + end)
    noted = rows(follow(store), store)
    size = path.stat().st_size
    with open(path, "wb") as file:
        file.write(b"another beginning")
        file.seek(size - len(end))
        file.write(end)
    assert path.stat().st_size == size and noted["best.bin"][3] is None
    assert survey(store, noted)["best.bin"].what == aside.LOST


@pytest.mark.parametrize(("size", "what"), [(4096, aside.PUT_BACK), (outputs.SMALL_BYTES, aside.PUT_BACK), (4 << 20, aside.LOST)])
def test_what_is_written_through_memory_is_never_taken_for_unchanged(store: Store, size: int, what: str) -> None:
    path, followed = store.project / "buffer.bin", follow(store)
    path.write_bytes(bytes(size))
    facts = path.stat()
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), size) as memory:
        file.close()
        memory[7] = 1
        rows(followed, store, [str(path)])
        memory[7] = 2
        noted = rows(followed, store, [str(path)])
        memory[7] = 3
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # as a system may that has not written it to the disk
    plans = survey(store, noted)
    assert plans["buffer.bin"].what == what
    resume(store, plans)
    assert path.read_bytes()[7] == (2 if what == aside.PUT_BACK else 3)


def test_a_large_file_that_grew_is_cut_by_its_tail(store: Store) -> None:
    path = store.project / "big.log"
    content = os.urandom(outputs.SMALL_BYTES + 100)
    path.write_bytes(content)
    noted = rows(follow(store), store)
    with open(path, "ab") as file:
        file.write(b"more")
    assert survey(store, noted)["big.log"].what == aside.CUT
    resume(store, survey(store, noted))
    assert path.read_bytes() == content


def test_what_was_begun_after_the_checkpoint_begins_anew(store: Store) -> None:
    (store.project / "new.csv").write_text("rows of the attempt that was killed")
    (store.project / "shared.csv").write_text("older\nrows of the attempt that was killed")
    plans = survey(store, {}, later=[["new.csv", "a", None], ["shared.csv", "a", 6], ["never.csv", "w", None]])
    assert {path: plan.what for path, plan in plans.items()} == {"new.csv": aside.BEGUN, "shared.csv": aside.CUT}
    resume(store, plans)
    assert not (store.project / "new.csv").exists()
    assert (store.project / "shared.csv").read_text() == "older\n"
    assert (store.root / "aside" / "00000").read_text() == "rows of the attempt that was killed"


def test_somebody_elses_change_is_left_alone(store: Store) -> None:
    path = store.project / "results.csv"
    path.write_text("mine\n")
    noted = rows(follow(store), store)
    path.write_text("mine\nof another run, later\n")
    plans = survey(store, noted, ended=time.time() - 3600)
    assert plans["results.csv"].what == aside.LEFT
    resume(store, plans)
    assert path.read_text() == "mine\nof another run, later\n"


def test_each_process_brings_back_its_own(store: Store) -> None:
    for name in ("mine", "theirs"):
        (store.project / name).write_text("1")
    noted = rows(follow(store), store)
    for name in ("mine", "theirs"):
        (store.project / name).write_text("1 and more")
    plans = survey(store, {path: [*row, str(int(path == "theirs"))] for path, row in noted.items()})
    files = aside.set_aside(store, list(plans.values()), store.root / "aside")
    aside.bring_back(store.root / "aside", files, "0")
    assert [(store.project / name).read_text() for name in ("mine", "theirs")] == ["1", "1 and more"]


def test_reading_a_file_from_the_future_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.project / "ckpt.txt"
    path.write_text("of the attempt that was killed")
    monkeypatch.setattr(firsts, "opened", {})  # the resumed program is another process
    plans = survey(store, {}, later=[["ckpt.txt", "w", None]])
    said = resume(store, plans, lambda: path.read_text())
    assert len(said) == 1
    assert "ckpt.txt" in said[0]


def test_setting_aside_changes_nothing(store: Store) -> None:
    path = store.project / "log.csv"
    path.write_text("1\n")
    noted = rows(follow(store), store)
    with open(path, "a") as more:
        more.write("2\n")
    before = path.stat()
    aside.set_aside(store, list(survey(store, noted).values()), store.root / "aside")
    assert (path.read_text(), path.stat().st_mtime_ns) == ("1\n2\n", before.st_mtime_ns)


def test_a_file_that_is_open_through_a_link(store: Store) -> None:
    followed = follow(store)
    link, file = store.project / "latest.txt", store.project / "real.txt"
    link.symlink_to("real.txt")
    with open(link, "w") as handle:
        rows(followed, store)
        handle.write("epoch 0\n")
        noted = rows(followed, store)
        handle.write("epoch 1\n")
    assert noted["latest.txt"][1] == 8
    plans = survey(store, noted)
    assert plans["latest.txt"].what == aside.CUT
    live = []
    assert resume(store, plans, lambda: live.append(open(link, "w"))) == []  # noqa: SIM115
    live[0].write("epoch 1\n")
    live[0].close()
    assert link.is_symlink()
    assert file.read_text() == "epoch 0\nepoch 1\n"


def test_two_names_of_one_file(store: Store) -> None:
    """Opened by one name, written through the other: both are noted as the file is."""
    followed = follow(store)
    (store.project / "real.txt").write_text("begin\n")
    (store.project / "link.txt").symlink_to("real.txt")
    rows(followed, store)
    with open(store.project / "link.txt", "a") as handle:
        handle.write("epoch 0\n")
        assert {path: row[1] for path, row in rows(followed, store).items()} == {"real.txt": 14, "link.txt": 14}
        handle.write("epoch 1\n")
    noted = rows(followed, store)
    assert {path: row[1] for path, row in noted.items()} == {"real.txt": 22, "link.txt": 22}
    (store.project / "real.txt").write_text("another")
    resume(store, survey(store, noted))
    assert (store.project / "real.txt").read_text() == "begin\nepoch 0\nepoch 1\n"
    os.remove(store.project / "real.txt")
    assert rows(followed, store) == {}


def test_a_link_that_leads_elsewhere_later(store: Store) -> None:
    followed, link = follow(store), store.project / "latest.txt"
    for epoch in range(2):
        link.unlink(missing_ok=True)
        link.symlink_to(f"epoch-{epoch}.txt")
        with open(link, "w") as handle:
            handle.write(f"{epoch}" * (epoch + 1))
            assert rows(followed, store)["latest.txt"][1] == epoch + 1


def test_what_was_begun_through_a_link_begins_anew_through_it(store: Store) -> None:
    link = store.project / "log.txt"
    link.symlink_to("elsewhere.txt")
    link.write_text("rows of the attempt that was killed")
    resume(store, survey(store, {}, later=[["log.txt", "a", None]]))
    assert link.is_symlink()
    assert not (store.project / "elsewhere.txt").exists()


def test_a_large_file_behind_a_link_is_set_aside(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_LARGE_BYTES", 10)
    followed = follow(store)
    (store.project / "link.bin").symlink_to("real.bin")
    followed.loop_begins()
    (store.project / "link.bin").write_bytes(b"x" * 100)
    resume(store, survey(store, rows(followed, store)))
    assert (store.root / "aside" / "00000").read_bytes() == b"x" * 100


@pytest.mark.torch
def test_a_file_that_several_attempts_left_is_named_once(store: Store) -> None:
    (store.project / "a.log").write_text("now")
    plan = aside.Plan("a.log", aside.CUT, 3, 3, full=str(store.project / "a.log"), aside="00000")
    left = []
    for name, content in (("a3", "later"), ("a2", "first")):
        (store.root / name).mkdir()
        (store.root / name / "00000").write_text(content)
        left.append(undoing.Left(plan, store.root / name))
    assert undoing.put_back(left) == ["as before that attempt again, from copies: a.log"]
    assert (store.project / "a.log").read_text() == "first"


def test_torch_save_is_seen(store: Store) -> None:
    torch = pytest.importorskip("torch")
    followed = follow(store)
    followed.loop_begins()
    torch.save({"a": torch.zeros(3)}, store.project / "net.pt")
    followed.loop_begins()  # watching twice is watching once
    noted = rows(followed, store)
    assert noted["net.pt"][1] == (store.project / "net.pt").stat().st_size
