"""What is said about checkpoints on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rearview as rv
from rearview.record.checkpoints import keeping


@pytest.fixture(autouse=True)
def _recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REARVIEW_DIR", str(tmp_path))
    monkeypatch.setenv("REARVIEW_QUIET", "1")


def test_what_is_large_and_nobody_named_is_said_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(keeping, "_LARGE", 4_000_000)
    given, taken = np.ones(500_000), np.ones(600_000)
    with rv.run(every=1), rv.checkpointing(given=given):
        for epoch in rv.loop("epoch", range(3)):
            taken[0] = given[0] = epoch
    said = [line for line in capsys.readouterr().err.splitlines() if "kept with each" in line]
    assert said == ["rearview: taken is kept with each checkpoint: 0.0 GB"]
