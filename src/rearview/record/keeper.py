"""The one thread of a recording process: once a second it writes what waits and makes it survive a power loss.

It is started with the first record, can be brought to rest and ended by one call, and rests before every fork.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from rearview.record import firsts
from rearview.record.recorder import PATIENCE_S, Recorder
from rearview.store import atomic

PERIOD_S = 1.0
TICK_S = 15.0


class Keeper:
    """Keeps the recorders of this process."""

    def __init__(self, recorders: Callable[[], list[Recorder]], errands: Callable[[Recorder], None]) -> None:
        self._recorders = recorders
        self._errands = errands
        """What else is to be looked at once a second."""
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        """Over starting and stopping, which threads may ask for at once."""
        self._held = False
        """Not to be started now: the process is about to fork, or a run ends."""
        self._last_tick = time.monotonic()
        self.to_sync: list[Path] = []
        """Files written without a sync at the start of a run."""

    def ensure(self) -> None:
        """Start, if not running. Called with every slow write; costs nothing when running."""
        if self._is_settled():
            return
        with self._lock:
            if self._is_settled():  # another thread was quicker
                return
            self._stop = threading.Event()
            thread = threading.Thread(target=self._work, args=(self._stop,), name="rearview-keeper", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down, or the system has no thread left
                return
            self._thread = thread

    def _is_settled(self) -> bool:
        return self._thread is not None or self._held

    def rest(self) -> bool:
        """End the thread and wait for it. The next record starts it again. True if there was one."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stop.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        return thread is not None

    def hold(self) -> bool:
        """Rest, and do not start again before `release`: the process is about to fork, or a run ends. True if there was a thread."""
        self._held = True
        return self.rest()

    def release(self) -> None:
        """The fork is over, or the run has ended."""
        self._held = False

    def forget(self) -> None:
        """In a forked child: there is no thread."""
        self._thread = None
        self._lock = threading.Lock()
        self._held = False
        self.to_sync = []

    def _work(self, stop: threading.Event) -> None:
        with firsts.unseen():
            while not stop.wait(PERIOD_S):
                self.keep()

    def keep(self) -> None:
        """One round."""
        ticking = time.monotonic() - self._last_tick >= TICK_S
        if ticking:
            self._last_tick = time.monotonic()
        for recorder in self._recorders():
            if ticking:
                tick(recorder)
            self._errands(recorder)
            recorder.flush()
            sync(recorder)
        self.sync_files()

    def sync_files(self) -> None:
        """Sync what was written at the start without waiting for the disk."""
        paths, self.to_sync = self.to_sync, []
        for path in paths:
            try:
                atomic.sync_file(path)
            except OSError:
                continue  # the next run, or a check, finds what is missing


def tick(recorder: Recorder) -> None:
    """Note that the process is alive."""
    recorder.fact("tick", wall=time.time(), at=recorder.elapsed_us())


def sync(recorder: Recorder) -> None:
    """Make what was recorded survive a power loss, without holding up whoever records meanwhile."""
    try:
        settle(recorder)
    except OSError:
        pass  # the recorder has said so


def settle(recorder: Recorder) -> bool:
    """The same for whoever relies on it: when it returns, what was recorded by now is on the disk. False if nobody could look, as a write
    takes long; an error of the disk is raised, and the recorder goes on in a new part."""
    with recorder.journal.syncing:
        if not recorder.lock.acquire(timeout=PATIENCE_S):
            return False
        try:
            files, recorder.unsynced = recorder.unsynced, []
            handle = recorder.journal.sync_handle()
        finally:
            recorder.lock.release()
        try:
            for file in files:
                atomic.sync_file(file)
            if handle is not None:
                handle.sync()
        except OSError as problem:
            with recorder.lock:
                recorder.trouble.degrade(problem)
            raise
        finally:
            if handle is not None:
                handle.close()
    return True
