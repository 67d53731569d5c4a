"""One workload trained once in this process, with or without rearview, and what that took."""

from __future__ import annotations

import contextlib
import importlib
import os
import time
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PLAIN, ADAPTIVE, EVERY, SERIAL, EVERY_SERIAL = "plain", "adaptive", "every", "serial", "every_serial"
"""Without rearview; as it is by default; each epoch, whatever it costs; by default but written while the training waits; both."""
THREADS = 2


class Plain:
    """What the calls mean without rearview."""

    @staticmethod
    def log(_name: str, value: Any) -> Any:
        """The value."""
        return value

    @staticmethod
    def loop(_name: str, items: Iterable[Any]) -> Iterable[Any]:
        """The items."""
        return items

    @staticmethod
    def checkpointing(**_objects: Any) -> contextlib.AbstractContextManager[None]:
        """Nothing."""
        return contextlib.nullcontext()


class Face(types.ModuleType):
    """`rearview`, or nothing, as the workload sees it: notes when the training begins, which is when `checkpointing` is looked up."""

    def __init__(self, behind: Any) -> None:
        super().__init__("rv")
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        if name == "checkpointing":
            began[:] = [time.perf_counter(), time.process_time()]
        return getattr(self._behind, name)


began: list[float] = []
"""The clock and the processor time when the training began; here, where it is no variable of the training's."""


def measure(name: str, means: str, epochs: int, folder: Path) -> dict[str, Any]:
    """Train, and say how long it took from `checkpointing` to the end of the run, and what the checkpoints say they took."""
    import torch

    torch.set_num_threads(THREADS)
    workload = importlib.import_module(f"bench.workloads.{name}")
    epochs = epochs or workload.EPOCHS
    if means == PLAIN:
        result = workload.train(Face(Plain), epochs)
        return {"seconds": time.perf_counter() - began[0], "cpu_s": time.process_time() - began[1], "result": result}
    os.environ |= {"REARVIEW_DIR": str(folder), "REARVIEW_QUIET": "1"}
    if means in (EVERY, EVERY_SERIAL):
        os.environ["REARVIEW_EVERY"] = "1"
    import rearview

    held = _write_on_the_training_thread() if means in (SERIAL, EVERY_SERIAL) else []
    run = rearview.run(name=name)
    with run:
        result = workload.train(Face(rearview), epochs)
    seconds, cpu_s = time.perf_counter() - began[0], time.process_time() - began[1]
    return {"seconds": seconds, "cpu_s": cpu_s, "result": result, **_accounted(folder, str(run.id), held)}


def _write_on_the_training_thread() -> list[float]:
    """Have the training wait for each write, as if nothing ran in the background; seconds that it waited, a write each."""
    from rearview.record.checkpoints.materialize import Materializer

    take, held = Materializer.take, list[float]()

    def take_and_wait(self: Materializer, *arguments: Any, **others: Any) -> Any:
        job = take(self, *arguments, **others)
        waits = time.perf_counter()
        self.wait()
        held.append(time.perf_counter() - waits)
        return job

    Materializer.take = take_and_wait  # type: ignore[method-assign]
    return held


def _accounted(folder: Path, run: str, held: list[float]) -> dict[str, Any]:
    """What the manifests say that the checkpoints took, both parts of each."""
    from rearview.model import RunId
    from rearview.store import manifests
    from rearview.store.layout import Store

    store = Store(folder / ".rearview")
    names = manifests.list_of(store, RunId(run))
    stats = [manifests.read(store, name).stats for name in names]
    stall_s = sum(one["stall_s"] for one in stats)
    background_s = sum(held) if held else sum(one["background_cpu_s"] for one in stats)
    return {
        "checkpoints": len({name.number for name in names}),
        "stall_s": stall_s,
        "background_s": background_s,
        "lost_s": stall_s + background_s,
        "state_bytes": max((one["total_bytes"] for one in stats), default=0),
        "stored_bytes": sum(one["new_bytes"] for one in stats),
    }
