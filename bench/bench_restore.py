"""Putting 1.1 GB of model and Adam back in place, against reading the bytes at the speed of the disk and against copying them in memory.

*Cold*: the packs are not in the system's cache (they are written past it, so the first restore is). *Warm*: they are. Every byte is
verified by its hash on the way. The training that made the checkpoint ran in a process of its own.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from bench import harness, training_load
from bench.bench_checkpoint import LONG, child
from bench.stopwatch import REARVIEW, Copies

TIMES = 9 if LONG else 5
BLOCK = 8 << 20
LIMITS = {"cold_to_disk.median": 1.5, "warm_to_memcpy.median": 2.0, "wrong": 0}


def forget(paths: list[Path]) -> None:
    """Have the system drop what it keeps of some files."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def remember(paths: list[Path]) -> None:
    """Have the system keep some files in its cache."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(BLOCK):
                pass


def disk_s(paths: list[Path], threads: int) -> float:
    """Seconds to read files past the cache in large blocks, whole, into memory that was used before."""
    memory = [mmap.mmap(-1, BLOCK) for _ in range(threads)]
    for one in memory:
        one.write(bytes(BLOCK))
    fds = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in paths]
    blocks: Iterator[tuple[int, int]] = iter([(fd, at) for fd in fds for at in range(0, os.fstat(fd).st_size, BLOCK)])
    lock = threading.Lock()

    def read(into: mmap.mmap) -> None:
        while True:
            with lock:
                block = next(blocks, None)
            if block is None:
                return
            os.preadv(block[0], [into], block[1])

    others = [threading.Thread(target=read, args=(one,)) for one in memory[1:]]
    began = time.perf_counter()
    for other in others:
        other.start()
    read(memory[0])
    for other in others:
        other.join()
    taken = time.perf_counter() - began
    for fd in fds:
        os.close(fd)
    return taken


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def scramble(load: training_load.Load) -> None:
    """Something else in all memory of the state."""
    with torch.no_grad():
        for tensor in load.tensors():
            tensor.fill_(-1.0)


def different(state: Any, load: training_load.Load) -> int:
    """How many tensors are not what the checkpoint has."""
    recorded, live = {**state["net"]}, load.net.state_dict()
    wrong = sum(not torch.equal(recorded[name], live[name]) for name in live)
    theirs, ours = state["opt"]["state"], load.opt.state_dict()["state"]
    return wrong + sum(not torch.equal(theirs[k][name], ours[k][name]) for k in ours for name in ours[k])


def measure(folder: Path) -> dict[str, Any]:
    """Restore several times, cold and warm, each beside what it is compared with."""
    asked = {"load": "adam", "turn": [REARVIEW], "windows": 1, "steps": 1, "warm": 1}
    found = child(folder, asked, REARVIEW_EVERY="1")
    os.environ["REARVIEW_DIR"] = str(folder)
    import rearview as rv

    torch.set_num_threads(training_load.THREADS)
    load = training_load.adam()
    load.step()
    copies = Copies(load.tensors())
    packs = sorted((folder / ".rearview" / "objects").rglob("*.pack"))
    state = rv.checkpoint(found["run"])
    series: dict[str, list[float]] = {name: [] for name in ("cold_s", "disk_s", "disk_2_threads_s", "warm_s", "memcpy_s")}

    def restore() -> None:
        state.restore(net=load.net, opt=load.opt)

    restore()
    for _ in range(TIMES):
        scramble(load)
        forget(packs)
        series["disk_s"].append(disk_s(packs, 1))
        series["disk_2_threads_s"].append(disk_s(packs, 2))
        forget(packs)
        series["cold_s"].append(timed(restore))
        remember(packs)
        series["warm_s"].append(timed(restore))
        series["memcpy_s"].append(copies.copy())
    disk = [min(pair) for pair in zip(series["disk_s"], series["disk_2_threads_s"], strict=True)]
    return {
        "state_mb": harness.rounded(found["state_bytes"] / 1e6),
        "read_mb": harness.rounded(sum(path.stat().st_size for path in packs) / 1e6),
        **harness.figures(**series),
        "cold_to_disk": harness.ratio(series["cold_s"], disk),
        "warm_to_memcpy": harness.ratio(series["warm_s"], series["memcpy_s"]),
        "wrong": different(state, load),
    }


def main() -> None:
    """Measure in a store of its own."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        harness.report("restore", measure(Path(folder).absolute()), limits=LIMITS)


if __name__ == "__main__":
    main()
