"""A private work folder with the project's files, for systems without overlays: clones where the disk can, copies, and links for the rest.

Changes nothing of the user's. Must not know what keeps the program inside it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

MAX_COPY_BYTES = 64 << 20
"""A larger file that the run did not write becomes a link to the real one, unless the disk can clone it."""
MAX_TOTAL_BYTES = 2 << 30
_LEFT_OUT = frozenset((".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache", ".tox"))
"""Folders of tools: linked as they are."""
_FICLONE = 0x40049409


@dataclass(slots=True)
class Layout:
    """How the work folder comes about."""

    folders: list[str] = field(default_factory=list)
    """Below the project, relative to it, like all paths here."""
    copies: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    """Too large to copy: the real files."""
    tools: list[str] = field(default_factory=list)
    """Folders that are linked as they are."""
    copied_bytes: int = 0


def survey(project: Path, store: Path, written: Iterable[str], *, clones: bool) -> Layout:
    """Decide for each file. Touches nothing. `clones`: the disk can."""
    own = {os.path.realpath(path) for path in written}
    top, inner = os.path.realpath(project), os.path.realpath(store)
    found = Layout()
    for folder, folders, files in os.walk(top):
        found.folders.append(os.path.relpath(folder, top))
        for name in list(folders):
            path = os.path.join(folder, name)
            if path == inner or os.path.islink(path) or name in _LEFT_OUT:
                folders.remove(name)
                found.tools.append(os.path.relpath(path, top))
        for name in files:
            path = os.path.join(folder, name)
            size = _size(path)
            small = size is not None and size <= min(MAX_COPY_BYTES, MAX_TOTAL_BYTES - found.copied_bytes)
            if size is not None and (clones or small or path in own):
                found.copies.append(os.path.relpath(path, top))
                found.copied_bytes += 0 if clones else size
            else:
                found.links.append(os.path.relpath(path, top))
    return found


def _size(path: str) -> int | None:
    """None for what cannot be copied."""
    try:
        return os.stat(path).st_size if os.path.isfile(path) and os.access(path, os.R_OK) else None
    except OSError:
        return None


def make(project: Path, work: Path, layout: Layout) -> None:
    """Lay out the work folder."""
    top = os.path.realpath(project)
    for folder in layout.folders:
        os.makedirs(os.path.join(work, folder), exist_ok=True)
    for path in (*layout.tools, *layout.links):
        os.symlink(os.path.join(top, path), os.path.join(work, path))
    for path in layout.copies:
        there, here = os.path.join(top, path), os.path.join(work, path)
        if not clone(there, here):
            shutil.copy2(there, here)


def can_clone(folder: Path) -> bool:
    """Whether the disk that a folder is on can clone files."""
    one, other = folder / "clone-of", folder / "clone"
    try:
        one.write_bytes(b"clone")
        return clone(str(one), str(other))
    except OSError:
        return False
    finally:
        one.unlink(missing_ok=True)
        other.unlink(missing_ok=True)


def clone(path: str, to: str) -> bool:
    """Another file with the same bytes and none of its own on the disk, where the disk can do that."""
    if not os.path.isfile(path):
        return False
    try:
        if sys.platform == "linux":
            import fcntl

            with open(path, "rb") as source, open(to, "xb") as target:
                fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
        elif sys.platform == "darwin":
            import ctypes

            if ctypes.CDLL(None, use_errno=True).clonefile(os.fsencode(path), os.fsencode(to), 0):
                return False
        else:
            return False
        shutil.copystat(path, to)
    except (OSError, AttributeError):
        if os.path.exists(to):
            os.unlink(to)
        return False
    return True
