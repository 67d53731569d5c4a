"""Whether the program that runs writes to memory past torch's count of writes, as far as its source says.

Reads source when it is asked, once for each module; what is in it is for `instrument.uncounted`.
"""

from __future__ import annotations

import linecache
import os
from pathlib import Path

from rearview.instrument import uncounted
from rearview.record import firsts
from rearview.state import scope


class Uncounted:
    """Asked when it matters: reading a project takes longer than one checkpoint may."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._texts: dict[str, str] = {}
        self._own: set[str] = set()
        self._found = False

    def is_there(self) -> bool:
        """Whether something in the modules that are loaded by now may be such a write. What has no source may do anything."""
        files = {str(vars(module).get("__file__")) for _, module in scope.project_modules(self._project)}
        new = files - self._texts.keys()
        if new and not self._found:
            read = {file: _text(file) for file in new}
            self._texts.update((file, text or "") for file, text in read.items())
            self._own.update(*(uncounted.functions(text) for text in read.values() if text))
            # what is new may define what the others call
            self._found = None in read.values() or any(uncounted.writes(text, self._own) for text in self._texts.values())
        return self._found


def _text(file: str) -> str | None:
    """What was imported: the file may have been edited since. None without a source."""
    with firsts.unseen():  # the program did not open it
        held = firsts.sources.get(os.path.abspath(file))
        if held is not None:
            return held.decode("utf-8", "replace")
        lines = linecache.getlines(file)
        return "".join(lines) if lines or os.path.isfile(file) else None
