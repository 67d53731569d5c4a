"""Files that commands write: nothing else of the user's is overwritten, and a path that cannot be written is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rearview.cli import main
from rearview.testing.stores import StoreBuilder

WRITERS = {".parquet": ["df", "x", "--parquet"], ".png": ["plot", "x", "-o"], ".svg": ["plot", "x", "-o"], ".html": ["plot", "x", "-o"]}
BEGINS = {".parquet": b"PAR1", ".png": b"\x89PNG", ".svg": b"<?xml", ".html": b"<!doctype html>"}
kinds = pytest.mark.parametrize("kind", list(WRITERS))


@pytest.fixture
def recorded(project: Path) -> Path:
    """A project with one run and a script."""
    process = StoreBuilder(project).run().process()
    for k in process.loop("k", range(4)):
        process.log("x", k * 0.5)
    process.end()
    (project / "train.py").write_text("precious = 1\n")
    return project


def write(kind: str, path: Path | str) -> int:
    if kind != ".parquet":
        pytest.importorskip("matplotlib")
    return main.main([*WRITERS[kind], str(path)])


@kinds
def test_a_file_of_the_kind_is_written_and_overwritten(kind: str, recorded: Path) -> None:
    path = recorded / f"out{kind}"
    assert write(kind, path) == 0
    before = path.read_bytes()
    assert before.startswith(BEGINS[kind])
    assert write(kind, path) == 0
    path.write_bytes(b"")  # as mktemp leaves it
    assert write(kind, path) == 0
    assert path.read_bytes().startswith(BEGINS[kind])


@kinds
def test_any_other_file_stays(kind: str, recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = recorded / f"precious{kind}"
    path.write_bytes(b"precious = 1\n")
    assert write(kind, path) == 2
    said = capfd.readouterr().err
    assert f"precious{kind}" in said and "not overwritten" in said and "name another file" in said
    assert path.read_bytes() == b"precious = 1\n"


def test_a_script_is_never_a_parquet_file(recorded: Path) -> None:
    assert write(".parquet", "train.py") == 2
    assert (recorded / "train.py").read_text() == "precious = 1\n"


@kinds
def test_a_folder_that_is_missing_is_named(kind: str, recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert write(kind, recorded / "nodir" / f"x{kind}") == 2
    said = capfd.readouterr().err
    assert f"no folder {recorded / 'nodir'}" in said and ".rearview-" not in said


@kinds
def test_a_folder_or_a_pipe_is_no_file(kind: str, recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (recorded / f"folder{kind}").mkdir()
    os.mkfifo(recorded / f"pipe{kind}")
    for name in ("folder", "pipe"):
        assert write(kind, recorded / f"{name}{kind}") == 2
        assert "no ordinary file" in capfd.readouterr().err


@kinds
def test_a_file_that_cannot_be_written_is_named(
    kind: str, recorded: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rearview.catalog.tables.table import Table

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/somewhere/.rearview-temporary")

    monkeypatch.setattr(Table, "write_parquet", full)
    monkeypatch.setattr(Path, "write_bytes", full)
    path = recorded / f"x{kind}"
    before = sorted(recorded.iterdir())
    code = write(kind, path)
    assert code == 6
    assert capfd.readouterr().err == f"rearview: {path}: No space left on device\n"
    assert sorted(recorded.iterdir()) == before
