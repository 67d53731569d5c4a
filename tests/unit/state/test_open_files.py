"""Open files, closed ones, and what writes into them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import pathlib
import types
from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.state.take.functions import told_by
from rearview.testing.states import Kept, digests, roots
from tests.unit.state.round_trip import put, taken


def test_files_are_set_to_their_place(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("one\ntwo\nthree\n")
    with path.open() as file, path.open("rb") as raw, (tmp_path / "out.log").open("a") as out:
        assert file.readline() == "one\n"
        raw.read(5)
        out.write("x")
        captured = capture(roots(file=file, raw=raw, out=out))
        assert captured.missing == []
        assert (tmp_path / "out.log").read_text() == "x", "what was written is on the disk when the state is"
        kept = Kept(captured)
        assert file.readline() == "two\n"
        raw.read()
        back = put(kept, file=file, raw=raw, out=out)
        assert back["file"] is file
        assert file.readline() == "two\n"
        assert raw.tell() == 5


@pytest.mark.parametrize("mode", ["r", "a", "x", "w+", "rb", "ab", "xb", "rb+", "raw"])
def test_a_closed_file_is_made_anew_and_its_path_is_left_alone(tmp_path: pathlib.Path, mode: str) -> None:
    path = tmp_path / "data.txt"
    if not mode.startswith("x"):
        path.write_text("one\n")
    with io.FileIO(str(path)) if mode == "raw" else path.open(mode) as file:
        pass
    captured = capture(roots(f=file))
    path.unlink()
    back = put(Kept(captured))["f"]
    assert (type(back), back.name, back.mode, back.closed) == (type(file), file.name, file.mode, True)
    assert not path.exists()
    assert digests(capture(roots(f=back))) == digests(captured)


def test_a_file_that_was_closed_is_not_taken_for_an_open_one_or_one_of_another_mode(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "out").open("w") as file:
        pass
    kept = Kept(capture(roots(f=file)))
    with (tmp_path / "out").open("a") as other:
        assert put(kept, f=other)["f"].closed
    assert put(kept, f=other)["f"].mode == "w"
    assert put(kept, f=file)["f"] is file


def test_a_csv_writer_stays_and_goes_on_with_its_file(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "rows.csv", "w") as file:
        rows = csv.DictWriter(file, ["a"])
        kept = taken(rows=rows, plain=csv.writer(file))
        writer = rows.writer
        rows.fieldnames = ["b"]
        plan(kept.tree, roots(rows=rows), kept).apply()
    assert rows.writer is writer and rows.fieldnames == ["a"]


def test_a_file_of_another_name_stays_where_it_is_and_takes_what_is_written(tmp_path: pathlib.Path) -> None:
    """Names with the time in them are others each time: what holds such a file must not come back without one."""
    with open(tmp_path / "then", "w") as then, open(tmp_path / "now", "w") as now:
        then.write("abc")
        captured = capture(roots(log=types.SimpleNamespace(file=then, rows=3)))
        now.write("n")
        live = types.SimpleNamespace(file=now, rows=0)

        made = plan(captured.tree, roots(log=live), Kept(captured)).apply()["given", "log"]

        assert made is live
        assert (live.file is now, live.rows, now.tell()) == (True, 3, 1)


@pytest.mark.parametrize("library", [gzip, bz2, lzma], ids=lambda library: library.__name__)
def test_a_closed_text_over_a_compressed_file(tmp_path: pathlib.Path, library: Any) -> None:
    """It is no file that `open` makes: it has a name, and no mode."""
    path = tmp_path / "log"
    with library.open(path, "at") as file:
        file.write("one\n")
    content = path.read_bytes()
    kept = taken(held=file)
    with open(os.devnull) as other:
        for live in ({}, {"held": other}, {"held": file}):
            back = put(kept, **live)["held"]
            assert type(back) is io.TextIOWrapper and back.closed
            assert told_by(back, "name") == told_by(file, "name")
    assert path.read_bytes() == content
