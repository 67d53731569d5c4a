"""Inputs noted while recording, and compared before a replay."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rearview  # noqa: F401  (its import watches files)
from rearview.model import RunId
from rearview.record import firsts
from rearview.record.files import input_hashes, inputs, written
from rearview.record.resume.past import Past
from rearview.replay.inputs import compare
from rearview.store import layout, objects
from rearview.store.layout import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    made = layout.create(tmp_path / "project" / ".rearview")
    for module, name in ((firsts, "opened"), (firsts, "listed"), (written, "files"), (written, "made"), (written, "removed")):
        monkeypatch.setattr(module, name, {})
    monkeypatch.setattr(inputs, "seen_by_the_system", lambda: None)
    return made


def forget() -> None:
    """What the test itself did is not the program's doing."""
    for seen in (firsts.opened, firsts.listed, written.files, written.made):
        seen.clear()


def elsewhere(act: Callable[[], Any]) -> Any:
    """On another thread, as the keeper does: on the program's own nothing is hashed."""
    result: list[Any] = []

    def work() -> None:
        with firsts.unseen():
            result.append(act())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result[0]


def note(store: Store, kept: inputs.Inputs, **options: Any) -> dict[str, Any]:
    return elsewhere(lambda: kept.fresh(str(store.project), store, **options)) or {}


def past_of(*facts: dict[str, Any], **more: Any) -> Past:
    past = Past(RunId("r1"), {}, "finished", 1, None, **more)
    for fact in facts:
        past.inputs += fact.get("files", [])
        past.folders += fact.get("folders", [])
    return past


def read(path: Path) -> None:
    with open(path, "rb") as file:
        file.read()


def test_a_file_is_noted_with_its_hash(store: Store) -> None:
    data = store.project / "data.csv"
    data.write_bytes(b"1,2\n")
    forget()
    read(data)
    kept = inputs.Inputs()
    facts = note(store, kept)
    stat = data.stat()
    assert facts["files"] == [["data.csv", "r", 4, stat.st_mtime_ns, stat.st_ino, objects.key_of(b"1,2\n")]]
    assert note(store, kept) == {}


def test_nothing_is_hashed_while_the_program_waits(store: Store) -> None:
    (store.project / "data.csv").write_bytes(b"1,2\n")
    forget()
    read(store.project / "data.csv")
    kept = inputs.Inputs()
    first = kept.fresh(str(store.project), store)
    assert first is not None and len(first["files"][0]) == 5
    (row,) = note(store, kept)["files"]
    assert row[:5] == first["files"][0] and row[5] == objects.key_of(b"1,2\n")


def test_what_the_run_writes_is_not_hashed(store: Store) -> None:
    with open(store.project / "out.csv", "w") as file:
        file.write("x")
    (row,) = note(store, inputs.Inputs())["files"]
    assert row[:2] == ["out.csv", "w"] and len(row) == 5


def test_a_large_file_is_hashed_in_pieces_and_remembered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(5 << 20)
    big = store.project / "big.bin"
    big.write_bytes(content)
    os.utime(big, (1_000_000_000, 1_000_000_000))
    forget()
    read(big)
    kept = inputs.Inputs()
    spent = iter([False, True] * 100)
    monkeypatch.setattr(inputs.Budget, "is_spent", lambda self: next(spent))
    rows = [row for _ in range(8) for row in note(store, kept).get("files", [])]
    assert [len(row) for row in rows] == [5, 6] and rows[1][5] == objects.key_of(content)
    monkeypatch.setattr(inputs.Budget, "is_spent", lambda self: False)
    note(store, kept, at_end=True, elapsed_s=100.0)
    assert list(json.loads((store.root / "cache" / "inputs.json").read_bytes())) == [str(big)]
    monkeypatch.setattr(input_hashes.Hashing, "go_on", lambda self: self.was_kept or pytest.fail("read again"))
    (row,) = note(store, inputs.Inputs())["files"]
    assert row[5] == objects.key_of(content)


def test_a_file_that_changes_while_it_is_hashed_has_no_hash(store: Store) -> None:
    big = store.project / "big.bin"
    big.write_bytes(bytes(3 << 20))
    hashing = input_hashes.Cache().begin(str(big), store)
    assert hashing is not None and not hashing.go_on()
    big.write_bytes(bytes(4 << 20))
    assert hashing.go_on() and hashing.key is None


def test_folders_are_noted_without_what_the_run_puts_there(store: Store) -> None:
    for name in ("a", "b"):
        (store.project / name).write_text(name)
    forget()
    os.listdir(store.project)
    list(os.scandir(store.project / ".rearview"))
    with open(store.project / "out.txt", "w") as file:
        file.write("x")
    (row,) = note(store, inputs.Inputs())["folders"]
    assert row[:2] == ["", 2] and row[2] == objects.key_of(b"a\0b")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_forked_children_tell_what_they_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (store.project / "image.png").write_bytes(b"png")
    forget()
    monkeypatch.setattr(firsts, "tell", None)
    for name, value in (("_pipe", None), ("_runs", 0)):
        monkeypatch.setattr(inputs, name, value)
    inputs.listen()
    child = os.fork()
    if child == 0:
        read(store.project / "image.png")
        os._exit(0)
    os.waitpid(child, 0)
    assert str(store.project / "image.png") not in firsts.opened
    inputs.receive()
    assert firsts.opened[str(store.project / "image.png")] == "r"
    held = len(os.listdir("/proc/self/fd"))
    inputs.hang_up()
    assert len(os.listdir("/proc/self/fd")) == held - 2


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_what_native_code_holds_is_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    data = store.project / "held.bin"
    data.write_bytes(b"x")
    firsts.opened.pop(str(data), None)
    written.files.pop(str(data), None)
    with firsts.unseen():
        held = os.open(data, os.O_RDONLY)
    try:
        elsewhere(inputs.seen_by_the_system)
        assert firsts.opened.pop(str(data)) == "r"
    finally:
        os.close(held)


# -- compared -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(store: Store) -> tuple[Path, dict[str, Any]]:
    """A run that read a few files and listed a folder."""
    project = store.project
    (project / "images").mkdir()
    for name in ("data.csv", "labels.csv", "images/1.png", "images/2.png"):
        (project / name).write_text(name)
    forget()
    for name in ("data.csv", "labels.csv"):
        read(project / name)
    with pytest.raises(FileNotFoundError):
        read(project / "weights.pt")
    os.listdir(project / "images")
    return project, note(store, inputs.Inputs())


def told(past: Past, project: Path, **options: Any) -> list[tuple[str, str, str]]:
    return [(one.path, one.what, one.compared_by) for one in compare(past, project, **options).changes]


def test_unchanged_inputs_are_counted_by_what_was_compared(recorded: tuple[Path, dict[str, Any]]) -> None:
    project, facts = recorded
    found = compare(past_of(facts), project)
    assert found.changes == [] and found.by == {"size and time": 3, "names": 1}
    assert found.sentence() == "4 inputs unchanged (3 by size and time, 1 by names)"
    assert compare(past_of(facts), project, thorough=True).by == {"content": 2, "size and time": 1, "names": 1}


def test_a_touched_file_is_the_same_if_its_content_is(recorded: tuple[Path, dict[str, Any]]) -> None:
    project, facts = recorded
    os.utime(project / "data.csv", (1, 1))
    assert told(past_of(facts), project) == []
    without = {"files": [row[:5] for row in facts["files"]]}
    assert told(past_of(without), project) == [("data.csv", "changed", "size and time")]


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda project: (project / "data.csv").write_text("longer than before"), ("data.csv", "changed", "size and time")),
        (lambda project: (project / "data.csv").write_text("DATA.csv"), ("data.csv", "changed", "content")),
        (lambda project: (project / "data.csv").unlink(), ("data.csv", "gone", "size and time")),
        (lambda project: (project / "weights.pt").write_text("new"), ("weights.pt", "appeared", "size and time")),
        (lambda project: (project / "images" / "3.png").write_text("new"), ("images", "changed", "names")),
        (lambda project: (project / "images" / "1.png").rename(project / "images" / "0.png"), ("images", "changed", "names")),
    ],
)
def test_a_changed_input_is_named(
    recorded: tuple[Path, dict[str, Any]], act: Callable[[Path], object], expected: tuple[str, str, str]
) -> None:
    project, facts = recorded
    act(project)
    found = compare(past_of(facts), project).changes
    assert [(one.path, one.what, one.compared_by) for one in found] == [expected]
    assert expected[0] in found[0].sentence


def test_source_and_outputs_are_no_inputs(recorded: tuple[Path, dict[str, Any]]) -> None:
    project, facts = recorded
    files = [["train.py", "r", 1, 1, 1], ["config.yaml", "r", 1, 1, 1], ["log.csv", "r", 1, 1, 1], ["log.csv", "w", 1, 1, 1]]
    past = past_of(facts, {"files": files}, opened=[["labels.csv", "a", 3, "0"], ["images/9.png", "w", None, "0"]])
    (project / "images" / "9.png").write_text("by the run")
    (project / "labels.csv").unlink()
    assert told(past, project, sources={"config.yaml"}) == []
