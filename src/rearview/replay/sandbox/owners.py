"""Files of other users or groups below an overlay in a user namespace.

There only the own user and group have a name, so that the kernel refuses to copy up what belongs to somebody else, or lies in a
folder that does. What the program will write is therefore copied to the upper layer beforehand, as its own.
"""

from __future__ import annotations

import os
import shutil
import stat

from rearview.replay.sandbox import copies as sandbox_copies

MAX_FOLDERS = 20_000


def is_foreign(path: str) -> bool:
    """Whether something that is there belongs to another user or group."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return facts.st_uid != os.getuid() or facts.st_gid != os.getgid()


def take_over(root: str, upper: os.PathLike[str], path: str, leave: str) -> None:
    """Let a path below an overlay's root be written: its folders, and the file itself, or all folders in it but `leave`."""
    place = root
    for name in os.path.relpath(path, root).split(os.sep):
        place = os.path.normpath(os.path.join(place, name))
        _take(place, root, upper)
    if place != path or not os.path.isdir(path) or not is_foreign(path):
        return
    count = 0
    for folder, folders, _ in os.walk(path):
        folders[:] = [name for name in folders if os.path.join(folder, name) != leave]
        for name in folders:
            _take(os.path.join(folder, name), root, upper)
        count += len(folders)
        if count > MAX_FOLDERS:
            return


def _take(path: str, root: str, upper: os.PathLike[str]) -> None:
    to = os.path.join(upper, os.path.relpath(path, root))
    if path == root or os.path.lexists(to) or not is_foreign(path):
        return
    kind = os.lstat(path).st_mode
    _folders(os.path.dirname(path), root, upper)
    try:
        if stat.S_ISDIR(kind):
            os.mkdir(to)
            shutil.copystat(path, to)
        elif stat.S_ISREG(kind) and not sandbox_copies.clone(path, to):
            shutil.copy2(path, to)
    except OSError:
        if not stat.S_ISDIR(kind) and os.path.lexists(to):
            os.unlink(to)  # one that may not be read


def _folders(folder: str, root: str, upper: os.PathLike[str]) -> None:
    """Make the folders above something in the upper layer, with the modes they have."""
    to = os.path.join(upper, os.path.relpath(folder, root))
    if folder == root or os.path.isdir(to):
        return
    _folders(os.path.dirname(folder), root, upper)
    os.mkdir(to)
    try:
        shutil.copystat(folder, to)
    except OSError:
        pass
