"""Whether a program, or a library that it has loaded, writes past torch's count, by their sources."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from rearview.record.checkpoints import uncounted
from rearview.record.checkpoints.uncounted import Uncounted
from rearview.state import scope

WRITES = "def bump(t):\n    t.detach().numpy()[0] = -5.0\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of libraries; nothing else is loaded."""
    monkeypatch.setattr(scope, "project_modules", lambda _: iter([]))
    monkeypatch.setattr(uncounted, "_HARMLESS", frozenset(name.partition(".")[0] for name in sys.modules))
    folder = tmp_path / "libraries"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def load(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.setitem(sys.modules, name, importlib.import_module(name))


def test_a_library_that_writes(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = Uncounted(tmp_path / "project")
    load(library, "harmless_one", "def show(t):\n    return t.numpy().sum()  # of torch\n", monkeypatch)
    load(library, "of_arrays_only", "class A:\n    def __setitem__(self, k, v):\n        self.data[k] = v\n", monkeypatch)
    assert not known.is_there()
    load(library, "writes_past_it", WRITES, monkeypatch)
    assert known.is_there()


def test_more_than_is_looked_into(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(uncounted, "_MOST", 40)
    load(library, "a_large_one", "def show(t):\n    return t.numpy().sum()  # of torch\n", monkeypatch)
    assert Uncounted(tmp_path / "project").is_there()


def test_what_lies_in_the_project_is_no_library(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(library, "ours_here", WRITES, monkeypatch)
    assert not Uncounted(library).is_there(), "and is asked for as the project's"
