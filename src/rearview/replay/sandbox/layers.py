"""Overlays over folders: each shows the files that are there and keeps all changes in scratch. And what lies inside what.

Scratch is reached by a descriptor throughout: once a folder around it is covered, its path leads elsewhere.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from rearview.replay.sandbox import linux as sandbox_linux
from rearview.replay.sandbox import owners as sandbox_owners


def below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it.

    >>> below("/a/b", "/a"), below("/ab", "/a"), below("/a", "/a")
    (True, False, True)
    """
    return path == folder or path.startswith(os.path.join(folder, ""))


def outermost(folders: Iterable[str]) -> list[str]:
    """Those that lie in none of the others.

    >>> outermost(["/a/b", "/c", "/a", "/a/b/d"])
    ['/a', '/c']
    """
    kept: list[str] = []
    for folder in sorted(set(folders), key=lambda one: (one.count(os.sep), one)):
        if not any(below(folder, one) for one in kept):
            kept.append(folder)
    return kept


def real_paths(paths: Iterable[str]) -> list[str]:
    """Paths with all links followed, because writing follows them; quick for many files in few folders."""
    folders: dict[str, str] = {}
    found = []
    for path in paths:
        folder, name = os.path.split(path)
        if not name or os.path.islink(path):
            found.append(os.path.realpath(path))
            continue
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        found.append(os.path.join(folders[folder], name))
    return found


class Layers:
    """Makes the folders that overlays write to, and mounts them."""

    def __init__(self, scratch: int, scratch_path: str, wanted: Iterable[str], *, user_namespace: bool) -> None:
        self._scratch = Path(sandbox_linux.by_descriptor(scratch))
        self._scratch_path = scratch_path
        self._wanted = real_paths(wanted) if user_namespace else []
        """What the program will write to, as far as that is known."""
        self._user_namespace = user_namespace
        self._count = 0
        self.originals: dict[str, str] = {}
        """Covered folder -> where in scratch its files can be read as they are outside."""
        self.in_memory = False
        """Some changes are kept in memory."""

    def cover(self, root: str, *, memory: bool = False) -> list[str]:
        """Overlay a folder and what is mounted below it. Gives the places where the program can write now.

        With `memory`, changes are kept in memory: the folder is there for that.
        """
        places = [root, *(one for one in dict.fromkeys(sandbox_linux.mount_points()) if self._belongs_to(one, root))]
        held = [os.open(one, os.O_PATH | os.O_CLOEXEC) for one in places]
        try:
            was = self._show_original(held[0])
            if memory:
                self._overlay(self._memory(), held[0], root)
            else:
                self._mount(held[0], root)
            self.originals[root] = was
            return [root, *(place for fd, place in zip(held[1:], places[1:], strict=True) if self._cover_inner(fd, place))]
        finally:
            for fd in held:
                os.close(fd)

    def _show_original(self, fd: int) -> str:
        """Make a folder readable as it is, at another place; before it is covered, or that would be shown too."""
        was = os.path.join("was", str(self._count))
        (self._scratch / was).mkdir(parents=True, exist_ok=True)
        sandbox_linux.bind(fd, str(self._scratch / was), read_only=True)
        return was

    def _belongs_to(self, place: str, root: str) -> bool:
        return place != root and below(place, root) and not below(place, self._scratch_path) and os.path.exists(place)

    def _cover_inner(self, fd: int, place: str) -> bool:
        """Something mounted inside a covered folder would be missing there. What cannot be overlaid is shown as it is."""
        try:
            self._mount(fd, place)
            return True
        except OSError:
            sandbox_linux.bind(fd, place)  # made read-only with everything else that is not covered
            return False

    def _mount(self, lower: int, target: str) -> None:
        if not stat.S_ISDIR(os.fstat(lower).st_mode):
            raise NotADirectoryError(20, f"{target} is a file that is mounted by itself")
        try:
            self._overlay(self._scratch / "layers", lower, target)
        except OSError:
            self._overlay(self._memory(), lower, target)
            self.in_memory = True

    def _memory(self) -> Path:
        """A file system in memory, for disks that an overlay cannot write to (network, or an overlay themselves)."""
        place = self._scratch / "layers" / "memory"
        if not place.is_dir():
            place.mkdir(parents=True)
            sandbox_linux.mount("rearview", str(place), "tmpfs")
        return place

    def _overlay(self, layers: Path, lower: int, target: str) -> None:
        self._count += 1
        upper, work = (layers / str(self._count) / name for name in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        shutil.copystat(target, upper)  # the top folder's own mode is the upper one's
        if self._user_namespace:
            for path in self._wanted:
                if below(path, target):
                    sandbox_owners.take_over(target, upper, path, self._scratch_path)
        to, aside = (os.open(one, os.O_PATH | os.O_CLOEXEC) for one in (upper, work))
        try:
            sandbox_linux.mount_overlay(lower, to, aside, target, user_namespace=self._user_namespace)
        finally:
            os.close(to)
            os.close(aside)
