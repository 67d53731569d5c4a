"""What the bytes of a state cost by themselves: copied, compared with the copy, hashed and written, by the parts that checkpoints use.

No object is looked at, nothing is described. A checkpoint cannot cost less than that without giving up the copy, the proof or the second
part: where it is a large share of `torch.save`, a limit below it cannot be met.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from rearview.record.checkpoints import staging
from rearview.state.capture import capture
from rearview.store import layout
from rearview.store.packs import Known, Packer
from rearview.store.packs.hashing import held_digest


def cpu_seconds(tensors: list[torch.Tensor], step: Callable[[], None], folder: Path, times: int) -> list[float]:
    """Processor seconds of this thread, several times, each after a step that changes the tensors and leaves the caches cold."""
    store, arena = layout.create(folder / "bytes-alone"), staging.Arena()
    known, name = Known(store), held_digest()
    if name is None:
        raise RuntimeError("the library shows no function that hashes memory")
    buffers = capture({("given", "tensors"): tensors}).buffers
    staging.copy(buffers, arena)
    taken = []
    for _ in range(times):
        step()
        began = time.thread_time()
        copies = staging.copy(buffers, arena, name)
        if [name(buffer.address, buffer.nbytes) for buffer in buffers] != copies.names:
            raise RuntimeError("a copy that is none, or a tensor that is not small")
        with Packer(store, known) as packer:
            packer.add_named(list(zip(copies.names, copies.views, copies.addresses, strict=True)))
            packer.finish()
        taken.append(time.thread_time() - began)
    return taken
