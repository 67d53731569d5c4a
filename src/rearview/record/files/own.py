"""Which of the files that a program writes are the run's own output, and what of them is said in its journal.

Not the store's, not caches in hidden folders at home; of those in the folder for temporary files only what the program holds open at
a boundary, by a name of its own. Looks at names alone. Must not know what is kept of a file (`outputs`), nor what becomes of it (`aside`).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from rearview.record import firsts
from rearview.record.files import written


class Own:
    """Tells the output files of a run from others."""

    def __init__(self, project: Path, store_root: Path) -> None:
        self._project = os.path.join(os.path.abspath(project), "")
        self._store = os.path.join(os.path.abspath(store_root), "")
        self._home = os.path.join(os.path.expanduser("~"), ".")
        with firsts.unseen():  # it tries the folder by a file of its own
            try:
                self._temporary = os.path.join(tempfile.gettempdir(), "")
            except OSError:
                self._temporary = self._store  # there is none that can be written to

    def inside(self) -> tuple[str, ...]:
        """The folders in which everything is the run's own, as the program stands now."""
        try:
            return self._project, os.path.join(os.getcwd(), "")
        except OSError:
            return (self._project,)  # the current folder was removed

    def is_own(self, path: str, inside: tuple[str, ...], *, held: bool) -> bool:
        """Whether a file is the run's output. `held`: the program has, or had, it open at a boundary."""
        if path.startswith(self._store) or path.endswith(".pyc"):
            return False
        if path.startswith(inside):
            return True
        if path.startswith(self._home):
            return False
        return not path.startswith(self._temporary) or (held and not written.is_scratch(path))


def shown_path(path: str, project: str) -> str:
    """A path as rows and facts have it: below the project, relative to it."""
    return path.removeprefix(os.path.join(project, ""))


def fresh(known: dict[str, int], project: Path, store_root: Path) -> dict[str, Any] | None:
    """The fact `outputs`: files first opened for writing, things deleted before the loop, folders made, written files that were read,
    since the last call; None if none.

    What is begun after the last checkpoint is known from here alone. `known` is kept by the caller.
    """
    store, root = os.path.join(store_root, ""), str(project)
    own, opened, removed, read = Own(project, store_root), [], [], []
    inside = own.inside()
    for path, file in list(written.files.items()):
        if path not in known:
            known[path] = file.first
            if not path.startswith(store):
                apart = [] if path.endswith(".pyc") or own.is_own(path, inside, held=False) else [True]
                if not (apart and written.is_scratch(path)):
                    opened.append([shown_path(path, root), file.mode, file.prior_bytes, *apart])
    for path, serial in list(written.removed.items()):
        if known.get("-" + path) != serial:
            known["-" + path] = serial
            before_loop = written.loop_begun is None or serial < written.loop_begun
            if before_loop and not path.startswith(store):
                removed.append(shown_path(path, root))
    folders = _folders(known, store)
    made = [shown_path(path, root) for path, _, _ in folders]
    later = [[shown_path(path, root), wall] for path, in_loop, wall in folders if in_loop]
    for path, (first, last) in list(written.read_back.items()):
        if known.get("<" + path) != int(last * 1e3) and not path.startswith(store):
            known["<" + path] = int(last * 1e3)
            read.append([shown_path(path, root), first, last])
    if not (opened or removed or made or read):
        return None
    more = {"made": made, "made_in_loop": later, "read": read}
    return {"files": opened, "removed": removed, **{name: rows for name, rows in more.items() if rows}}


def _folders(known: dict[str, int], store: str) -> list[tuple[str, bool, float]]:
    """Folders made since: path, whether the main loop ran, when."""
    found = []
    for path, (serial, wall) in list(written.made.items()):
        if known.get("/" + path) != serial:
            known["/" + path] = serial
            if not os.path.join(path, "").startswith(store) and "__pycache__" not in path:
                found.append((path, written.loop_begun is not None and serial >= written.loop_begun, wall))
    return found
