"""The open file handles of this process: which descriptors write which files, and which file objects hold unwritten bytes for them.

Looks; writes nothing but the program's own buffers into their own files. Knows nothing of checkpoints.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import io
import os
import sys
import weakref
from collections.abc import Iterable
from typing import Any

_DESCRIPTORS = "/dev/fd" if sys.platform == "darwin" else "/proc/self/fd"


def descriptors(paths: Iterable[str]) -> dict[str, list[int]]:
    """The descriptors that are open for writing on some files: path -> numbers."""
    wanted = {os.path.join(_real(os.path.dirname(path)), os.path.basename(path)): path for path in list(paths)}
    found: dict[str, list[int]] = {}
    if not wanted:
        return found
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return found  # a system that does not tell
    for name in names:
        try:
            path = wanted.get(_path_of(int(name)))
            if path is not None and fcntl.fcntl(int(name), fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                found.setdefault(path, []).append(int(name))
        except (OSError, ValueError):
            continue  # the one we listed with, closed by now
    return found


_real = functools.lru_cache(maxsize=4096)(os.path.realpath)


def _path_of(fd: int) -> str:
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"{_DESCRIPTORS}/{fd}")


def on(fds: set[int]) -> dict[int, list[weakref.ref[Any]]]:
    """The file objects of this process on some descriptors, outermost or not. Walks all objects once."""
    found: dict[int, list[weakref.ref[Any]]] = {}
    if not fds:
        return found
    for thing in gc.get_objects():
        if type(thing) in _KINDS:
            fd = _fileno(thing)
            if fd in fds and fd is not None:
                found.setdefault(fd, []).append(weakref.ref(thing))
    return found


_KINDS = frozenset((io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom))


def _fileno(handle: Any) -> int | None:
    try:
        return None if handle.closed else int(handle.fileno())
    except (OSError, ValueError, AttributeError):
        return None


def flush(found: Iterable[Any]) -> None:
    """Empty the write buffers of file objects: text first, it empties the bytes below it."""
    for handle in sorted((one for one in found if one is not None), key=lambda one: not isinstance(one, io.TextIOWrapper)):
        try:
            if not handle.closed and handle.writable():
                handle.flush()
        except (OSError, ValueError):
            continue  # a disk that is full, a pipe nobody reads: the program meets it by itself


def seek(found: Iterable[Any], position: int) -> None:
    """Let file objects go on writing at a position."""
    for handle in found:
        try:
            if handle is not None and not handle.closed and handle.seekable():
                handle.seek(position)
        except (OSError, ValueError):
            continue  # a handle that cannot be moved goes on where it is
