"""A queue of calls and the one low-priority thread that makes them, in order. The heart of `rv.background`.

Knows calls as things to run, their bytes and where they were asked for; knows nothing of what they do. What must hold:

- Calls are made one at a time, in the order in which they came, each at most once.
- No more than the limit of bytes waits. Whoever has to wait does not look on: it makes the oldest calls itself, so a thread at low
  priority on a busy machine cannot hold up the program (and a flush needs no thread at all). What of a call needs no order is
  prepared outside of its turn, by several threads if several have time; a thread that is slow at it is not waited for.
- The first error of a call is kept until somebody can be told.
- A forked child has an empty queue and no thread; the calls of its parent stay the parent's.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from rearview.record.background.calls import Call
from rearview.store import direct

LIMIT_BYTES = 256 << 20
IDLE_S = 5.0
"""A thread without work ends after so long; the next call starts one."""
FORK_WAIT_S = 1.0
"""How long a fork lets the call under way finish, so that the child finds the object whole. A long one is not waited for."""
_LOOK_AGAIN_S = 0.002
_LOOK_AHEAD = 64
_GONE_S = 0.1


@dataclass(slots=True)
class Stats:
    """What the queue of one wrapped object did so far."""

    calls: int = 0
    """Calls queued."""
    direct: int = 0
    """Calls made at once, since an argument of theirs cannot be copied."""
    waits: int = 0
    """Calls that had to wait for room."""
    waited_s: float = 0.0
    """Seconds they waited."""
    peak_bytes: int = 0
    """The most bytes that waited at a time."""


_busy: set[Queue] = set()
"""Queues in which calls wait, or an error: not to be collected, even if the program has dropped the wrapped object."""


class Queue:
    """Calls of one wrapped object."""

    def __init__(self, name: str, limit_bytes: int = LIMIT_BYTES, on_full: Callable[[Queue], None] | None = None) -> None:
        self.name = name
        self.limit_bytes = limit_bytes
        self.stats = Stats()
        self._on_full = on_full
        self._error: Call | None = None
        self._later_errors = 0
        self.owner: object = None
        """What is to stay as long as calls wait."""
        self.on_idle: Callable[[], None] | None = None
        """Called, in turn, after a call that no other waits behind."""
        self.told_full = False
        """Whether the person knows that it is full at times."""
        self._forget()

    def _forget(self) -> None:
        """An empty queue with locks of its own."""
        self._waiting: deque[Call] = deque()
        self._changed = threading.Condition(threading.Lock())
        """Over everything below; never held while a call runs."""
        self._running = threading.Lock()
        """Held while a call runs."""
        self._runner: int | None = None
        self._under_way = 0
        """The number of the call that runs, or ran last."""
        self._too_long = -1
        self._bytes = 0
        self._put = 0
        self._made = 0
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    @property
    def pending(self) -> int:
        """Calls that were not made yet, the one under way included."""
        return self._put - self._made

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait, those of the call under way included."""
        return self._bytes

    @property
    def used(self) -> bool:
        """Whether this process has put calls here."""
        return self._put > 0

    # -- asking ----------------------------------------------------------------------------------------------------------

    def make_room(self, nbytes: int) -> None:
        """Reserve so many bytes, first making the oldest calls if too much waits. A call larger than the limit waits for all others."""
        if self._runner == threading.get_ident():  # asked for by a call of this queue: it cannot wait for itself
            with self._changed:
                self._bytes += nbytes
            return
        began = None
        while True:
            with self._changed:
                if self._bytes + nbytes <= self.limit_bytes or self._bytes == 0:
                    self._bytes += nbytes
                    self.stats.peak_bytes = max(self.stats.peak_bytes, self._bytes)
                    break
            if began is None:
                began = time.perf_counter()
                if self._on_full is not None:
                    self._on_full(self)
            self._help()
        if began is not None:
            self.stats.waits += 1
            self.stats.waited_s += time.perf_counter() - began

    def give_back(self, nbytes: int) -> None:
        """The reserved bytes are not needed."""
        with self._changed:
            self._bytes -= nbytes

    def put(self, call: Call) -> Call:
        """Queue a call whose bytes were reserved."""
        with self._changed:
            self._put += 1
            call.number = self._put
            self._waiting.append(call)
            _busy.add(self)
            self.stats.calls += 1
            self._ensure()
            self._changed.notify()
        return call

    def drain(self, upto: int | None = None) -> None:
        """Wait until every call put so far (or up to a number) was made, helping."""
        if self._runner == threading.get_ident():
            return
        upto = self._put if upto is None else upto
        while self._made < upto:
            self._help()

    def made_until(self, until: float) -> bool:
        """Wait until every call put so far was made; False if that takes longer than to a moment of the monotonic clock.

        Looks on: a call that hangs would hold whoever makes it. Only where there is no thread to be had, helps.
        """
        if self._runner == threading.get_ident():
            return True  # a call of ours asks: it is not waited for
        upto = self._put
        with self._changed:
            if self._made < upto:
                self._ensure()
            alone = self._thread is None
            made = alone or self._changed.wait_for(lambda: self._made >= upto, until - time.monotonic())
        if alone:
            self.drain(upto)
        return made

    def _help(self) -> None:
        """Bring the queue on; if nothing waits, wait for those who make calls, or are about to put some."""
        if self._bring_on():
            return
        if self._running.acquire(blocking=False):
            self._running.release()
            with self._changed:
                self._changed.wait(_LOOK_AGAIN_S)
        else:
            with self._running:
                pass

    def wait(self, call: Call, timeout_s: float | None) -> bool:
        """Wait for one call; with a time limit only looking on."""
        if timeout_s is None:
            self.drain(call.number)
            return call.done
        with self._changed:
            return self._changed.wait_for(lambda: call.done, timeout_s)

    # -- making ----------------------------------------------------------------------------------------------------------

    def _bring_on(self, stop: threading.Event | None = None) -> bool:
        """Prepare or make the oldest call, or prepare another while somebody else is at it; False if none waits.

        Nothing is prepared with `_running` held: a thread at low priority may be slow, and then another does it again.
        """
        with self._changed:
            if not self._waiting:
                return False
            oldest = self._waiting[0]
        if not oldest.is_ready():
            if not oldest.is_open() and self._prepare_another():
                return True
            oldest.get_ready()
        if self._running.acquire(blocking=False) or (not self._prepare_another() and self._running.acquire()):
            try:
                if not (stop is not None and stop.is_set()):
                    self._make(oldest)
            finally:
                self._running.release()
        return True

    def _prepare_another(self) -> bool:
        """Prepare a call that waits behind the oldest; False if there is none that nobody has begun."""
        with self._changed:
            another = next((call for call in islice(self._waiting, 1, _LOOK_AHEAD) if call.is_open()), None)
        if another is not None:
            another.get_ready()
        return another is not None

    def _make(self, call: Call) -> None:
        """Make a call, unless another thread was quicker. With `_running` held."""
        with self._changed:
            if not self._waiting or self._waiting[0] is not call:
                return
            self._waiting.popleft()
        self._runner, self._under_way = threading.get_ident(), call.number
        try:
            if call.error is None:
                call.value = call.run()
            if self.on_idle is not None and not self._waiting:
                self.on_idle()
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # it met us while we helped: it is the program's
            call.error = problem  # whatever the user's object raises is kept, and raised to the user
        finally:
            self._runner = None
            self._finished(call)

    def _finished(self, call: Call) -> None:
        call.drop()  # its arguments may be large
        with self._changed:
            self._bytes -= call.nbytes
            self._made = max(self._made, call.number)
            call.done = True
            if call.error is not None:
                if self._error is None:
                    self._error = call
                else:
                    self._later_errors += 1
            if not self._waiting and self._error is None:
                _busy.discard(self)
            self._changed.notify_all()

    def _ensure(self) -> None:
        """Start a thread if there is none. Called with the lock held."""
        if self._thread is not None:
            return
        stop = self._stop = threading.Event()
        thread = threading.Thread(target=self._work, args=(stop,), name=f"rearview-background-{self.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is shutting down, or the system has no thread left: drain makes the calls
            return
        self._thread = thread

    def _work(self, stop: threading.Event) -> None:
        direct.low_priority()
        while not stop.is_set():
            if not self._bring_on(stop):
                with self._changed:
                    idle = not self._waiting and not stop.is_set() and not self._changed.wait(IDLE_S) and not self._waiting
                    if idle:
                        if self._stop is stop:
                            self._thread = None
                        return

    # -- rest, fork, failure -----------------------------------------------------------------------------------------------

    def begin_rest(self) -> None:
        """Begin no further call on the thread, without waiting for it: before several queues are brought to rest."""
        self._stop.set()

    def rest(self, patience_s: float | None = None) -> None:
        """End the thread after the call under way. What waits stays; the next call, `drain` or the exit goes on with it."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._stop.set()
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(patience_s)
            if not thread.is_alive():
                _wait_until_gone(thread.native_id)

    def give_up(self) -> int:
        """Drop what waits; how many calls that were."""
        with self._changed:
            dropped = len(self._waiting)
            self._bytes -= sum(call.nbytes for call in self._waiting)
            self._waiting.clear()
            self._made = self._put
            _busy.discard(self)
            return dropped

    def before_fork(self) -> bool:
        """Rest, and bring the queue into a state that a child can be born in; whether no call is under way."""
        if self._runner == threading.get_ident():  # a call of ours forks
            still = False
        else:
            until = time.monotonic() + (0.0 if self._under_way == self._too_long else FORK_WAIT_S)
            self.rest(max(0.0, until - time.monotonic()))
            still = self._running.acquire(timeout=max(0.0, until - time.monotonic()))
            if not still:
                self._too_long = self._under_way  # the next fork does not wait for it again
        self._changed.acquire()
        return still

    def after_fork_in_parent(self, still: bool) -> None:
        """Go on."""
        if self._waiting:
            self._ensure()
        self._changed.release()
        if still:
            self._running.release()

    def after_fork_in_child(self) -> None:
        """The parent's calls and thread are the parent's."""
        self._stop.set()
        self._error = None
        self._later_errors = 0
        self.stats = Stats()
        _busy.discard(self)
        self._forget()

    def take_error(self, call: Call | None = None) -> BaseException | None:
        """The first error that nobody was told of (with `call`: only if it is that call's), with a note that says whose it is."""
        with self._changed:
            failed = self._error
            if failed is None or (call is not None and failed is not call):
                return None
            later, self._later_errors, self._error = self._later_errors, 0, None
            if not self._waiting:
                _busy.discard(self)
        error = failed.error
        if error is not None:
            place = f"{os.path.basename(failed.where[0])}:{failed.where[1]}"
            more = f"; {later} later calls failed too" if later > 1 else "; a later call failed too" if later else ""
            error.add_note(f"rearview: raised in the background by {failed.label}, called at {place}{more}")
        return error

    def raise_error(self) -> None:
        """Raise what a background call raised, here, as it was."""
        if self._error is not None and (error := self.take_error()) is not None:
            raise error


def _wait_until_gone(native_id: int | None) -> None:
    """A thread that Python has joined may still be on its way out; a fork must not count it."""
    until = time.monotonic() + _GONE_S
    while os.path.exists(f"/proc/self/task/{native_id}") and time.monotonic() < until:
        time.sleep(0.0005)


def in_words(error: BaseException) -> str:
    """An error with its traceback and notes, for stderr."""
    return "".join(traceback.format_exception(error)).rstrip()
