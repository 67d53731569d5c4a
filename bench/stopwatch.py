"""When the windows of `training_load` close and open, and what is done between two of them.

A module of its own, with its one watch at module level: what measures must not be reachable from the variables of the training, or it
would be part of the state that is kept.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

NOTHING, SAVE, ASYNC, REARVIEW = "nothing", "torch.save", "dcp_async", "rearview"
clock = time.perf_counter


def stolen() -> float:
    """Seconds, of every core alike, that the host of a virtual machine has kept from it so far: for other machines, or to write for this
    one to its disk. 0 where nobody says."""
    try:
        with open("/proc/stat", "rb") as lines:
            ticks = int(lines.readline().split()[8])
    except (OSError, IndexError, ValueError):
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)


def bytes_of(tensors: list[torch.Tensor]) -> int:
    """Bytes of memory."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass
class Means:
    """The other means of keeping a state, one after the other into one folder."""

    state: Callable[[], dict[str, Any]]
    folder: Path
    pending: Any = None

    def begin(self, what: str) -> None:
        """What the training waits for."""
        path = self.folder / "by-other-means"
        if what == SAVE:
            torch.save(self.state(), path)
        elif what == ASYNC:
            import torch.distributed.checkpoint as dcp

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.pending = dcp.async_save(self.state(), checkpoint_id=path, no_dist=True)

    def end(self) -> float:
        """Wait for what is still going on, and remove it before the system writes its cache to the disk; seconds waited."""
        began = clock()
        if self.pending is not None:
            self.pending.result()
        waited = clock() - began if self.pending is not None else 0.0
        self.pending = None
        path = self.folder / "by-other-means"
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        return waited


@dataclass
class Copies:
    """One copy of all bytes of the state, as quick as it can be: into memory that was used before."""

    tensors: list[torch.Tensor]
    memory: mmap.mmap = field(init=False)

    def __post_init__(self) -> None:
        self.memory = mmap.mmap(-1, bytes_of(self.tensors) + mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.copy()

    def copy(self) -> float:
        """Seconds of one memcpy after the other, on this thread."""
        memcpy = ctypes.CDLL(None).memcpy
        memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        at = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        began = clock()
        for tensor in self.tensors:
            size = tensor.numel() * tensor.element_size()
            memcpy(at, tensor.data_ptr(), size)
            at += size
        return clock() - began

    def parallel(self) -> float:
        """Seconds of torch's own copy, on all its threads."""
        whole = torch.frombuffer(self.memory, dtype=torch.uint8)
        began = clock()
        at = 0
        for tensor in self.tensors:
            flat = tensor.detach().view(-1).view(torch.uint8) if tensor.numel() > 1 else tensor.detach().reshape(1).view(torch.uint8)
            whole[at : at + flat.numel()].copy_(flat)
            at += flat.numel()
        return clock() - began


class Watch:
    """Notes when a window closes, is left, and opens again."""

    def __init__(self, means: Means, turn: list[str], copies: Copies | None) -> None:
        self.turn = turn
        self.means = means
        self.copies = copies
        self.closed = self.opened = clock()
        self.closed_cpu = self.at_end_cpu = time.thread_time()
        self.at_end = 0.0
        self.stolen = stolen()
        self.windows: list[dict[str, Any]] = []
        self.now: dict[str, Any] = {"what": NOTHING, "stall_s": 0.0, "cpu_s": 0.0}
        self.copy_s: list[float] = []
        self.parallel_s: list[float] = []

    def step(self) -> None:
        """A step ended; it may have been the last one of the window."""
        self.closed, self.closed_cpu = clock(), time.thread_time()

    def between(self, number: int) -> None:
        """The nested loop was left. The time since its last step belongs to what begins now; what cleans up belongs to nobody."""
        left, left_cpu = clock(), time.thread_time()
        before, self.stolen = self.stolen, stolen()
        self.now["stolen_s"] = self.stolen - before
        self.now["seconds"] = self.now["stall_s"] + self.closed - self.opened
        self.now["waited_s"] = self.means.end()
        self.windows.append(self.now)
        if self.copies is not None and self.now["what"] == NOTHING:
            self.copy_s.append(self.copies.copy())
            self.parallel_s.append(self.copies.parallel())
        stalled = {"stall_s": left - self.closed, "cpu_s": left_cpu - self.closed_cpu}
        self.now = {"what": self.turn[number % len(self.turn)], **stalled}
        began, began_cpu = clock(), time.thread_time()
        self.means.begin(self.now["what"])
        self.at_end, self.at_end_cpu = clock(), time.thread_time()
        self.now["stall_s"] += self.at_end - began
        self.now["cpu_s"] += self.at_end_cpu - began_cpu

    def opens(self) -> None:
        """The next window begins."""
        self.opened = clock()
        if self.at_end:
            self.now["stall_s"] += self.opened - self.at_end
            self.now["cpu_s"] += time.thread_time() - self.at_end_cpu


_watch: list[Watch] = []


def start(watch: Watch) -> None:
    """From now on this is the watch."""
    _watch[:] = [watch]


def closed() -> None:
    """See `Watch.step`."""
    _watch[0].step()


def between(number: int) -> None:
    """See `Watch.between`."""
    _watch[0].between(number)


def opens() -> None:
    """See `Watch.opens`."""
    _watch[0].opens()
