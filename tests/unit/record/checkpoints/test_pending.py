"""A checkpoint that comes due while an earlier one is still being written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rearview as rv
from rearview.record.checkpoints.cadence import AdaptivePeriod
from rearview.record.checkpoints.materialize import Materializer
from rearview.store import manifests
from rearview.store.layout import Store

HELD_S = 0.3


class Gate:
    """The first write stops here until it is let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.came, self.opened = threading.Event(), threading.Event()
        real = Materializer._write

        def write(materializer: Materializer, job: Any) -> Any:
            self.came.set()
            assert self.opened.wait(30)
            return real(materializer, job)

        monkeypatch.setattr(Materializer, "_write", write)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REARVIEW_DIR", str(tmp_path))
    monkeypatch.setenv("REARVIEW_QUIET", "1")
    one = Gate(monkeypatch)
    yield one
    one.opened.set()


def stalls(folder: Path, run: Any) -> dict[int, float]:
    """How long the program was held at the end of each epoch that was kept."""
    store = Store(folder / ".rearview")
    kept = [manifests.read(store, name) for name in manifests.list_of(store, run.id)]
    return {one.path[0][2]: one.stats["stall_s"] for one in kept}


def test_it_is_skipped(tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdaptivePeriod, "inside_due", lambda *_: True)  # always worth it
    total = 0
    with rv.run() as run, rv.checkpointing():
        for epoch in rv.loop("epoch", range(4)):
            total += epoch
            if epoch == 2:
                assert gate.came.wait(30)
        gate.opened.set()
    assert list(stalls(tmp_path, run)) == [0]


def test_under_every_it_waits_and_the_wait_is_stall(tmp_path: Path, gate: Gate) -> None:
    total = 0
    with rv.run(every=1) as run, rv.checkpointing():
        for epoch in rv.loop("epoch", range(3)):
            total += epoch
            if epoch == 1:
                threading.Timer(HELD_S, gate.opened.set).start()
    found = stalls(tmp_path, run)
    assert sorted(found) == [0, 1, 2]
    assert found[1] >= HELD_S * 0.5 > found[0]
