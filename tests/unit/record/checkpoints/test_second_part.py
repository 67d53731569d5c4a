"""The end of an iteration after the end of its block: what changed in between is in it, whoever wrote it."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rearview as rv
from rearview.errors import NoCheckpoint
from rearview.record.checkpoints import materialize, pages, second, staging
from rearview.record.checkpoints.jobs import Job
from rearview.record.checkpoints.watched import Watched
from rearview.state import scope
from rearview.store import layout, manifests

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("watching")


def _until_written(folder: Path, blocks: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(folder.rglob("*-block.json"))) < blocks:
        assert time.monotonic() < deadline, "the first part was not written"
        time.sleep(0.01)


def test_an_array_that_had_not_changed_for_long(recording: Path) -> None:
    best = np.zeros(20_000)
    with rv.run() as run, rv.checkpointing(best=best):
        for epoch in rv.loop("epoch", range(5)):
            for _ in rv.loop("step", range(2)):
                pass
            _until_written(recording, epoch + 1)  # what was expected of the array was right then
            if epoch == 3:
                best[:] = 7.0
    state = rv.checkpoint(run.id, epoch=3)  # it was expected not to change, and did: the part that expected so is void
    assert bool((state["best"] == 7.0).all()) == (state.boundary == "iteration")
    assert (rv.checkpoint(run.id, epoch=4)["best"] == 7.0).all()


@pytest.mark.parametrize("late", [False, True])
def test_frozen_weights_that_are_written_to_after_they_were_proved(late: bool, recording: Path) -> None:
    """The end of the iteration was taken for what the end of its block was proved to be."""
    net: Any = torch.nn.Linear(4, 4)
    net.frozen = torch.nn.Parameter(torch.ones(300_000), requires_grad=False)
    with rv.run() as run, rv.checkpointing(net=net):
        for epoch in rv.loop("epoch", range(5)):
            for _ in rv.loop("step", range(2)):
                pass
            if late and epoch <= 3:
                _until_written(recording, epoch + 1)
            if epoch == 3:
                net.frozen.data[17] = 7.0
    seen = 0
    for epoch in range(2, 5):
        with contextlib.suppress(NoCheckpoint):  # a part that expected it as it was is void
            state = rv.checkpoint(run.id, epoch=epoch)
            is_after = epoch > 3 or (epoch == 3 and state.boundary == "iteration")
            assert float(state["net"]["frozen"][17]) == (7.0 if is_after else 1.0)
            seen += is_after
    assert seen


@pytest.mark.parametrize("by", ["hash", "copy", "no copy"])
@pytest.mark.parametrize("write", ["data", "numpy", "array"])
@pytest.mark.parametrize("size", [20_000, 300_000])
def test_a_write_that_torch_does_not_count(size: int, write: str, by: str, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if by == "copy":  # the library does not show how it hashes memory
        for module in (materialize, second):
            monkeypatch.setattr(module, "held_digest", lambda: None)
    elif by == "no copy":  # no memory: the first part was written from where it lies
        monkeypatch.setattr(materialize.Materializer, "_fits", staticmethod(lambda _: False))
    array = np.zeros(size, dtype=np.float32)
    weights: Any = torch.from_numpy(array) if write == "array" else torch.zeros(size)
    with rv.run() as run, rv.checkpointing(weights=weights):
        for epoch in rv.loop("epoch", range(3)):
            for _ in rv.loop("step", range(2)):
                weights += 1.0
            if write == "data":
                weights.data[17] = 100.0 + epoch
            elif write == "numpy":
                weights.numpy()[17] = 100.0 + epoch
            else:
                array[17] = 100.0 + epoch
    for epoch in range(3):
        state = rv.checkpoint(run.id, epoch=epoch)
        assert (state.boundary, float(state["weights"][17])) == ("iteration", 100.0 + epoch)


def test_a_counted_write_that_the_kernel_does_not_see(watching: bool, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a device, into memory that it may write to by itself: here it does not see any."""
    asked: list[int] = []

    def sees_none(watched: Watched, still: list[bool]) -> list[bool] | None:
        answer = unwritten(watched, still)
        asked.extend(answer or ())
        return None if answer is None else [True] * len(answer)

    unwritten = Watched.unwritten_copied
    monkeypatch.setattr(Watched, "unwritten_copied", sees_none)
    weights = torch.zeros(300_000)
    with rv.run() as run, rv.checkpointing(weights=weights):
        for epoch in rv.loop("epoch", range(3)):
            for _ in rv.loop("step", range(2)):
                weights += 1.0
            weights[17] = 100.0 + epoch
    assert asked == [False] * 3 * watching
    for epoch in range(3):
        state = rv.checkpoint(run.id, epoch=epoch)
        assert (state.boundary, float(state["weights"][17])) == ("iteration", 100.0 + epoch)


def test_a_write_that_torch_does_not_count_among_more_than_is_compared(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source of the program, this file, has such writes: nothing is left to samples."""
    monkeypatch.setattr(second, "LOOKED_AT", 0)
    monkeypatch.setattr(scope, "project_modules", lambda _: iter([("tests", sys.modules[__name__])]))
    codes = torch.nn.Embedding(30_000, 16)
    opt = torch.optim.Adam(codes.parameters())
    with rv.run() as run, rv.checkpointing(opt=opt, codes=codes):
        for epoch in rv.loop("epoch", range(3)):
            for _ in rv.loop("step", range(2)):
                codes(torch.tensor([1, 2])).sum().backward()
                opt.step()
            codes.weight.data[17, 3] = 100.0 + epoch
            opt.state[codes.weight]["exp_avg"].data[18, 5] = 200.0 + epoch
    for epoch in range(3):
        state = rv.checkpoint(run.id, epoch=epoch)
        assert state.boundary == "iteration"
        assert float(state["codes"]["weight"][17, 3]) == 100.0 + epoch
        assert float(state["opt"]["state"][0]["exp_avg"][18, 5]) == 200.0 + epoch


def test_a_write_that_torch_does_not_count_beside_what_optimizers_remember(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of a codebook, say, written anew at the end of an epoch: no sample of a page would have it."""
    monkeypatch.setattr(second, "LOOKED_AT", 4 << 20)  # of 7.7 MB
    codes, small = torch.nn.Embedding(30_000, 16), torch.zeros(20_000)
    opt = torch.optim.Adam(codes.parameters())
    with rv.run() as run, rv.checkpointing(opt=opt, codes=codes, small=small):  # the weights are met in the optimizer first
        for epoch in rv.loop("epoch", range(3)):
            for _ in rv.loop("step", range(2)):
                codes(torch.tensor([1, 2])).sum().backward()
                opt.step()
                small += 1.0
            codes.weight.data[17] = 100.0 + epoch
            codes.weight.grad.data[17] = 200.0 + epoch
            small.data[17] = 300.0 + epoch
    for epoch in range(3):
        state = rv.checkpoint(run.id, epoch=epoch)
        assert state.boundary == "iteration"
        assert (state["codes"]["weight"][17] == 100.0 + epoch).all()
        assert float(state["small"][17]) == 300.0 + epoch


def test_samples_are_for_what_optimizers_remember_before_anything_else(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "project_modules", lambda _: iter([]))  # what runs tests has no source: it may do anything
    monkeypatch.setattr(scope, "library_files", lambda *_: set())
    sampled: list[int] = []
    alike = staging.alike
    monkeypatch.setattr(staging, "alike", lambda buffer, copied: sampled.append(buffer.address) or alike(buffer, copied))

    def addresses(most: int) -> tuple[set[int], set[int]]:
        monkeypatch.setattr(second, "LOOKED_AT", most)
        sampled.clear()
        net: Any = torch.nn.Linear(600, 600)
        opt = torch.optim.Adam(net.parameters())
        with rv.run(), rv.checkpointing(opt=opt, net=net):
            for epoch in rv.loop("epoch", range(4)):
                for _ in rv.loop("step", range(2)):
                    net(torch.ones(600)).sum().backward()
                    opt.step()
                if epoch == 3:
                    opt.state[net.weight]["exp_avg"].data.zero_()
        mine = opt.state[net.weight]
        return set(sampled), {mine["exp_avg"].data_ptr(), mine["exp_avg_sq"].data_ptr()}

    found, remembered = addresses(2 * 600 * 600 * 4)  # the weights, and their gradients
    assert float(rv.checkpoint("last", epoch=3)["opt"]["state"][0]["exp_avg"].abs().sum()) == 0.0, "all of it was written"
    assert found == remembered
    assert addresses(64 << 20)[0] == set(), "so much is watched or compared whole, whoever has it"
    every, _ = addresses(0)
    assert len(every) > len(remembered), "the others as well, where there are too many"


def test_what_the_second_part_sees_of_memory_is_what_counts(recording: Path) -> None:
    """Another view of the same memory: what neither of them shows is no part of the state."""

    def run(hidden: float) -> list[Any]:
        part: Any = torch.full((50_000,), hidden)[:20]
        part.fill_(1.0)
        with rv.run() as run, rv.checkpointing():
            for _ in rv.loop("epoch", range(2)):
                part = part[:10]
                for _ in rv.loop("step", range(2)):
                    pass
                part = part.as_strided((20,), (1,))
        store = layout.open_store(recording / ".rearview")
        return [manifests.read(store, name).roots["local/0/part"][0] for name in manifests.list_of(store, run.id)]

    one, other = run(2.0), run(3.0)
    assert len(one) == 4
    assert one == other


@pytest.mark.parametrize("written", [False, True])
def test_what_is_seen_is_of_the_moment_of_the_second_part(written: bool, recording: Path) -> None:
    """Its memory of the first part was written over meanwhile, or is another by the time at which the second is written."""

    def run(noise: float, blocks: int) -> list[Any]:
        part: Any = torch.full((50_000,), 5.0)[:20]
        part.fill_(1.0)
        other = torch.zeros(60_000)
        with rv.run() as run, rv.checkpointing():
            for epoch in rv.loop("epoch", range(5)):
                if epoch == 4:
                    part.as_strided((20,), (1,)).fill_(noise)
                part = part[:10]
                for _ in rv.loop("step", range(2)):
                    pass
                if written:
                    _until_written(recording, blocks + epoch + 1)
                part = part.as_strided((20,), (1,))
                other.fill_(noise + epoch)
        store = layout.open_store(recording / ".rearview")
        names = [name for name in manifests.list_of(store, run.id) if name.number <= 4]
        return [(name.number, name.part, manifests.read(store, name).roots["local/0/part"][0]) for name in names]

    one = run(1.0, 0)
    other = run(2.0, len(list(recording.rglob("*-block.json"))))
    assert len(one) == 8
    assert set(other) <= set(one)


def test_memory_that_was_copied_is_the_programs_again(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After both parts nothing of ours keeps a tensor alive that the program has dropped; between them the first part does."""
    taken: list[Any] = []
    take = materialize.Materializer.take

    def noted(self: Any, manifest: Any, captured: Any, *args: Any, **more: Any) -> Any:
        job = take(self, manifest, captured, *args, **more)
        taken.append((manifest.part, [buffer.owner is None for buffer in captured.buffers if not buffer.private]))
        return job

    monkeypatch.setattr(materialize.Materializer, "take", noted)
    weights = torch.zeros(20_000)
    with rv.run(), rv.checkpointing(weights=weights):
        for _ in rv.loop("epoch", range(2)):
            for _ in rv.loop("step", range(2)):
                weights += 1.0
            weights += 1.0
    parts = {part for part, _ in taken}
    assert parts == {"block", "iteration"}
    assert not any(any(gone) for part, gone in taken if part == "block")
    assert all(all(gone) for part, gone in taken if part == "iteration")


def test_without_memory_for_a_copy_the_training_waits_and_that_is_what_it_costs(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(materialize.Materializer, "_fits", staticmethod(lambda _: False))
    jobs: list[Job] = []
    write = materialize.Materializer._write
    monkeypatch.setattr(materialize.Materializer, "_write", lambda self, job: (write(self, job), jobs.append(job)))
    with rv.run(), rv.checkpointing(weights=np.ones(20_000)):
        for _ in rv.loop("epoch", range(2)):
            pass
    assert jobs and all(job.manifest.stats["stall_s"] > 0 and job.lost_s == job.stall_s for job in jobs)


def test_what_was_written_between_the_parts_once_is_copied_from_then_on(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample would not see its next write."""
    monkeypatch.setattr(scope, "project_modules", lambda _: iter([]))
    monkeypatch.setattr(scope, "library_files", lambda *_: set())
    weights, rest = torch.zeros(300_000), torch.zeros(700_000)
    with rv.run() as run, rv.checkpointing(weights=weights, rest=rest):
        for epoch in rv.loop("epoch", range(4)):
            if epoch == 2:
                monkeypatch.setattr(second, "LOOKED_AT", 0)
            for _ in rv.loop("step", range(2)):
                weights += 1.0
                rest += 1.0
            weights.data[17] = 100.0 + epoch
    for epoch in range(4):
        state = rv.checkpoint(run.id, epoch=epoch)
        seen = epoch < 2 or pages.here() is not None
        assert (state.boundary, float(state["weights"][17]) == 100.0 + epoch) == ("iteration", seen)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("how", ["grown", "shared", "freed", "given anew", "exchanged", "array grown"])
def test_memory_that_is_elsewhere_at_the_second_part(how: str, frozen: bool, recording: Path) -> None:
    """It was watched, and its end is compared: what was given back must not be touched."""
    size = 2_000_000
    array = np.zeros(size)
    held: Any = torch.zeros(size)
    with rv.run() as run, rv.checkpointing(held=held, array=array):
        for epoch in rv.loop("epoch", range(8)):
            for _ in rv.loop("step", range(2)):
                if not frozen:
                    held += 1.0
                    array += 1.0
            if frozen and epoch < 3:
                continue
            if how == "grown":
                held.resize_(size * (epoch + 2))
                held[size:] = 0.0
            elif how == "shared":
                held.share_memory_()
            elif how == "freed":
                kept, memory = held.double(), held.untyped_storage()
                memory.resize_(0)
                memory.resize_(4 * size)
                held.copy_(kept)
            elif how == "given anew":
                held.data = torch.full((size,), 7.0)
            elif how == "exchanged":
                held.set_(torch.full((size,), 7.0))
            else:
                array.resize(size * (epoch + 2), refcheck=False)
            held[17] = 100.0 + epoch
            array[17] = 100.0 + epoch
    state = rv.checkpoint(run.id, epoch=7)
    assert state.boundary == "iteration"
    assert torch.equal(torch.as_tensor(state["held"]), held)
    assert np.array_equal(state["array"], array)
