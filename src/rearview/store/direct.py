"""Large files past the page cache: written from page-aligned memory, read into it, with holes punched into them.

Knows what the operating system offers (O_DIRECT, fallocate, priorities of a thread) and falls back where it is refused:
buffered writes whose pages are given back afterwards, no preallocation, no holes. Knows nothing of packs and chunks. It
writes temporary files only; `atomic` gives them their names. An fsync error is final for that file.

Measured with both cores busy training (1.1 GB): buffered writes cost the run 2.1 s, these 0.07 s. The copy into the page
cache and its writeback are what costs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

PAGE = 4096
"""Offsets, lengths and addresses are multiples of this: no block device in use asks for more."""

_KEEP_SIZE_PUNCH = 0x01 | 0x02
"""FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE."""
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)
_F_NOCACHE = 48
"""macOS: fcntl that keeps a file out of the cache."""
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "arm64": 30}
_IOPRIO_LOWEST = (2 << 13) | 7
"""Best effort, the last of its levels: idle could wait for ever on a busy disk, and the checkpoint with it."""
NICER = 5
"""Than the rest of the process: a third of its weight. Not the lowest priority: a thread that holds the interpreter and gets no core keeps
the whole program waiting. Measured with more to run than cores: 100 ms of Python on such a thread cost the program 350 ms at the lowest
priority (70 ms at a time) and 130 ms at this one (11 ms at a time)."""


def up(size: int) -> int:
    """Rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


def aligned_memory(size: int) -> mmap.mmap:
    """Anonymous memory that begins at a page."""
    return mmap.mmap(-1, max(up(size), PAGE))


def address_of(view: memoryview) -> int:
    """Where the bytes of a view are; 0 if that cannot be told (read-only memory), which no page is."""
    if view.readonly or not view.nbytes:
        return 0
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def advise(fd: int, offset: int, size: int, what: str) -> None:
    """`posix_fadvise` where there is one: `WILLNEED`, `DONTNEED`."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a hint
            os.posix_fadvise(fd, offset, size, getattr(os, "POSIX_FADV_" + what))


class NewFile:
    """A temporary file that is written in whole pages and then synced. Whoever made it publishes or removes it."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.direct = True
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self.fd = os.open(path, flags | getattr(os, "O_DIRECT", 0), 0o666)
        except OSError as problem:
            if problem.errno not in _UNSUPPORTED:
                raise
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # some file systems make the name before they refuse
            self.fd = os.open(path, flags, 0o666)
            self.direct = False
        try:
            self._prepare(size)
        except BaseException:
            self.discard()
            raise

    def _prepare(self, size: int) -> None:
        """Have the room now: a full disk is noticed before gigabytes are written."""
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(self.fd, _F_NOCACHE, 1)
        self.direct = self.direct and hasattr(os, "O_DIRECT")
        _fallocate(self.fd, 0, 0, size)

    def write(self, offset: int, parts: list[memoryview]) -> None:
        """Write neighbouring parts, in as many calls as it takes. Each part is whole pages at a page's address."""
        parts = list(parts)
        while parts:
            try:
                done = os.pwritev(self.fd, parts, offset)
            except OSError as problem:
                if problem.errno != errno.EINVAL or not self.direct:
                    raise
                self._go_buffered()
                continue
            offset += done
            while parts and done >= parts[0].nbytes:
                done -= parts.pop(0).nbytes
            if done:
                parts[0] = parts[0][done:]

    def _go_buffered(self) -> None:
        """Some file systems take the flag and refuse the write."""
        import fcntl

        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) & ~os.O_DIRECT)
        self.direct = False

    def finish(self) -> None:
        """Wait for the disk, and give back the cache's pages where the writes went through it."""
        try:
            os.fsync(self.fd)
            if not self.direct:
                advise(self.fd, 0, 0, "DONTNEED")
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file; it stays where it is."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def discard(self) -> None:
        """It is not to be: close and remove it."""
        try:
            self.close()
        finally:
            self.path.unlink(missing_ok=True)


def open_direct(path: Path) -> int:
    """A descriptor that reads past the cache; -1 where there is no such thing. Errors come from the ordinary `open`."""
    flag = getattr(os, "O_DIRECT", 0)
    if not flag:
        return -1
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | flag)
    except OSError:
        return -1


def is_cached(fd: int, offset: int, size: int) -> bool:
    """Whether nearly all bytes of a range are in the cache. Asks without reading: a probe would start the readahead."""
    call = _libc_mincore()
    first = offset // PAGE * PAGE
    pages = -(-(offset + size - first) // PAGE)
    if call is None or mmap.PAGESIZE != PAGE:
        return True
    try:
        mapping = mmap.mmap(fd, pages * PAGE, access=mmap.ACCESS_COPY, offset=first)  # a private one, which has an address
    except (OSError, ValueError):
        return True  # the ordinary way says what is wrong
    seen = (ctypes.c_ubyte * pages)()
    view = memoryview(mapping)
    failed = call(address_of(view), pages * PAGE, seen)
    view.release()
    mapping.close()
    return bool(failed) or bytes(seen).count(1) >= pages * 0.9


def punch(path: Path, ranges: Iterable[tuple[int, int]]) -> bool:
    """Give (offset, size) ranges of a file back to the file system; False where it cannot do that. They read as zeros then."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        able = all(_fallocate(fd, _KEEP_SIZE_PUNCH, offset, size) for offset, size in ranges)
        os.fsync(fd)
    finally:
        os.close(fd)
    return able


def can_punch(scratch: Path) -> bool:
    """Whether the file system of this path, where nothing is yet, can do that. Tried on an empty file: it needs no room."""
    try:
        fd = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError:
        return False
    try:
        return _fallocate(fd, _KEEP_SIZE_PUNCH, 0, PAGE)
    except OSError:
        return False
    finally:
        os.close(fd)
        scratch.unlink(missing_ok=True)


def _fallocate(fd: int, mode: int, offset: int, size: int) -> bool:
    """The system call itself: the C library's `posix_fallocate` writes zeros where the file system has none."""
    call = _libc_fallocate()
    if call is None or size <= 0:
        return False
    while call(fd, mode, offset, size):
        code = ctypes.get_errno()
        if code == errno.EINTR:
            continue
        if code in _UNSUPPORTED:
            return False
        raise OSError(code, os.strerror(code))
    return True


@functools.cache
def _libc_fallocate() -> Callable[[int, int, int, int], int] | None:
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if call is None:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    call.restype = ctypes.c_int
    return call  # type: ignore[no-any-return]


@functools.cache
def _libc_mincore() -> Callable[[int, int, object], int] | None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "mincore", None) if sys.platform == "linux" else None
    if call is not None:
        call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        call.restype = ctypes.c_int
    return call


def low_priority() -> None:
    """Put the calling thread behind the others of the process that want a core, and behind everything that wants the disk.

    Harmless where that is not offered: a sandbox may forbid it.
    """
    if sys.platform != "linux":
        return  # elsewhere a priority is the whole process's
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICER)
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).syscall(number, 1, thread, _IOPRIO_LOWEST)
