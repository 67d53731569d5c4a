"""What goes wrong while recording, and how often it is said: a failing disk, a value that cannot be kept. Once each."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rearview.errors import RecordingFailed, Unstorable
from rearview.model import RunId
from rearview.record import firsts
from rearview.record.reserve import Reserve
from rearview.record.say import say

RETRY_S = 1.0
_OURS = (firsts.OURS, os.path.dirname(os.__file__) + os.sep, "<frozen ")
"""Where code of ours, and what it calls, lies: rearview itself, the standard library."""
_LONGEST_SHOWN = 80


def is_ours(problem: Exception) -> bool:
    """Whether an exception met while recording is a failure of recording, and not one that a signal handler raised there.

    A handler may raise anything anywhere (a timeout is an OSError too): that one has to reach the program.
    """
    if isinstance(problem, RecordingFailed) or (isinstance(problem, OSError) and problem.errno is not None):
        return True
    trace = problem.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OURS) or "site-packages" in file.removeprefix(_OURS[0]):
            return False
        trace = trace.tb_next
    return True


def is_the_programs(problem: Exception) -> bool:
    """Whether code of the program raised it, in a signal handler mostly, while libraries worked for us: it has to reach the program."""
    trace = problem.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OURS) and not firsts.of_the_interpreter(file):
            return True
        trace = trace.tb_next
    return False


class Trouble:
    """The state of the disk as recording has met it."""

    def __init__(self, run: RunId, root: Path) -> None:
        self._run = run
        self._root = root
        self._warned = False
        self.retry_at = 0.0
        self.failing = False
        """The journal cannot be gone on with: a new part is needed."""
        self.lost = 0
        """Records that could not be written."""
        self.last_words: Reserve | None = None

    def doubt(self) -> None:
        """An exception (Ctrl-C) came in the middle: whether the write happened is not certain, so go on in a new part."""
        self.failing = True
        self.retry_at = 0.0

    def degrade(self, problem: Exception) -> None:
        """Say once that the disk fails, and go on in a new part when it does not."""
        if not self._warned:
            self._warned = True
            reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
            if not isinstance(problem, (OSError, RecordingFailed)):
                reason = f"a fault in rearview, please report it: {type(problem).__name__}: {reason}"
            say(
                f"recording of run {self._run} is degraded: {reason} (in {self._root}); the training goes on, "
                "records are lost until there is room again"
            )
        self.failing = True
        self.retry_at = time.monotonic() + RETRY_S

    def last_try(self) -> None:
        """The run is over: what it says last is written in room that was kept for it, whenever the try before was."""
        self.retry_at = 0.0
        if self.last_words is not None:
            self.last_words.end()

    def due(self) -> bool:
        """Whether it is time to try again."""
        return time.monotonic() >= self.retry_at


class Refusals:
    """Values that could not be kept."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def say(self, name: str, value: object, problem: Unstorable) -> str | None:
        """Say it once by name and type; the type, the first time."""
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        if (name, kind) in self._said:
            return None
        self._said.add((name, kind))
        inside = "" if str(problem) in (kind, f"builtins.{kind}") else f" ({problem})"
        shown = name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "..."
        say(f"{shown!r} cannot be stored: it is a {kind}{inside}; log a number, text, list, dict or array of it instead")
        return kind
