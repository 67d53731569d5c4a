"""What the program has logged and others have yet to write: calls of `rv.background`, events of a TensorBoard writer.

A checkpoint waits for them. A resume cuts a file back to what it had at the checkpoint: what was logged by then and was not in the
file yet would be in none. Must not know what is kept of a file (`outputs`).
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

PATIENCE_S = 10.0
"""A call that takes longer is not waited for, and the checkpoint says what it lacks."""
_WHY = "calls were under way, or waited, for longer than a checkpoint waits: what they write is not in the files that it holds"

Row = list[str]
"""What it is called, its type, why it matters: as a manifest has it."""


def settle(patience_s: float = PATIENCE_S) -> list[Row]:
    """Wait until what was logged so far is in its files; names what is not.

    Files that are written meanwhile are the program's: this is not to be called unseen.
    """
    until = time.monotonic() + patience_s
    rows: list[Row] = []
    if (background := sys.modules.get("rearview.record.background.wrapping")) is not None:  # only if the program uses it
        rows = [[name, "rv.background", _WHY] for name in background.not_made_within(patience_s)]
    for thread in _event_writers():
        try:
            if not _written_until(thread._queue, until):
                rows.append([thread.name, "TensorBoard's EventFileWriter", _WHY])
            thread._record_writer.flush()
        except Exception:  # noqa: BLE001 (another version of TensorBoard, a writer that is closed by now: it tells the program itself)
            continue
    return rows


def _event_writers() -> list[Any]:
    """The threads that write TensorBoard's event files."""
    kind = getattr(sys.modules.get("tensorboard.summary.writer.event_file_writer"), "_AsyncWriterThread", None)
    return [] if kind is None else [thread for thread in threading.enumerate() if type(thread) is kind]


def _written_until(queue: Any, until: float) -> bool:
    """Whether all that was put into a queue is done by then."""
    with queue.all_tasks_done:
        return bool(queue.all_tasks_done.wait_for(lambda: not queue.unfinished_tasks, max(0.0, until - time.monotonic())))
