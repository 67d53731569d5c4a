"""Which files this program writes, renames and deletes, as the interpreter tells it. Keeps names, looks at nothing else.

Fed by the audit hook (`firsts`), before the thing happens: how large a file was before the program touched it can be learned
only then. Files written by native code pass the hook by; `torch.save` is asked to tell (`watch_torch`). Must be quick and never raise.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

MAX_FILES = 20_000

_WRITING = os.O_WRONLY | os.O_RDWR
_TEMPFILE = f"{os.sep}tempfile.py"


@dataclass(slots=True)
class Written:
    """One file that the program opened for writing."""

    mode: str
    """`w` (what was there goes), `a` (at the end), `x` (new) or `+` (in place), as it was opened first."""
    prior_bytes: int | None
    """Its size before the program touched it; None if it was not there."""
    first: int
    """Serial of the first opening. Serials count over all files: greater means later."""
    serial: int
    """Of the last opening."""


files: dict[str, Written] = {}
"""Absolute path -> what is known, in the order of the first opening."""

removed: dict[str, int] = {}
"""Absolute path of what the program deleted, or moved away -> serial: a folder stands for everything in it."""

made: dict[str, tuple[int, float]] = {}
"""Absolute path of a folder that the program made -> serial, and when, by the clock on the wall."""

scratch: set[str] = set()
"""Absolute path of a file or folder whose name `tempfile` made up."""

read_back: dict[str, list[float]] = {}
"""Absolute path of a file that the program wrote and then read -> when first and when last, by the clock on the wall."""

loop_begun: int | None = None
"""The serial at which the main loop began; what was opened or deleted before is so again when the run is resumed."""

_serials = itertools.count(1)


def mode_of(mode: object, flags: object) -> str | None:
    """How an `open` writes: `w`, `a`, `x`, `+`; None if it only reads.

    >>> [mode_of(mode, 0) for mode in ("r", "w", "ab", "x", "r+b")]
    [None, 'w', 'a', 'x', '+']
    """
    if isinstance(mode, str):
        return next((letter for letter in "wax+" if letter in mode), None)
    if not isinstance(flags, int) or not flags & _WRITING:
        return None
    if flags & os.O_TRUNC:
        return "w"
    if flags & os.O_APPEND:
        return "a"
    return "x" if flags & os.O_EXCL else "+"


def opened(path: str, mode: str) -> None:
    """A file is about to be opened for writing."""
    known = files.get(path)
    if known is not None:
        known.serial = next(_serials)
        if mode == "w":
            known.mode = "w"
    elif len(files) < MAX_FILES:
        serial = next(_serials)
        files[path] = Written(mode, _size(path), serial, serial)


def read(path: str) -> None:
    """A file that the program wrote is about to be read."""
    now = time.time()
    read_back.setdefault(path, [now, now])[1] = now


def is_scratch(path: str) -> bool:
    """Whether a file is one that `tempfile` made, or in a folder that it made."""
    while scratch and path not in scratch:
        parent = os.path.dirname(path)
        if parent == path:
            return False
        path = parent
    return bool(scratch)


def made_by(caller: str, path: object) -> None:
    """A new file or folder is about to be made by the code in a file: `tempfile` chooses names that mean nothing."""
    if caller.endswith(_TEMPFILE) and len(scratch) < MAX_FILES and (absolute := _absolute(path)) is not None:
        scratch.add(absolute)


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _absolute(path: object) -> str | None:
    if isinstance(path, (str, bytes, os.PathLike)):
        return os.path.abspath(os.fsdecode(path))
    return None


def happened(event: str, args: tuple[Any, ...]) -> None:
    """Something else is about to be done to a file: `os.remove`, `os.rename`, `os.truncate`, `shutil.rmtree`, `os.mkdir`."""
    path = _absolute(args[0])
    if event == "os.mkdir":
        if path is not None and args[2] < 0 and len(made) < MAX_FILES and not os.path.lexists(path):
            made[path] = next(_serials), time.time()
        return
    relative_to_folder = any(isinstance(fd, int) and fd >= 0 for fd in args[1:]) and event != "os.truncate"
    if path is None or relative_to_folder:
        return
    if event == "os.rename":
        to = _absolute(args[1])
        if to is not None and path in files:  # written beside, then put in its place: the usual way to replace a file at once
            serial, before = next(_serials), files.get(to)
            files[to] = Written("w", before.prior_bytes, before.first, serial) if before else Written("w", _size(to), serial, serial)
            files.pop(path)
            return
    if event == "os.truncate":
        opened(path, "+")
    elif len(removed) < MAX_FILES:
        removed[path] = next(_serials)


EVENTS = frozenset(("os.remove", "os.rename", "os.truncate", "shutil.rmtree", "os.mkdir"))


def now() -> int:
    """The serial of this moment: what happens later has a greater one."""
    return next(_serials)


def watch_torch() -> None:
    """Let `torch.save(..., path)` say which file it writes: its C++ writer opens it unseen."""
    serialization = sys.modules.get("torch.serialization")
    writer: Any = getattr(serialization, "_open_zipfile_writer_file", None)
    begin = getattr(writer, "__init__", None)
    if begin is None or getattr(begin, "_tells_rearview", False):
        return

    @functools.wraps(begin)
    def telling(self: object, name: object, *args: object, **kwargs: object) -> object:
        try:
            path = _absolute(name)
            if path is not None:
                opened(path, "w")
        except (OSError, TypeError, ValueError):
            pass  # an observer never gets in the way
        return begin(self, name, *args, **kwargs)

    telling._tells_rearview = True  # type: ignore[attr-defined]
    try:
        writer.__init__ = telling
    except (AttributeError, TypeError):
        pass  # a torch whose files are written otherwise
