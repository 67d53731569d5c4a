"""Writing one pack: page-aligned stretches of memory straight to the disk in large blocks, everything else through a buffer.

Knows addresses, pages and write calls; not what the chunks are, nor what becomes of the file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from rearview.store import direct
from rearview.store.direct import PAGE, up
from rearview.store.packs.layout import PackPlan, Piece, Stretch

BLOCK_BYTES = 8 << 20
"""One write call: large for the disk, short enough to give up between two."""
COPY_BYTES = 256 << 10
"""Copied at once while holding the interpreter: some 30 microseconds."""
_COPIES_BYTES = 2 << 20
_PARTS = 256
"""Parts of one write call; the system takes 1024."""


def write(file: direct.NewFile, plan: PackPlan, go_on: Callable[[], None]) -> None:
    """All bytes of a pack. `go_on` is asked before each write call, and raises to give up."""
    stream = _Stream(file, go_on)
    for stretch in plan.stretches:
        stream.straight(stretch)
    stream.flush()
    stream.copied(plan.rest)


def _memory(stretch: Stretch) -> memoryview:
    """The stretch as one piece of memory. The views of its pieces keep that memory alive."""
    return memoryview((ctypes.c_char * stretch.size).from_address(stretch.address)).cast("B")


class _Stream:
    def __init__(self, file: direct.NewFile, go_on: Callable[[], None]) -> None:
        self.file = file
        self.go_on = go_on
        self.offset = 0
        self.parts: list[memoryview] = []
        self.gathered = 0
        self.last_pages: memoryview | None = None
        self.used = 0

    def straight(self, stretch: Stretch) -> None:
        memory = _memory(stretch)
        whole = stretch.size // PAGE * PAGE
        for start in range(0, whole, BLOCK_BYTES):
            self.gather(memory[start : min(start + BLOCK_BYTES, whole)])
        if whole < stretch.size:
            self.gather(self.last_page(memory[whole:]))

    def last_page(self, tail: memoryview) -> memoryview:
        """The end of a stretch, filled up with zeros."""
        if self.last_pages is None:
            self.last_pages = memoryview(direct.aligned_memory(_PARTS * PAGE))
        page = self.last_pages[self.used * PAGE : (self.used + 1) * PAGE]
        self.used += 1
        page[: len(tail)] = tail
        page[len(tail) :] = bytes(PAGE - len(tail))
        return page

    def gather(self, part: memoryview) -> None:
        self.parts.append(part)
        self.gathered += part.nbytes
        if self.gathered >= BLOCK_BYTES or len(self.parts) >= _PARTS:
            self.flush()

    def flush(self) -> None:
        if self.parts:
            self.go_on()
            self.file.write(self.offset, self.parts)
            self.offset += self.gathered
        self.parts = []
        self.gathered = self.used = 0

    def copied(self, pieces: Sequence[Piece]) -> None:
        """What is not at a page goes through a buffer, close together; the last page is filled up with zeros."""
        left = sum(view.nbytes for _, view, _ in pieces)
        if not left:
            return
        buffer = memoryview(direct.aligned_memory(min(_COPIES_BYTES, left)))
        filled = 0
        for _, view, _ in pieces:
            while view.nbytes:
                step = min(view.nbytes, COPY_BYTES, len(buffer) - filled)
                buffer[filled : filled + step] = view[:step]
                filled += step
                view = view[step:]
                if filled == len(buffer):
                    self.gather(buffer)
                    self.flush()
                    filled = 0
        if filled:
            buffer[filled : up(filled)] = bytes(up(filled) - filled)
            self.gather(buffer[: up(filled)])
            self.flush()
