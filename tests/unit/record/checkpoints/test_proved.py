"""Memory that nothing should have changed: proved where it lies, and void if it was changed, or is no longer there."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rearview as rv
from rearview.record.checkpoints import materialize, proofs
from rearview.record.checkpoints.changes import Changes
from rearview.state.capture import capture
from rearview.store import layout, manifests
from rearview.store.packs import names_of
from rearview.store.packs.chunks import CHUNK_BYTES

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LARGE = 3 * CHUNK_BYTES // 4
"""Floats: three chunks."""


@pytest.fixture(params=["hashed", "copied"])
def hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "copied":  # the library does not show how it hashes memory
        monkeypatch.setattr(proofs, "held_hash", lambda: None)


@pytest.mark.usefixtures("hashing")
def test_memory_holds_what_is_expected_of_it_until_it_does_not() -> None:
    memory = torch.rand(LARGE + 3)
    (buffer,) = capture({("given", "memory"): memory}).buffers
    names = names_of(buffer.memory())
    assert len(names) == 4
    assert proofs.holds(buffer, names)
    memory[-1] += 1
    assert not proofs.holds(buffer, names)
    memory[-1] -= 1
    assert not proofs.holds(buffer, names[::-1])


@pytest.mark.usefixtures("hashing")
@pytest.mark.parametrize("size", [0, 1000, 4 * LARGE])
def test_memory_that_was_freed_is_not_read(size: int) -> None:
    memory = torch.ones(4 * LARGE)
    (buffer,) = capture({("given", "memory"): memory}).buffers
    names = names_of(buffer.memory())
    memory.untyped_storage().resize_(0)  # given back to the system: reading it would end the process
    if size:
        memory.untyped_storage().resize_(size)
    assert not proofs.holds(buffer, names)


def test_what_is_on_another_device_is_copied() -> None:
    changes = Changes()
    buffer: Any = SimpleNamespace(nbytes=3 * CHUNK_BYTES, key="memory", version=1, constant_hint=True, address=4096)
    changes.kept(buffer, (b"a", b"b", b"c"))
    assert changes.expected(buffer) == (b"a", b"b", b"c")
    buffer.address = 0
    assert changes.expected(buffer) is None


def test_memory_that_is_freed_while_it_is_proved(recording: Path) -> None:
    """Weights that are offloaded between their uses: the states that rely on them are void, and the program goes on."""
    net: Any = torch.nn.Linear(4, 4)
    net.frozen = torch.nn.Parameter(torch.ones(20 * LARGE), requires_grad=False)
    storage = net.frozen.untyped_storage()
    size = storage.nbytes()
    with rv.run() as run, rv.checkpointing(net=net):
        for epoch in rv.loop("epoch", range(6)):
            for _ in rv.loop("step", range(3)):
                if epoch:
                    storage.resize_(0)
                    time.sleep(0.002)
                    storage.resize_(size)
                    net.frozen.data.fill_(1.0)
    state = rv.checkpoint(run.id)["net"]
    assert bool((state["frozen"] == 1.0).all())


def test_a_proof_is_of_what_was_expected_when_the_state_was_taken(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part learns of other bytes before the second is written, which expected those before them."""
    monkeypatch.setattr(materialize, "_FOLLOWS_S", 20.0)
    net: Any = torch.nn.Linear(4, 4)
    net.frozen = torch.nn.Parameter(torch.ones(LARGE), requires_grad=False)
    with rv.run() as run, rv.checkpointing(net=net):
        for epoch in rv.loop("epoch", range(4)):
            while len(list(recording.rglob("*-iteration.json"))) < min(epoch, 2):
                time.sleep(0.01)
            for step in rv.loop("step", range(2)):
                if epoch == 2 and step == 0:
                    net.alias = torch.nn.Parameter(net.frozen.data, requires_grad=False)  # the same memory, with a count of its own
                    net.alias.fill_(7.0)
            if epoch == 2:
                del net.alias
    assert float(rv.checkpoint(run.id, epoch=2)["net"]["frozen"][0]) == 7.0


@pytest.mark.parametrize("changed", [False, True])
def test_frozen_weights_are_proved_and_a_write_that_nobody_counts_is_found(changed: bool, watching: bool, recording: Path) -> None:
    net: Any = torch.nn.Linear(4, 4)
    net.frozen = torch.nn.Parameter(torch.ones(LARGE), requires_grad=False)
    with rv.run() as run, rv.checkpointing(net=net):
        for epoch in rv.loop("epoch", range(4)):
            for _ in rv.loop("step", range(2)):
                pass
            if changed and epoch == 2:
                net.frozen.data[LARGE // 2] = 7.0
            time.sleep(0.1)
    store = layout.open_store(recording / ".rearview")
    places = [(name.number, name.part) for name in manifests.list_of(store, run.id)]
    last = rv.checkpoint(run.id, epoch=3)["net"]["frozen"]
    assert float(last[LARGE // 2]) == (7.0 if changed else 1.0)
    if changed and not watching:
        assert len(places) < 8, "a part that expected it as it was is void"
    else:
        assert len(places) == 8
