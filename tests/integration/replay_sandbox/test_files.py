"""The run's own output files in a sandbox: as before the run at first, as at the checkpoint at the restore point."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview.model import RunId
from rearview.record.files.outputs import digest
from rearview.record.resume import aside
from rearview.record.resume.past import Past
from rearview.replay.sandbox import files as sandbox_files
from rearview.replay.sandbox.entering import Protection
from rearview.store import objects
from tests.integration.replay_sandbox.shut_in import Tree, a_tree, shut_in, users

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")

WITHOUT = ["nothing", "overlay", "overlay landlock"]


@pytest.fixture(params=users())
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    with a_tree(request.param) as made:
        yield made


def row(path: str, then: bytes, mode: str, key: str | None = None, before_loop: bool = True) -> list[Any]:
    """As a manifest has it."""
    return [path, len(then), mode, key, 1, digest(then[-4096:]), None, before_loop, "0"]


def prepared(tree: Tree) -> tuple[Past, list[list[Any]]]:
    """A run that wrote a log, its best model, a file per epoch in a folder that it made, and appended to an older file."""
    project = tree.project
    (project / "out").mkdir()
    (project / "log.csv").write_text("epoch\n0\n1\n2\n")
    (project / "best.pt").write_bytes(b"the last best")
    (project / "out" / "epoch2.txt").write_text("2")
    (project / "older.txt").write_text("before|during")
    (project / "state.bin").write_bytes(b"now")
    (project / "large.pt").write_bytes(b"of a later epoch")
    opened = [
        ["log.csv", "w", None, "0"], ["best.pt", "w", None, "0"], ["older.txt", "a", 6, "0"],
        ["gone.txt", "w", None, "0"], ["state.bin", "+", 3, "0"], ["out/epoch2.txt", "w", None, "0"],
        ["large.pt", "w", None, "0"],
    ]  # fmt: skip
    past = Past(RunId("r1"), {}, "finished", 1, None, opened=opened, made=["out"])
    rows = [
        row("log.csv", b"epoch\n0\n1\n", "w"),
        row("best.pt", b"an earlier best", "w", objects.put(tree.store, b"an earlier best")),
        row("gone.txt", b"was here", "w", objects.put(tree.store, b"was here"), before_loop=False),
        row("older.txt", b"before|dur", "a"),
        row("state.bin", b"then", "+"),
        row("large.pt", b"of an earlier epoch", "w"),
    ]
    for folder, folders, files in os.walk(project):
        for name in (*folders, *files):
            os.lchown(os.path.join(folder, name), tree.uid, tree.uid)
    return past, rows


def text_of(folder: Path) -> dict[str, str]:
    names = ("large.pt", "log.csv", "best.pt", "gone.txt", "older.txt", "state.bin", "out/epoch2.txt")
    return {name: (folder / name).read_text() for name in names if (folder / name).is_file()}


@pytest.mark.parametrize("without", WITHOUT)
def test_before_the_run_then_at_the_checkpoint(tree: Tree, without: str) -> None:
    past, rows = prepared(tree)
    before = tree.seen()
    spec = tree.spec(*(Path(path) for path in sandbox_files.written(past, tree.project)))

    def work(found: Protection) -> object:
        out = sandbox_files.lay_out(tree.store, spec, found, past, rows)
        here = Path.cwd()
        assert text_of(here) == {"older.txt": "before", "state.bin": "now"}
        assert not (here / "out").exists()
        (here / "out").mkdir()
        with open("log.csv", "w") as log:  # what the program does before the loop
            log.write("epoch\n")
            log.flush()
            assert aside.bring_back(out.folder, out.files, "0") == []
            log.write("2\n")
        assert text_of(here) == {
            "log.csv": "epoch\n0\n1\n2\n", "best.pt": "an earlier best", "gone.txt": "was here", "older.txt": "before|dur",
            "state.bin": "now",
        }  # fmt: skip
        return [sentence.split()[0] for sentence in out.lost]

    assert shut_in(tree, spec, work, without=without) == str(["state.bin", "large.pt", "state.bin"])
    assert tree.seen() == before


def test_from_the_beginning(tree: Tree) -> None:
    past, _ = prepared(tree)
    before = tree.seen()
    spec = tree.spec(*(Path(path) for path in sandbox_files.written(past, tree.project)))

    def work(found: Protection) -> object:
        out = sandbox_files.lay_out(tree.store, spec, found, past, None)
        return out.files, sorted(text_of(Path.cwd()))

    assert shut_in(tree, spec, work) == str(([], ["older.txt", "state.bin"]))
    assert tree.seen() == before


def test_a_folder_that_was_removed_first_is_there(tree: Tree) -> None:
    past, _ = prepared(tree)
    past.removed = ["out"]
    spec = tree.spec(tree.project / "out")

    def work(found: Protection) -> object:
        sandbox_files.lay_out(tree.store, spec, found, past, None)
        return os.listdir("out")

    assert shut_in(tree, spec, work) == "[]"


def test_a_folder_with_files_of_others_stays(tree: Tree) -> None:
    past, _ = prepared(tree)
    (tree.project / "out" / "mine.txt").write_text("by hand")
    spec = tree.spec(tree.project / "out")

    def work(found: Protection) -> object:
        said = sandbox_files.lay_out(tree.store, spec, found, past, None).lost
        return os.listdir("out"), [sentence for sentence in said if "the folder out" in sentence] != []

    assert shut_in(tree, spec, work) == str((["mine.txt"], True))


def test_what_cannot_be_brought_back_is_known_beforehand(tree: Tree) -> None:
    past, rows = prepared(tree)
    before = tree.seen()
    assert sandbox_files.lost(tree.store, tree.project, past, rows) == [
        "state.bin had a content at the checkpoint (4 bytes) that was not kept: the program finds it as it is now",
        "large.pt had a content at the checkpoint (19 bytes) that was not kept: the program does not find it there",
    ]
    (sentence,) = sandbox_files.lost(tree.store, tree.project, past, None)
    assert sentence.startswith("state.bin was there before the run (3 bytes)")
    assert tree.seen() == before


@pytest.mark.parametrize("without", WITHOUT)
def test_files_that_a_skipped_block_wrote(tree: Tree, without: str) -> None:
    past, rows = prepared(tree)
    spec = tree.spec(*(Path(path) for path in sandbox_files.written(past, tree.project)))
    later = [row("log.csv", b"epoch\n0\n1\n2\n", "w"), *rows[1:2], *rows[3:]]  # a line more, and gone.txt deleted
    before = tree.seen()

    def work(found: Protection) -> object:
        out = sandbox_files.lay_out(tree.store, spec, found, past, rows)
        with open("log.csv", "w") as log:
            assert aside.bring_back(out.folder, out.files, "0") == []
            Path("best.pt").write_text("by the outer body")
            assert out.pass_over(rows, rows, "0") == [] and text_of(Path.cwd())["best.pt"] == "by the outer body"
            out.pass_over(rows, later, "0")
            found_now = text_of(Path.cwd())
            log.write("3\n")
        assert "gone.txt" not in found_now and found_now["best.pt"] == "by the outer body"
        assert found_now["log.csv"] == "epoch\n0\n1\n2\n" and text_of(Path.cwd())["log.csv"] == "epoch\n0\n1\n2\n3\n"
        out.pass_over(None, later, "0")
        return text_of(Path.cwd())["best.pt"]

    assert shut_in(tree, spec, work, without=without) == "an earlier best"
    assert tree.seen() == before
