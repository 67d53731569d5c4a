"""Memory that a state is copied into while the training waits: page-aligned, kept from checkpoint to checkpoint.

Knows buffers and memory, nothing of files. The copy is torch's own where torch is loaded (all its threads, without the interpreter's
lock), else a plain one.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol

PAGE = mmap.PAGESIZE
SMALL = 64 << 10
"""Buffers below this are laid side by side; larger ones begin at a page, as direct writes need it."""
_LINE = 64
_HUGE = 2 << 20
_LARGE = 1 << 20
_FEW_THREADS = 2
_POPULATE_WRITE = 23


class Buffer(Protocol):
    """Live memory, as `state` describes it."""

    nbytes: int

    def tensor(self) -> Any:
        """The bytes as a tensor; None without torch."""

    def memory(self) -> memoryview:
        """The bytes."""


class Arena:
    """One stretch of memory, grown when it must be."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._tensor: Any = None

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self._map) if self._map is not None else 0

    def room(self, size_bytes: int) -> memoryview:
        """Memory of at least this size. What was there before is gone."""
        if self._map is None or len(self._map) < size_bytes:
            self.release()
            self._map = mmap.mmap(-1, max(-(-size_bytes // PAGE) * PAGE, PAGE))
            if len(self._map) >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
                try:
                    self._map.madvise(mmap.MADV_HUGEPAGE)  # the first copy into it meets fewer page faults
                except OSError:
                    pass
        return memoryview(self._map)

    def tensor(self) -> Any:
        """The whole arena as a tensor of bytes; None without torch."""
        torch = sys.modules.get("torch")
        if torch is None or self._map is None:
            return None
        if self._tensor is None:
            self._tensor = torch.frombuffer(self._map, dtype=torch.uint8)
        return self._tensor

    def address(self) -> int:
        """Where it begins."""
        assert self._map is not None
        return ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def touch(self, size_bytes: int) -> None:
        """Have the memory at hand before it is needed: its first use costs many times a copy. For a thread that has time."""
        self.room(size_bytes)
        if sys.platform == "linux":
            madvise = ctypes.CDLL(None).madvise
            madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
            base = self.address()
            for at in range(0, self.size, _HUGE * 16):
                madvise(base + at, min(_HUGE * 16, self.size - at), _POPULATE_WRITE)

    def release(self) -> None:
        """Give the memory back, as soon as nobody looks at it."""
        self._map = self._tensor = None


def layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where each buffer goes, and how much that takes: small ones first, side by side, then large ones at pages.

    >>> layout([100_000, 10, 70_000])
    ([4096, 0, 106496], 176496)
    """
    offsets = [0] * len(sizes)
    at = 0
    for place, size in enumerate(sizes):
        if size < SMALL:
            offsets[place] = at
            at += -(-size // _LINE) * _LINE
    for place, size in enumerate(sizes):
        if size >= SMALL:
            at = -(-at // PAGE) * PAGE
            offsets[place] = at
            at += size
    return offsets, at


def copy(buffers: Sequence[Buffer], arena: Arena) -> list[memoryview]:
    """Copy buffers into the arena; the copies, in their order."""
    offsets, total = layout([buffer.nbytes for buffer in buffers])
    room = arena.room(total)
    base = arena.address()
    torch = sys.modules.get("torch")
    many_threads = torch is not None and torch.get_num_threads() > _FEW_THREADS
    memcpy = _memcpy()
    views = []
    for buffer, at in zip(buffers, offsets, strict=True):
        size = buffer.nbytes
        view = room[at : at + size]
        views.append(view)
        if size == 0:
            continue
        source = buffer.tensor() if torch is not None else None
        if source is None:
            view[:] = buffer.memory()
        elif source.device.type != "cpu" or (many_threads and size >= _LARGE):
            arena.tensor()[at : at + size].copy_(source)
        else:
            memcpy(base + at, source.data_ptr(), size)
    return views


def _memcpy() -> Any:
    """The C library's, without the interpreter's lock. With few threads it is as quick as torch's copy, and waits for none of them."""
    function = ctypes.CDLL(None).memcpy
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    function.restype = ctypes.c_void_p
    return function


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not tell."""
    try:
        with open("/proc/meminfo", "rb") as lines:
            for line in lines:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def copy_speed() -> float:
    """Bytes a second that a copy makes here, from a quick try."""
    size = 8 << 20
    source, target = bytearray(size), bytearray(size)
    began = time.perf_counter()
    target[:] = source
    return size / max(time.perf_counter() - began, 1e-6)
