"""What `rearview run` and `resume` note for a child that ended without a word: its exit code or signal."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

from rearview.errors import Damaged, NotFound
from rearview.model import MAIN_PROCESS, RunId
from rearview.record import process
from rearview.record.resume import past
from rearview.store import frames, layout, processes, runs
from rearview.store.journal import JournalWriter, parts_of
from rearview.store.layout import Store

WRITER = past.SUPERVISOR
_CLOCK_SLACK_S = 5.0


def note_exit(root: str, start: Path, pid: int, began: float, code: int) -> None:
    """Add how the child ended to every attempt of its that does not say so itself.

    `root` is the store that the child said it uses; empty if it did not come to that.
    """
    try:
        store = layout.open_store(Path(root)) if root else layout.locate(start)
    except NotFound:
        return  # nothing was recorded
    for run in runs.list_runs(store):
        if store.run(run).stat().st_mtime >= began - _CLOCK_SLACK_S:  # an attempt begins with a new file
            attempt = _attempt_of(store, run, pid)
            if attempt is not None and not _has_ended(store, run, attempt):
                _note(store, run, attempt, code)


def _attempt_of(store: Store, run: RunId, pid: int) -> int | None:
    """The attempt of a run whose main process a child was; None if it was none. What other ranks met is in their own journals."""
    me = (pid, processes.host(), processes.boot_id())
    parts = [(name, path) for name, path in parts_of(store.run(run)) if past.is_main(name.writer)]
    for name, path in parts:
        if name.writer == MAIN_PROCESS and name.part == 1:
            hello: dict[str, Any] = next(past.facts_in(path, "hello"), {})
            if _who(hello) == me:
                return name.attempt
    if parts:
        return None
    try:  # killed before it had a journal
        return 1 if _who(runs.read_run(store, run)) == me else None
    except Damaged:
        return None


def _who(facts: dict[str, Any]) -> tuple[Any, Any, Any]:
    who = facts.get("process") or {}
    return who.get("pid"), who.get("host"), who.get("boot_id")


def _has_ended(store: Store, run: RunId, attempt: int) -> bool:
    return any(
        True
        for name, path in reversed(parts_of(store.run(run)))
        if past.is_main(name.writer) and name.attempt == attempt
        for _ in past.facts_in(path, "end")
    )


def _note(store: Store, run: RunId, attempt: int, code: int) -> None:
    number = -code if code < 0 else None
    name = signal.Signals(number).name if number in set(signal.Signals) else (f"signal {number}" if number else None)
    writer = JournalWriter(store.run(run), WRITER, attempt)
    writer.open_part(process.hello(process.Writer(run, WRITER, attempt, 1, processes.identity()), time.time()))
    writer.append([frames.fact_body("exit", code=None if number else code, signal=name, wall=time.time())])
    writer.close()
