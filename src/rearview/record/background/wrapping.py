"""`rv.background(x)`: an object or function whose calls are made by a thread of low priority, with the arguments they had when called.

Knows all wrapped objects of the process: what becomes of them at a fork, at rest and at the exit. What an access means is decided in
`proxies`, what is copied of the arguments in `calls`, how calls wait in `queue`. Nothing here
records: it needs no run and no store.

- A method call returns None at once, a call of a function a handle. `flush` and `close` (and what `wait` names) come after everything
  queued before them, are made by the caller and give their result. Any other attribute is read or set after the queue was drained.
- What a background call raised is raised as it was, with a note whose it is, at the next call, at `flush`, `close` or `result`; at the
  exit it is printed. The call that raises it is not made.
- A call with an argument that cannot be copied is made at once, after what was queued: slower, never wrong.
- A forked child starts with an empty queue.
"""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import time
import weakref
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from rearview.record.background.proxies import Back, Function, Object, proxy_type
from rearview.record.background.queue import LIMIT_BYTES, Queue, Stats, in_words
from rearview.record.say import say

T = TypeVar("T")

EXIT_PRIORITY = 100
"""In a process of multiprocessing, which does not run exit functions: before its own clean-up."""
LONG_EXIT_BYTES = 32 << 20
"""From so much on the exit says what it waits for."""

_backs: weakref.WeakSet[Back] = weakref.WeakSet()
"""Every wrapped object of this process: a fork, a rest and the exit are about all of them."""
_hooked_in = 0
"""The process whose exit knows of us."""
_held: list[tuple[Back, bool]] = []
"""During a fork: the wrapped objects, and whether each was still."""


def background(target: T, *, limit_bytes: int = LIMIT_BYTES, wait: Iterable[str] = ()) -> T:
    """The same object or function, its calls made in the background with the arguments they have now.

        writer = rv.background(SummaryWriter("runs/a"))      # histograms, images, text: off the training thread
        save = rv.background(save)                           # save(...) returns a handle with .result()

    Order is kept. At most `limit_bytes` of arguments wait; then the caller makes the oldest calls itself. Methods return None, except
    `flush`, `close` and those named in `wait`, which come after everything queued. Everything is made before the program exits; what a
    call raised is raised at the next one.
    """
    if target is None or isinstance(target, type) or inspect.iscoroutinefunction(target):
        what = "None" if target is None else "a class" if isinstance(target, type) else "a coroutine function"
        raise TypeError(f"rv.background takes an object or a function, not {what}")
    if issubclass(type(target), (Function, Object)):
        return target
    if limit_bytes <= 0:
        raise ValueError(f"rv.background: limit_bytes is a number of bytes above 0, not {limit_bytes!r}")
    back = Back(target, Queue(_name(target), limit_bytes, _tell_full), (wait,) if isinstance(wait, str) else wait, _hook)
    _backs.add(back)
    kind: Any = type(target)
    function = callable(target) and hasattr(target, "__qualname__")
    return cast("T", Function(back) if function else proxy_type(kind)(back))


def _name(target: Any) -> str:
    return str(getattr(target, "__qualname__", None) or type(target).__qualname__)


def stats(proxy: Any) -> Stats:
    """What the queue of a wrapped object did so far: calls, calls that waited for room, seconds waited, the most bytes that waited."""
    back: Back = proxy._rearview
    return back.queue.stats


def rest_all() -> None:
    """End the threads of this module, each after the call under way; what waits stays, and the next call goes on with it.

    Not to be called with a lock held that a background call may need.
    """
    backs = list(_backs)
    for back in backs:
        back.queue.begin_rest()
    for back in backs:
        back.queue.rest()


def not_made_within(patience_s: float) -> list[str]:
    """Wait for what was asked so far, for so long at most; the names of those that are not through by then."""
    until = time.monotonic() + patience_s
    return [back.queue.name for back in list(_backs) if not back.queue.made_until(until)]


# -- exit ------------------------------------------------------------------------------------------------------------------


def at_exit() -> None:
    """Make what waits before the interpreter goes; Ctrl-C gives up."""
    waiting = [back for back in list(_backs) if back.queue.used]
    try:
        for back in waiting:
            _finish(back)
    except KeyboardInterrupt:
        dropped = {back: count for back in waiting if (count := back.queue.give_up())}
        names = ", ".join(sorted({back.queue.name for back in dropped}))
        say(f"interrupted at the exit: {sum(dropped.values())} background calls{' of ' if names else ''}{names} were not made")


def _finish(back: Back) -> None:
    queue = back.queue
    if queue.waiting_bytes >= LONG_EXIT_BYTES:
        say(f"finishing {queue.pending} background calls of {queue.name}; Ctrl-C gives up")
    queue.drain()
    error = queue.take_error()
    if error is None:
        try:
            back.flush()
        except Exception as problem:  # noqa: BLE001 (whatever the user's object raises is shown)
            error = problem
    if error is not None:
        say(f"a background call of {queue.name} failed, and nobody was there to be told\n{in_words(error)}")
    queue.rest()


def _hook() -> None:
    """See to it that the exit of this process, and its forks, know of us. Called with every call; costs nothing the second time."""
    global _hooked_in
    here = os.getpid()
    if _hooked_in == here:
        return
    first, _hooked_in = _hooked_in == 0, here
    if first:
        atexit.register(at_exit)
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, at_exit, exitpriority=EXIT_PRIORITY)


# -- fork ------------------------------------------------------------------------------------------------------------------


def _before_fork() -> None:
    for back in list(_backs):
        _held.append((back, back.queue.before_fork()))  # noqa: PERF401 (each is known as soon as it is held)


def _after_fork_in_parent() -> None:
    while _held:
        back, still = _held.pop()
        back.queue.after_fork_in_parent(still)


def _after_fork_in_child() -> None:
    while _held:
        back, _ = _held.pop()
        back.queue.after_fork_in_child()
        back.calls.forget()


def _tell_full(queue: Queue) -> None:
    if not queue.told_full:
        queue.told_full = True
        say(
            f"{queue.limit_bytes >> 20} MB of background calls of {queue.name} wait: the program now makes the oldest ones itself; "
            "log less, or give rv.background a larger limit_bytes"
        )
