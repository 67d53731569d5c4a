"""The open file handles of this process: which descriptors write which files, and which file objects hold unwritten bytes for them.

Looks; writes nothing but the program's own buffers into their own files. Knows nothing of checkpoints.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import inspect
import io
import os
import sys
import weakref
from collections.abc import Collection, Iterable, Iterator
from types import FrameType
from typing import Any

_DESCRIPTORS = "/dev/fd" if sys.platform == "darwin" else "/proc/self/fd"


def descriptors(paths: Iterable[str]) -> dict[str, list[int]]:
    """The descriptors that are open for writing on some files: path -> numbers. Several paths may lead to one file."""
    _real.cache_clear()  # the code before the loop may have made its folders anew
    names = {path: real(path) for path in paths}
    found = descriptors_of(frozenset(names.values()))
    return {path: found[name] for path, name in names.items() if name in found}


def real(path: str) -> str:
    """A file by its real name, as the system tells it of a descriptor."""
    name = os.path.join(_real(os.path.dirname(path)), os.path.basename(path))
    return os.path.realpath(name) if os.path.islink(name) else name


def descriptors_of(wanted: Collection[str]) -> dict[str, list[int]]:
    """The same for files by their `real` names, and by these."""
    found: dict[str, list[int]] = {}
    if not wanted:
        return found
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return found  # a system that does not tell
    for name in names:
        try:
            path = _path_of(int(name))
            if path in wanted and fcntl.fcntl(int(name), fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                found.setdefault(path, []).append(int(name))
        except (OSError, ValueError):
            continue  # the one we listed with, closed by now
    return found


def append(fds: Iterable[int]) -> bool:
    """Whether each of some descriptors writes at the end of its file and nowhere else."""
    try:
        return all(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND for fd in fds)
    except OSError:
        return False  # closed by now


_real = functools.lru_cache(maxsize=4096)(os.path.realpath)


def _path_of(fd: int) -> str:
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"{_DESCRIPTORS}/{fd}")


def on(fds: set[int]) -> dict[int, list[weakref.ref[Any]]]:
    """The file objects of this process on some descriptors. Only if one is not near at hand are all objects walked through."""
    found: dict[int, list[weakref.ref[Any]]] = {}
    if fds:
        _sort(_near_at_hand(), fds, found)
        if set(found) != fds:
            found.clear()
            _sort(gc.get_objects(), fds, found)
    return found


def _sort(things: Iterable[Any], fds: set[int], found: dict[int, list[weakref.ref[Any]]]) -> None:
    for handle in [thing for thing in things if type(thing) in _KINDS]:
        fd = _fileno(handle)
        if fd is not None and fd in fds:
            found.setdefault(fd, []).append(weakref.ref(handle))


def _near_at_hand() -> Iterator[Any]:
    """Where programs keep their files: variables of the functions that are running, of the main module, handlers of `logging`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_flags & inspect.CO_NEWLOCALS:  # a function; what is at module level follows
            yield from frame.f_locals.values()
        frame = frame.f_back
    main = sys.modules.get("__main__")
    yield from list(vars(main).values()) if main is not None else ()
    logging = sys.modules.get("logging")
    for reference in list(getattr(logging, "_handlerList", ())):
        yield getattr(reference(), "stream", None)


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
