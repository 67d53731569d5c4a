"""What every test of output files begins with: a store, and no file seen so far."""

from __future__ import annotations

from pathlib import Path

import pytest

import rearview  # noqa: F401  (its import watches files)
from rearview.record.files import written
from rearview.store import layout
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
