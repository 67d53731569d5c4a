"""In a worker: what added statements made before the main loop, and whether it stays as it was made.

Every worker makes such an object anew, and no checkpoint has it. One that only answers (a loss, a reference model) is the same in each; one
that counts along would begin from nothing in each stretch. It is looked at where a probe first finds it, and after each iteration: a worker
may be ended at any time, and what it did until then may be kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType, FunctionType, ModuleType
from typing import Any

from rearview.record.checkpoints.differing import buffer_digests
from rearview.state.capture import capture
from rearview.state.digests import root_digests
from rearview.state.tree import RootKey

_NOT_THERE = object()


class Along:
    """The objects of hindsight in one process."""

    def __init__(self, names: Iterable[str]) -> None:
        self._waiting = set(names)
        self._held: dict[str, tuple[Any, str | None]] = {}
        """Name -> what it meant when a probe first found it, and what that was."""

    def look(self, frame: FrameType) -> None:
        """A probe begins: what of it is there now?"""
        if not self._waiting:
            return
        variables = frame.f_locals
        for name in list(self._waiting):
            value = variables.get(name, frame.f_globals.get(name, _NOT_THERE))
            if value is not _NOT_THERE:
                self._waiting.discard(name)
                self._held[name] = value, _told(value)

    def changed(self) -> list[str]:
        """What is not as it was found, or cannot be told to be, and was not said before."""
        found = sorted(name for name, (value, before) in self._held.items() if before is None or _told(value) != before)
        for name in found:
            del self._held[name]
        return found


def _told(value: Any) -> str | None:
    """What an object is; None if something in it cannot be looked into."""
    captured = capture(_roots(value))
    if captured.missing:
        return None
    return repr(sorted(root_digests(captured.tree, buffer_digests(captured)).items(), key=repr))


def _roots(value: Any) -> dict[RootKey, object]:
    """The object; of a module that was brought along, or of what came from it, the module's variables."""
    module = value if isinstance(value, ModuleType) else None
    if isinstance(value, (FunctionType, type)):
        module = sys.modules.get(value.__module__)
    if module is None:
        return {("along", ""): value}
    every = {name: one for name, one in vars(module).items() if not name.startswith("__") and not isinstance(one, ModuleType)}
    return {("along", name): one for name, one in every.items()}
