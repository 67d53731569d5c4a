"""The runs that are open in this process, and which of them a call means: that of its thread or task, else the main one's.

Knows nothing of how runs begin and end (`lifecycle`). One open run is the session itself; with several a switch decides.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rearview import config, session
from rearview.record import loops, notes
from rearview.record.off import AlwaysRun
from rearview.record.recorder import Recorder
from rearview.versions.snapshot import Snapshot


@dataclass(slots=True, eq=False)
class OpenRun:
    """A run that is going on in this process."""

    recorder: Recorder
    project: Path
    settings: config.Settings
    snapshot: Snapshot | None
    """The version as far as this process keeps it up; None in a process that joined."""
    joined: bool
    """This process came to a run that another one began."""
    explicit: bool
    mark: str
    """What `REARVIEW_RUN` says to the children of this run."""
    entered: bool = False
    """Inside a `with`."""
    is_open: bool = True
    outer: OpenRun | None = None
    """The run around it."""
    outer_node: loops.Node | None = None
    """Where the program was in the loops of the run around it."""
    in_main_thread: bool = True
    resumed: Mapping[str, Any] | None = None
    """Where this attempt began, if the program goes on by itself: nobody else tells what came of it."""
    kept: notes.Kept = field(default_factory=notes.Kept)


_mine: ContextVar[OpenRun | None] = ContextVar("rearview_run", default=None)
"""The innermost run begun in this thread or task."""


class OpenRuns:
    """The open runs of the process in the order they began."""

    def __init__(self) -> None:
        self.runs: list[OpenRun] = []

    def here(self) -> OpenRun | None:
        """The run that a call in this thread or task means."""
        run = _mine.get()
        while run is not None and not run.is_open:
            run = run.outer
        if run is not None or not self.runs:
            return run
        return next((run for run in reversed(self.runs) if run.in_main_thread), self.runs[-1])

    def add(self, run: OpenRun) -> None:
        """A run has begun here."""
        run.outer = self.here()
        run.outer_node = loops.current.get()
        run.in_main_thread = threading.current_thread() is threading.main_thread()
        loops.current.set(run.recorder.root)
        self.runs.append(run)
        _mine.set(run)

    def remove(self, run: OpenRun) -> None:
        """A run has ended; where it began, the program is back in the loops around it."""
        run.is_open = False
        self.runs.remove(run)
        if _mine.get() is run:
            _mine.set(run.outer if run.outer is not None and run.outer.is_open else None)
            loops.current.set(run.outer_node)

    def inside(self, run: OpenRun) -> list[OpenRun]:
        """The open runs begun inside one, the newest first."""
        return [other for other in reversed(self.runs) if other is not run and self._is_inside(other, run)]

    @staticmethod
    def _is_inside(run: OpenRun | None, around: OpenRun) -> bool:
        while run is not None and run is not around:
            run = run.outer
        return run is around

    def session(self) -> session.Session | None:
        """What the public calls are to ask from now on."""
        if not self.runs:
            return None
        return self.runs[0].recorder if len(self.runs) == 1 else _Switch(self)


class _Switch:
    """The session while several runs are open: each call goes to the run of its thread or task."""

    def __init__(self, runs: OpenRuns) -> None:
        self._runs = runs

    def _recorder(self) -> Recorder | None:
        run = self._runs.here()
        return None if run is None else run.recorder

    @property
    def store(self) -> Any:
        """Where the run of the caller is recorded."""
        return getattr(self._recorder(), "store", None)

    def log(self, name: str, value: object, volatile: bool) -> None:
        """Keep one record in the run it was made in."""
        recorder = self._recorder()
        if recorder is not None:
            recorder.log(name, value, volatile)

    def arg(self, name: str, default: Any) -> Any:
        """The value of an argument in the run that asks."""
        recorder = self._recorder()
        return default if recorder is None else recorder.arg(name, default)

    def checkpointing(self, given: dict[str, object], frame: FrameType) -> AbstractContextManager[Any]:
        """For the loops of the run that the caller is in."""
        recorder = self._recorder()
        return nullcontext() if recorder is None else recorder.checkpointing(given, frame)

    def skip_block(self, name: str) -> Any:
        """A block of the run that the caller is in."""
        recorder = self._recorder()
        return AlwaysRun(name) if recorder is None else recorder.skip_block(name)

    def loop(self, name: str, iterable: Iterable[Any] | None) -> Iterable[Any]:
        """A loop of the run that it begins in."""
        recorder = self._recorder()
        if recorder is None:  # the last run ended in another thread just now
            return itertools.count() if iterable is None else iterable
        return loops.Loop(recorder, recorder.root, name, iterable, sys._getframe(2))
