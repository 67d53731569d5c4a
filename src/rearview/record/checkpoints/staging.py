"""Memory that a state is copied into while the training waits: page-aligned, kept from checkpoint to checkpoint.

Knows buffers and memory, nothing of files. The copy is the C library's, which goes past the caches where much is copied: half the time of
torch's own. Threads help with it if the program lets torch have several.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import mmap
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rearview.record.checkpoints.room import has_address_limit
from rearview.state.take import tensors

PAGE = mmap.PAGESIZE
SMALL = 64 << 10
"""Buffers below this are laid side by side; larger ones begin at a page, as direct writes need it."""
_LINE = 64
_GROWTH = 4
"""A model becomes four times as much: two averages for each parameter, and its gradient."""
_TOUCHED = 32 << 20
"""At once: the program is not kept from its own memory for long."""
_LARGE = 1 << 20
_PIECE = 16 << 20
"""Copied at once: in that time nobody waits long for whoever copies the last one."""
_HOT = 256 << 10
"""So much is still in the processor's cache when it was copied: it is hashed there, at a third of what that takes later."""
_WORTH_HELP = 4 * _PIECE
_MOST_THREADS = 4
"""More of them wait for the memory, not for a core."""
SAMPLE = 16 << 10
"""One word of so much is looked at: a GB in two milliseconds."""
_WORD = 8
_POPULATE_WRITE = 23


class Buffer(Protocol):
    """Live memory, as `state` describes it."""

    nbytes: int
    address: int
    """Where it is; 0 on another device, or if nobody knows."""

    def tensor(self) -> Any:
        """The bytes as a tensor; None without torch."""

    def memory(self) -> memoryview:
        """The bytes."""


@dataclass(frozen=True, slots=True)
class Laid:
    """Where copies of buffers of these sizes go."""

    sizes: list[int]
    views: list[memoryview]
    addresses: list[int]


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of buffers, in their order."""

    views: list[memoryview]
    addresses: list[int]
    names: list[bytes | None]
    """What each was called while it was at hand; None: nobody has looked."""


class Arena:
    """One stretch of memory, grown when it must be. Not there in a forked child: it would keep every page of it alive twice."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._laid: Laid | None = None
        self._process = 0
        self.size = 0
        """Bytes that were used so far: what is reserved beyond takes no memory."""

    def room(self, size_bytes: int) -> memoryview:
        """Memory of at least this size. What was there before is gone."""
        if self._map is None or len(self._map) < size_bytes or self._process != os.getpid():
            self.release()
            self._map = _reserve(size_bytes)
            self._process = os.getpid()
        self.size = max(self.size, size_bytes)
        return memoryview(self._map)

    def laid(self, sizes: list[int]) -> Laid:
        """Memory for buffers of these sizes; what was there before is gone. The same as before, if they are."""
        known = self._laid
        if known is None or known.sizes != sizes or self._process != os.getpid():
            offsets, total = layout(sizes)
            room = self.room(total)
            base = _address(room) if total else 0
            views = [room[at : at + size] for at, size in zip(offsets, sizes, strict=True)]
            self._laid = known = Laid(sizes, views, [base + at for at in offsets])
        return known

    def touch(self, size_bytes: int) -> None:
        """Have the memory at hand before it is needed: its first use costs many times a copy. For a thread that has time."""
        used = self.size
        memory = self.room(size_bytes)  # held on to: the training thread may want other memory meanwhile
        if sys.platform == "linux":
            madvise = ctypes.CDLL(None).madvise
            madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
            base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            first, end = used // PAGE * PAGE, -(-size_bytes // PAGE) * PAGE
            for at in range(first, end, _TOUCHED):
                madvise(base + at, min(_TOUCHED, end - at), _POPULATE_WRITE)

    def after_fork_in_child(self) -> None:
        """The memory is not there in a forked child. Its object stays for ever: going, it would give back whatever lies there by then."""
        if self._map is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._map))
        self.release()

    def release(self) -> None:
        """Give the memory back, as soon as nobody looks at it."""
        self._map = self._laid = None
        self.size = 0


def _reserve(size_bytes: int) -> mmap.mmap:
    """Addresses for more than is asked for: a state grows when optimizers make theirs and gradients come, and what was touched is kept."""
    size = max(-(-size_bytes // PAGE) * PAGE, PAGE)
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared pages cost twice as much to have
    try:
        memory = mmap.mmap(-1, size if has_address_limit() else _GROWTH * size, flags=private | getattr(mmap, "MAP_NORESERVE", 0))
    except (OSError, ValueError, OverflowError):
        memory = mmap.mmap(-1, size, flags=private)
    for advice in ("MADV_DONTFORK", "MADV_HUGEPAGE"):  # of large pages, a direct write has a hundredth as many to hold on to
        if hasattr(mmap, advice):
            with contextlib.suppress(OSError):
                memory.madvise(getattr(mmap, advice))
    return memory


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


def copy(buffers: Sequence[Buffer], arena: Arena, name: Callable[[int, int], bytes] | None = None) -> Copies:
    """Copy buffers into the arena. `name`: by which those that are not large are called at once, by address and size."""
    laid = arena.laid([buffer.nbytes for buffer in buffers])
    names: list[bytes | None] = [None] * len(buffers)
    torch = sys.modules.get("torch")
    quick_memcpy = held("memcpy")
    pieces: deque[Piece] = deque()
    for k, (buffer, size, to) in enumerate(zip(buffers, laid.sizes, laid.addresses, strict=True)):
        address = buffer.address
        if size == 0:
            continue
        if address and size < _LARGE:
            quick_memcpy(to, address, size)
            if name is not None and size <= _HOT:
                names[k] = name(to, size)
        elif address:
            pieces.extend(_pieces(to, address, size))
        elif torch is not None and (source := buffer.tensor()) is not None:
            torch.frombuffer(laid.views[k], dtype=torch.uint8).copy_(source)
        else:
            laid.views[k][:] = buffer.memory()
    _copy_together(pieces)
    return Copies(laid.views, laid.addresses, names)


def memcpy(to: int, source: int, size: int) -> None:
    """Copy memory of the program, on this thread."""
    _of_c("memcpy", held=size < _LARGE)(to, source, size)


Piece = tuple[int, int, int]
"""To where, from where, how much. Of two that are compared: the one, the other."""


def _pieces(to: int, source: int, size: int) -> Iterator[Piece]:
    return ((to + start, source + start, min(_PIECE, size - start)) for start in range(0, size, _PIECE))


def _copy_together(pieces: deque[Piece]) -> None:
    """Copy all pieces."""
    copy_one = _of_c("memcpy")
    _together(pieces, lambda piece: copy_one(*piece), sum(size for _, _, size in pieces))


def _together(pieces: deque[Any], work: Callable[[Any], None], size_bytes: int) -> None:
    """Do all pieces of a work. Helpers take what is left; one that gets no core in time finds nothing, and nobody waits for it."""

    def take(at_work: threading.Lock) -> None:
        while pieces:
            with at_work:
                try:
                    piece = pieces.popleft()
                except IndexError:  # another was quicker
                    return
                work(piece)

    helpers = [threading.Lock() for _ in range(_helpers(size_bytes))]
    try:
        for helper in helpers:
            with contextlib.suppress(RuntimeError):  # the interpreter ends, or there are too many threads
                _thread.start_new_thread(take, (helper,))
        take(threading.Lock())
    finally:  # an interrupt: the memory is the program's again
        pieces.clear()
        for helper in helpers:
            with helper:
                pass


def _helpers(size_bytes: int) -> int:
    torch = sys.modules.get("torch")
    if torch is None or size_bytes < _WORTH_HELP or not hasattr(torch, "get_num_threads"):
        return 0
    return min(int(torch.get_num_threads()), _MOST_THREADS) - 1


def unequal(pairs: Sequence[Piece]) -> list[int]:
    """Which of these pairs of memory are not the same, by their places: all of them compared at once, none of them large."""
    if not pairs:
        return []
    compared = list(map(held("memcmp"), *zip(*pairs, strict=True)))
    return [place for place, difference in enumerate(compared) if difference] if any(compared) else []


def unequal_large(pairs: Sequence[Piece]) -> set[int]:
    """The same of pairs of any size, a piece at a time."""
    compare, found = _of_c("memcmp"), set[int]()

    def look(piece: tuple[int, int, int, int]) -> None:
        place, *memory = piece
        if place not in found and compare(*memory):
            found.add(place)

    pieces = deque((place, *piece) for place, pair in enumerate(pairs) for piece in _pieces(*pair))
    _together(pieces, look, sum(size for _, _, size in pairs))
    return found


def alike(buffer: Buffer, copied: memoryview) -> bool:
    """The same by a sample: a word of each `SAMPLE`, and the end."""
    live = buffer.memory()
    if live.nbytes != copied.nbytes or live[-SAMPLE:].tobytes() != copied[-SAMPLE:].tobytes():
        return False
    words = live.nbytes // SAMPLE * SAMPLE
    torch = tensors.loaded()
    if torch is None or not words:
        return live[::SAMPLE].tobytes() == copied[::SAMPLE].tobytes()
    with tensors.quiet():
        ours, theirs = (torch.frombuffer(view[:words], dtype=torch.int64)[:: SAMPLE // _WORD] for view in (live, copied))
        return bool(torch.equal(ours, theirs))


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def held(name: str) -> Any:
    """A function of the C library over two addresses and a size, called with the interpreter held."""
    return _of_c(name, held=True)


@functools.cache
def _of_c(name: str, *, held: bool = False) -> Any:
    """A function of the C library over two addresses and a size.

    `held`: with the interpreter's lock. What takes microseconds is sooner done than the lock is had again from a thread that computes.
    """
    library = ctypes.PyDLL(None) if held else ctypes.CDLL(None)
    function = getattr(library, name)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    function.restype = ctypes.c_void_p if name == "memcpy" else ctypes.c_int
    return function


def copy_speed(size_bytes: int) -> float:
    """Bytes a second that a copy of so many makes here, from a quick try: no larger than they are, it is to be quicker than the copy."""
    return _copy_speed(min(max(1 << size_bytes.bit_length(), 64 << 10), 8 << 20))


@functools.cache
def _copy_speed(size: int) -> float:
    """The same, into memory that was used before."""
    source, target = bytearray(size), bytearray(size)
    taken = 1.0
    for _ in range(2):
        began = time.perf_counter()
        target[:] = source
        taken = max(time.perf_counter() - began, 1e-6)
    return size / taken
