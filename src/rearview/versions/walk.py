"""Finding files in a folder without git: nearest folders first, bounded in time and number.

Knows the disk and ignore files. Must not know what is source (`wanted` says) or what is done with the files. Folders
that are links are never entered, so a walk ends and stays in the project.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rearview.versions import rules
from rearview.versions.ignore import Patterns

_SYSTEM_FOLDERS = frozenset({b"/proc", b"/sys", b"/dev", b"/run"})
_NEVER = frozenset({b".git", b".rearview"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a snapshot may look at, so that a project as large as a home folder delays a run by seconds, not minutes."""

    files: int = 20_000
    """Files taken."""
    new_files: int = 2_000
    """Files taken that nobody tracks: more of them are no project, but a home folder."""
    total_bytes: int = 128 << 20
    """Bytes read."""
    entries: int = 200_000
    """Names looked at in a walk."""
    folder_entries: int = 20_000
    """Names looked at in one folder: one with more is data."""
    listing_s: float = 2.0
    """For finding the files."""
    seconds: float = 10.0
    """For everything."""


@dataclass(slots=True)
class Found:
    """What a walk found."""

    paths: list[bytes] = field(default_factory=list)
    """Relative to the project."""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Folder:
    path: bytes
    """Relative, with a slash at the end; empty for the project itself."""
    ignoring: tuple[tuple[bytes, Patterns], ...]
    """The ignore files that hold here, with their folders, the outermost first."""


def find(project: bytes, wanted: Callable[[str], bool], bounds: Bounds, *, start: bytes = b"", everything: bool = False) -> Found:
    """Files below `start` that are wanted. With `everything`, ignored and skipped folders are looked into as well."""
    found = Found()
    deadline = time.monotonic() + bounds.listing_s
    pending = deque([_Folder(start.rstrip(b"/") + b"/" if start else b"", ())])
    looked_at = 0
    while pending:
        folder = pending.popleft()
        names = _list(project, folder.path, bounds.folder_entries)
        if names is None:
            continue
        looked_at += len(names)
        if len(names) >= bounds.folder_entries:
            where = os.fsdecode(folder.path) or "the project's folder"
            found.notes.append(f"only the first {bounds.folder_entries} files in {where} were looked at")
        if not everything:
            if folder.path and any(os.fsencode(mark) in names for mark in rules.ENVIRONMENT_MARKS):
                continue
            folder = _with_ignore_file(project, folder, names)
        for name, is_folder in sorted(names.items()):
            if name in _NEVER or (not everything and _left_out(folder, name, is_folder)):
                continue
            if is_folder:
                if project.rstrip(b"/") + b"/" + folder.path + name not in _SYSTEM_FOLDERS:
                    pending.append(_Folder(folder.path + name + b"/", folder.ignoring))
            elif wanted(os.fsdecode(folder.path + name)):
                found.paths.append(folder.path + name)
        if looked_at > bounds.entries or len(found.paths) > bounds.new_files or time.monotonic() > deadline:
            if pending:
                found.notes.append(_cut_short(pending[0].path, looked_at))
            break
    return found


def _cut_short(path: bytes, looked_at: int) -> str:
    return (
        f"the project is large: after {looked_at} files the search for source stopped at {os.fsdecode(path)}; modules that "
        "are imported are kept all the same; ignore folders of data in .gitignore, or make the project's folder smaller"
    )


def _list(project: bytes, folder: bytes, at_most: int) -> dict[bytes, bool] | None:
    """Name -> is it a folder, of what a snapshot can take; None if the folder vanished or cannot be read."""
    names: dict[bytes, bool] = {}
    try:
        with os.scandir(os.path.join(project, folder)) as entries:
            for entry in _first(entries, at_most):
                names[entry.name] = entry.is_dir(follow_symlinks=False)
    except OSError:
        return names or None
    return names


def _first(entries: Iterator[os.DirEntry[bytes]], at_most: int) -> Iterator[os.DirEntry[bytes]]:
    for _, entry in zip(range(at_most), entries, strict=False):
        yield entry


def _with_ignore_file(project: bytes, folder: _Folder, names: dict[bytes, bool]) -> _Folder:
    if b".gitignore" not in names:
        return folder
    try:
        with open(os.path.join(project, folder.path, b".gitignore"), "rb") as file:
            lines = file.read(1 << 20).split(b"\n")
    except OSError:
        return folder
    return _Folder(folder.path, (*folder.ignoring, (folder.path, Patterns.parse(lines))))


def _left_out(folder: _Folder, name: bytes, is_folder: bool) -> bool:
    if is_folder and rules.skipped_folder(os.fsdecode(name)):
        return True
    path = folder.path + name
    for base, patterns in reversed(folder.ignoring):
        ignored = patterns.match(path[len(base) :], is_folder=is_folder)
        if ignored is not None:
            return ignored
    return False
