"""Publishing a whole file: it is there with all its bytes, or it is not there.

One of the two modules that write store files (the other is `journal`). Temp file, write loop, fsync, rename, fsync of
the folder. An fsync error is final for that file: it is raised, never retried.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write everything, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power loss."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: Path) -> None:
    """Make a published file survive a power loss, bytes and name. One that is gone meanwhile needs nothing."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(path.parent)


def temp_name(tmp: Path) -> Path:
    """A fresh path under the store's `tmp/`."""
    tmp.mkdir(parents=True, exist_ok=True)
    return tmp / f"{os.getpid()}-{os.urandom(6).hex()}"


def reserve(tmp: Path, size_bytes: int, prefix: str = "") -> Path:
    """A file that takes up room and holds nothing."""
    path = temp_name(tmp)
    path = path.with_name(prefix + path.name)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.posix_fallocate(fd, 0, size_bytes)
    except (OSError, AttributeError) as problem:
        path.unlink(missing_ok=True)
        raise problem if isinstance(problem, OSError) else OSError("cannot reserve room here") from problem
    finally:
        os.close(fd)
    return path


def publish(path: Path, data: bytes | memoryview, *, tmp: Path, durable: bool = True, replace: bool = True) -> bool:
    """Write `data` to `path` at once. With `replace=False` an existing file wins and False is returned."""
    temp = temp_name(tmp)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            write_all(fd, data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        return adopt(temp, path, durable=durable, replace=replace)
    finally:
        temp.unlink(missing_ok=True)


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock of a file: the system frees it when its holder ends, however that is."""
    import fcntl

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def claim(path: Path) -> bool:
    """Be the first to make an empty file; False if somebody was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except FileExistsError:
        return False
    return True


def adopt(temp: Path, path: Path, *, durable: bool = True, replace: bool = True) -> bool:
    """Give a finished temporary file its name. The file's own bytes must be synced by whoever wrote them."""
    fresh = not path.parent.is_dir()
    path.parent.mkdir(parents=True, exist_ok=True)
    if replace:
        os.rename(temp, path)
    else:
        try:
            os.link(temp, path)  # unlike rename, fails if somebody was first
        except FileExistsError:
            return False
        except OSError:
            if path.exists():
                return False
            os.rename(temp, path)  # a file system without hard links
    if durable:
        sync_folder(path.parent)
        if fresh:
            sync_folder(path.parent.parent)  # the folder's own name
    return True
