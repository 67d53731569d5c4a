"""A folder to record in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint is taken at each outer iteration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REARVIEW_DIR", str(tmp_path))
    monkeypatch.setenv("REARVIEW_EVERY", "1")
    monkeypatch.setenv("REARVIEW_QUIET", "1")
    return tmp_path
