"""What `rearview run` notes for a child that ended without a word: its exit code or signal."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

from rearview.errors import Damaged, NotFound
from rearview.model import RunId
from rearview.record import process
from rearview.store import frames, layout, runs
from rearview.store.journal import JournalWriter, parts_of
from rearview.store.layout import Store

WRITER = "supervisor"
_CLOCK_SLACK_S = 5.0


def note_exit(root: str, start: Path, pid: int, began: float, code: int) -> None:
    """Add how the child ended to every run of it that does not say so itself.

    `root` is the store that the child said it uses; empty if it did not come to that.
    """
    try:
        store = layout.open_store(Path(root)) if root else layout.locate(start)
    except NotFound:
        return  # nothing was recorded
    for run in runs.list_runs(store):
        if _is_of(store, run, pid, began) and not _has_ended(store, run):
            _note(store, run, code)


def _is_of(store: Store, run: RunId, pid: int, began: float) -> bool:
    if (store.run(run) / "run.json").stat().st_mtime < began - _CLOCK_SLACK_S:
        return False
    try:
        who = runs.read_run(store, run)["process"]
    except (Damaged, KeyError):
        return False
    return (who["pid"], who["host"], who["boot_id"]) == (pid, socket.gethostname(), process.boot_id())


def _has_ended(store: Store, run: RunId) -> bool:
    for name, path in reversed(parts_of(store.run(run))):
        if "." in name.writer or name.writer == WRITER:
            continue
        for _, body in frames.walk(path.read_bytes(), frames.Reading()):
            if body[0] == frames.FACT and frames.read_fact(body)["fact"] == "end":
                return True
    return False


def _note(store: Store, run: RunId, code: int) -> None:
    number = -code if code < 0 else None
    name = signal.Signals(number).name if number in set(signal.Signals) else (f"signal {number}" if number else None)
    writer = JournalWriter(store.run(run), WRITER)
    writer.open_part(process.hello(process.Writer(run, WRITER, 1, 1, process.identity()), time.time()))
    writer.append([frames.fact_body("exit", code=None if number else code, signal=name, wall=time.time())])
    writer.close()
