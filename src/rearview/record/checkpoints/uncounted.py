"""Whether the program that runs, or a library that it uses, writes to memory past torch's count of writes, as far as its source says.

Reads source when it is asked, once for each module; what is in it is for `instrument.uncounted`.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from pathlib import Path

from rearview.instrument import uncounted
from rearview.record import firsts
from rearview.state import scope

_HARMLESS = frozenset("torch torchgen functorch numpy sympy mpmath networkx jinja2 markupsafe filelock fsspec typing_extensions".split())
"""Libraries that are there with torch, and torch itself: what it writes in this way, it writes as a whole."""


_MOST = 1 << 20
"""Characters of libraries that are looked into."""


class Uncounted:
    """Asked when it matters: reading a project takes longer than one checkpoint may."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._texts: dict[str, str] = {}
        self._own: set[str] = set()
        self._found = False
        self._libraries: set[str] = set()
        self._found_in_libraries = False

    def is_there(self) -> bool:
        """Whether something in the modules that are loaded may be such a write. What of the project has no source may do anything."""
        return self._is_in_libraries() or self._is_in_project()

    def _is_in_libraries(self) -> bool:
        if not self._found_in_libraries:
            new = scope.library_files(self._project, _HARMLESS) - self._libraries
            self._libraries |= new
            with firsts.unseen():
                self._found_in_libraries = _one_writes(sorted(new))
        return self._found_in_libraries

    def _is_in_project(self) -> bool:
        files = {str(vars(module).get("__file__")) for _, module in scope.project_modules(self._project)}
        new = files - self._texts.keys()
        if new and not self._found:
            read = {file: _text(file) for file in new}
            self._texts.update((file, text or "") for file, text in read.items())
            self._own.update(*(uncounted.functions(text) for text in read.values() if text))
            # what is new may define what the others call
            self._found = None in read.values() or any(uncounted.writes(text, self._own) for text in self._texts.values())
        return self._found


def _one_writes(files: Iterable[str]) -> bool:
    """Whether a library does, or there is so much of them that something in it will."""
    left = _MOST
    for file in files:
        text = _content(file)
        if uncounted.may_write(text):
            left -= len(text)
            if left < 0 or uncounted.writes(text):
                return True
    return False


def _content(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""


def _text(file: str) -> str | None:
    """What was imported: the file may have been edited since. None without a source."""
    with firsts.unseen():  # the program did not open it
        held = firsts.sources.get(os.path.abspath(file))
        if held is not None:
            return held.decode("utf-8", "replace")
        lines = linecache.getlines(file)
        return "".join(lines) if lines or os.path.isfile(file) else None
