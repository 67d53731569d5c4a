"""A folder to record in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rearview.record.checkpoints import pages


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint is taken at each outer iteration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REARVIEW_DIR", str(tmp_path))
    monkeypatch.setenv("REARVIEW_EVERY", "1")
    monkeypatch.setenv("REARVIEW_QUIET", "1")
    return tmp_path


@pytest.fixture(params=["by the kernel", "by bytes"])
def watching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """What was written is told by the kernel, or, where it does not watch, by comparing bytes."""
    if request.param == "by bytes":
        monkeypatch.setattr(pages, "here", lambda: None)
    elif (kernel := pages.here()) is None:
        pytest.skip("this kernel does not watch pages")
    else:
        kernel.close()
    return bool(request.param == "by the kernel")
