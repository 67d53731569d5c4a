"""`rv.run`: a run that the program begins and ends itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from rearview import session
from rearview.record import endings, lifecycle, source
from rearview.record.off import Off
from rearview.record.open_runs import OpenRun


class RunContext:
    """What `rv.run(...)` returns: the run has begun; leaving the `with` ends it."""

    def __init__(self, run: OpenRun | None) -> None:
        self._run = run
        self._silent = run is None and bool(lifecycle.opened.runs)
        """It could not begin inside another run: what is logged in it is not the other's."""
        if self._silent:
            session.active = Off()

    @property
    def id(self) -> str | None:
        """The run's id; None when recording is off."""
        return self._run.recorder.run if self._run else None

    def __enter__(self) -> RunContext:
        if self._run is not None:
            self._run.entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """End the run now."""
        if self._silent:
            self._silent = False
            session.active = lifecycle.opened.session()
        if self._run is None:
            return
        if isinstance(error, SystemExit):  # leaving the program is no failure by itself
            code = endings.exit_code(error)
            lifecycle.finish(self._run, "failed" if code else "finished", None, code)
        else:
            lifecycle.finish(self._run, "finished" if error is None else "failed", error)

    def __repr__(self) -> str:
        return f"<rearview run {self.id or 'off'}>"


def run_explicitly(name: str | None, tags: Sequence[str], notes_text: str | None, settings: Mapping[str, object]) -> RunContext:
    """Begin an explicit run; one that is open here and not in a `with` ends first."""
    _end_open_runs()
    return RunContext(lifecycle.begin(explicit=True, name=name, tags=tags, notes_text=notes_text, settings=settings))


def end_in_notebook() -> None:
    """In a notebook, where nothing else says so: the run that is open and not in a `with` is over, because somebody asks about it."""
    if source.ipython() is not None:
        _end_open_runs()


def _end_open_runs() -> None:
    with session.lock:
        before = lifecycle.opened.here()
        while before is not None and not before.entered and (before.explicit or source.ipython() is not None):
            lifecycle.finish(before, "finished")
            before = lifecycle.opened.here()
