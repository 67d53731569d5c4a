"""Objects that only write somewhere: handlers of logging, files of the program's own."""

from __future__ import annotations

import bz2
import io
import logging
import logging.handlers
import pathlib
from pathlib import Path

from tests.unit.state.round_trip import lacks, put, taken


class Collecting(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_handlers_of_logging_that_only_write_stay_and_nothing_is_said_to_be_lacking(tmp_path: pathlib.Path) -> None:
    file = logging.FileHandler(tmp_path / "train.log", delay=True)
    shown = logging.StreamHandler()
    kept = taken(file=file, shown=shown)
    file.setLevel(logging.ERROR)
    back = put(kept, file=file, shown=shown)
    assert (back["file"], back["shown"]) == (file, shown)
    assert file.level == logging.ERROR  # what the code before the loop says
    assert lacks(file=file, shown=shown, silent=logging.NullHandler()) == []


def test_handlers_that_hold_what_was_logged_are_lacking() -> None:
    text = logging.StreamHandler(io.StringIO())
    held = logging.handlers.MemoryHandler(10)
    assert lacks(text=text, held=held, own=Collecting()) == ["text", "held", "own"]
    held.close()


class Tee(io.TextIOBase):
    """Writes to several files."""

    def __init__(self, *files: io.StringIO) -> None:
        self.files = files


def test_files_that_are_their_attributes_are_made_anew(tmp_path: Path) -> None:
    """Classes of `io` are made by their bases in C; what is left of a closed file must not keep a run from going on."""
    with bz2.open(tmp_path / "a.bz2", "wb") as closed:
        closed.write(b"x")
    made = put(taken(tee=Tee(io.StringIO("a")), closed=closed))
    assert type(made["tee"]) is Tee
    assert made["tee"].files[0].getvalue() == "a"
    assert type(made["closed"]) is bz2.BZ2File
    assert made["closed"].closed
