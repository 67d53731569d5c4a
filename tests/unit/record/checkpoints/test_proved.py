"""Memory that nothing should have changed: proved where it lies, in one go where its digest is known, and void if it was changed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import rearview as rv
from rearview.record.checkpoints import jobs, materialize
from rearview.record.checkpoints.changes import Changes
from rearview.store import layout, manifests
from rearview.store.packs.chunks import CHUNK_BYTES

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LARGE = 3 * CHUNK_BYTES // 4
"""Floats: three chunks."""


class Buffer:
    nbytes, key, version, constant_hint = 3 * CHUNK_BYTES, "memory", 1, True


def test_the_digest_in_one_go_goes_with_the_chunks_that_it_is_of() -> None:
    changes, buffer = Changes(), Buffer()
    assert changes.whole(buffer) is None
    changes.kept(buffer, (b"a", b"b", b"c"), b"abc")
    assert changes.whole(buffer) == b"abc"
    changes.kept(buffer, (b"a", b"b", b"c"))
    assert changes.whole(buffer) == b"abc"
    changes.kept(buffer, (b"a", b"b", b"d"))
    assert changes.whole(buffer) is None


@pytest.mark.parametrize("changed", [False, True])
def test_frozen_weights_are_proved_and_a_write_that_nobody_counts_is_found(
    changed: bool, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net: Any = torch.nn.Linear(4, 4)
    net.frozen = torch.nn.Parameter(torch.ones(LARGE), requires_grad=False)
    sizes: list[int] = []
    real = materialize.digest
    for module in (materialize, jobs):
        monkeypatch.setattr(module, "digest", lambda view: sizes.append(len(view)) or real(view))
    with rv.run() as run, rv.checkpointing(net=net):
        for epoch in rv.loop("epoch", range(4)):
            for _ in rv.loop("step", range(2)):
                pass
            if changed and epoch == 2:
                net.frozen.data[LARGE // 2] = 7.0
            time.sleep(0.1)
    store = layout.open_store(recording / ".rearview")
    places = [(name.number, name.part) for name in manifests.list_of(store, run.id)]
    assert sizes.count(4 * LARGE) >= 3, "in one go: where it was copied, and at each proof"
    assert 4 * LARGE > CHUNK_BYTES and CHUNK_BYTES not in sizes
    last = rv.checkpoint(run.id, epoch=3)["net"]["frozen"]
    if not changed:
        assert len(places) == 8
        assert bool((last == 1.0).all())
    else:
        assert len(places) < 8, "a part that expected it as it was is void"
        assert float(last[LARGE // 2]) == 7.0
