"""The scratch folders of replays in a store's `tmp/`: whose they are while they are used, and their end.

A replay is known by a lock that the system frees when its last process ends, however it ends.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from rearview.store import atomic
from rearview.store.layout import Store

PREFIX = "replay-"
_LOCK = "alive"
_WITHOUT_LOCK_S = 3600.0
"""A folder without a lock is being made, or of an unknown kind: it is left alone for so long."""

_held: dict[str, int] = {}
"""Folder -> descriptor of its lock. A worker never closes it: the system does, however the process ends."""


def make(store: Store, replay: str) -> Path:
    """The scratch folder of a replay, ours as long as this process or one of its workers lives."""
    folder = store.tmp / f"{PREFIX}{replay}"
    folder.mkdir(parents=True, exist_ok=True)
    _hold(folder)
    return folder


def stay(scratch: Path) -> None:
    """In a worker: the replay's folder stays as long as it runs, also if whoever started it is gone."""
    for folder in (scratch, *scratch.parents):
        if folder.name.startswith(PREFIX):
            _hold(folder)
            return


def _hold(folder: Path) -> None:
    import fcntl

    if str(folder) in _held:
        return
    atomic.claim(folder / _LOCK)
    fd = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
    except OSError:  # a file system without locks: the age of the folder must do
        os.close(fd)
        return
    _held[str(folder)] = fd


def clean(store: Store) -> list[Path]:
    """Remove the scratch of replays that are no more. Gives what was removed."""
    return [folder for folder in _all(store) if _is_dead(folder) and remove(folder)]


def _all(store: Store) -> Iterator[Path]:
    try:
        entries = list(os.scandir(store.tmp))
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)


def _is_dead(folder: Path) -> bool:
    try:
        return not atomic.is_held(folder / _LOCK)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _WITHOUT_LOCK_S
    except OSError:
        return False  # another user's


def remove(folder: Path) -> bool:
    """Remove a scratch folder with everything in it, also what overlays leave: folders that nobody may enter. Follows no link."""
    held = _held.pop(str(folder), None)
    if held is not None:
        os.close(held)
    try:
        names = list(os.scandir(folder))
    except PermissionError:
        os.chmod(folder, 0o700)
        names = list(os.scandir(folder))
    except OSError:
        return False
    for entry in names:
        path = Path(entry.path)
        try:
            if entry.is_dir(follow_symlinks=False):
                remove(path)
            else:
                _unlink(path)
        except OSError:
            continue  # the folder stays, and is tried again by the next command
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        os.chmod(path.parent, stat.S_IRWXU)
        path.unlink(missing_ok=True)
