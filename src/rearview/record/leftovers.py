"""What recordings and resumes leave in a store's `tmp/` when they are killed, removed by whoever comes next.

Room that was reserved is known by a lock that the system frees when its process ends, however it ends; an attempt that was taken by the
process that is in its file. What is somebody's stays, and what cannot be told.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rearview.model import RunId
from rearview.record.reserve import PREFIX
from rearview.record.resume import handshake
from rearview.store import atomic
from rearview.store.layout import Store


def clean(store: Store) -> list[Path]:
    """Remove what the dead have left; gives what was removed."""
    gone = []
    try:
        entries = [Path(entry.path) for entry in os.scandir(store.tmp)]
    except OSError:
        return []
    for path in entries:
        left = path.name.startswith(PREFIX) and _is_free(path)
        if left or (path.name.endswith(handshake.MARK) and _is_over(store, path)):
            with contextlib.suppress(OSError):
                path.unlink()
                gone.append(path)
    return gone


def _is_free(path: Path) -> bool:
    """Whether nobody holds a reserve."""
    try:
        return not atomic.is_held(path)
    except OSError:
        return False


def _is_over(store: Store, mark: Path) -> bool:
    """Whether whoever took an attempt is gone, and it has begun, or left nothing that the next one must keep away from."""
    run, _, name = mark.name.removesuffix(handshake.MARK).partition("-")
    if handshake.lives(handshake.claimed_by(mark), mark):
        return False
    if not store.run(RunId(run)).is_dir():
        return True  # the run was removed
    begun = name[1:].isdigit() and int(name[1:]) <= handshake.last_attempt(store, RunId(run))
    return begun or not (store.run(RunId(run)) / "aside" / name).exists()
