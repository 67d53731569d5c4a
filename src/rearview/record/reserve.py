"""Room on the disk that is kept for later: a file of that size, given back when it is needed.

Logging goes on with it when checkpoints have filled the disk; a run says its last words in it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rearview.record.say import say
from rearview.store import atomic
from rearview.store.layout import Store

RESERVE_BYTES = 4 << 20
LAST_WORDS_BYTES = 64 << 10
"""How a run ended, and what it lost: without it, one that ended on a full disk would look like one that was killed."""
PREFIX = "reserve-"


class Reserve:
    """Held by a process until it needs it."""

    def __init__(self, store: Store, size_bytes: int = RESERVE_BYTES) -> None:
        self._bytes = size_bytes
        self._path: Path | None = None
        self._held: int | None = None
        """Its lock, which the system frees when this process ends, however it ends: the next one sees that the file is nobody's."""
        try:
            path = atomic.reserve(store.tmp, size_bytes, PREFIX)
        except OSError:
            return  # the disk is full already, or cannot reserve: there is nothing to go on with
        self._path = path
        self._owner = os.getpid()
        self._hold(path)

    def _hold(self, path: Path) -> None:
        import fcntl

        with contextlib.suppress(OSError):  # a file system without locks
            self._held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._held, fcntl.LOCK_SH)

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            with contextlib.suppress(OSError):
                os.close(held)

    def give_back(self) -> bool:
        """The disk is full: True if there is room now."""
        if not self.end():
            return False
        say(f"the disk is full: logging goes on in {self._bytes >> 20} MB that were kept for it; `rearview gc` frees room")
        return True

    def end(self) -> bool:
        """It is not needed any more, or now: True if it was there."""
        path, self._path = self._path, None
        if path is None or self._owner != os.getpid():
            return False
        try:
            path.unlink(missing_ok=True)
        except OSError:  # the next run removes it
            return False
        finally:
            self._let_go()  # else the room is not free
        return True
