"""Work that a program has under way beside its own thread: threads, processes, calls given to a pool, tasks of an event loop.

What an iteration starts before its nested loop is started again on the way to a state in or behind that loop, while the loop itself is
not run: a thread that feeds it would wait for ever, and whoever joins that thread with it; or it would go on changing what was put back.
Such a state is not gone on from. Work that was over when the loop began needed nothing of it, and does no harm.

A main loop may be fed by what was started before it. Most such threads only wait for work, or watch; one that is seen waiting for room in
a queue feeds: when it is started again it begins with what the loop has had, and whoever passes the loop by leaves it waiting.

Changes nothing: whether a process is alive is not asked, for the answer would be taken from the program.
"""

from __future__ import annotations

import functools
import itertools
import queue
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from rearview.record import firsts
from rearview.state import frames as variables
from rearview.state.take.attributes import own_dict
from rearview.state.take.objects import LIVE_PACKAGES
from rearview.store.encoding import type_name

AT_WORK = "at work beside the loop: on the way here it would be started again, and wait for ever"
"""Why a state is not gone on from."""

_KNOWN = LIVE_PACKAGES | {
    "asyncio", "concurrent", "logging", "multiprocessing", "numpy", "rearview", "socketserver", "threading", "torch", "tqdm",
}  # fmt: skip
"""Whose threads wait for work and do nothing by themselves, only show what happens, or are brought back as loaders are."""
_DEEP = 4
"""So many calls are looked at, from the innermost: waiting is done by a condition, and that by a lock."""
_MOST = 32
"""So many members of a container are looked at."""
_LEVELS = 3
"""A variable, what it holds, and what that holds."""
_NO, _WORK, _ITEMS, _VALUES, _ATTRIBUTES = range(5)
"""How an object is gone into."""

Row = list[str]
"""What it is called, its type, why it matters: as a manifest has it."""


class Beside:
    """The work of one iteration of a main loop."""

    def __init__(self, frames: Iterable[FrameType]) -> None:
        self._before: weakref.WeakSet[Any] = weakref.WeakSet()
        self._programs = 0
        """How many had been started: only one that was started since is looked for."""
        self.rows: list[Row] = []
        """Of what was found since the iteration began: also that which has ended since."""
        self.begin(frames)

    def begin(self, frames: Iterable[FrameType]) -> None:
        """An iteration begins: what is at work by now is none of its."""
        self._programs = firsts.programs
        self._before = weakref.WeakSet(worker for _, worker in _working(frames, programs=False))
        self.rows = []

    def look(self, frames: Iterable[FrameType]) -> None:
        """A nested loop is about to begin."""
        for name, worker in _working(frames, programs=firsts.programs > self._programs):
            row = [name, type_name(worker), AT_WORK]
            if worker not in self._before and row not in self.rows:
                self.rows.append(row)


class Fed:
    """The threads that feed main loops: known for the loop that is fed, and for those that follow it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._around: object = None
        self._there: weakref.WeakSet[Any] = weakref.WeakSet()
        """Threads that were there when the main loop began: those of its iterations are `Beside`'s."""

    def main_begins(self, around: object) -> None:
        """A main loop begins, in an iteration of the loops around it: those of other iterations are not come by on the way to it."""
        if around != self._around:
            self._around, self.rows = around, []
        self.has_begun()
        self.look()

    def has_begun(self) -> None:
        """Its first item was drawn, too: a generator starts what feeds it when it is first asked."""
        self._there = weakref.WeakSet(threading.enumerate())

    def look(self) -> None:
        """A state is about to be taken."""
        running = sys._current_frames()
        running.pop(threading.get_ident(), None)  # this one would hold itself, and with it the loop whose end is to be noticed
        for thread in threading.enumerate():
            row = [_name(thread), type_name(thread), AT_WORK]
            if thread in self._there and _package(_work_of(thread)) not in _KNOWN and _waits_for_room(running.get(thread.ident or 0)):
                self.rows += [] if row in self.rows else [row]


def _waits_for_room(frame: FrameType | None) -> bool:
    """Whether a thread is in `queue.Queue.put`, which only waits where a queue is bounded and full."""
    for _ in range(_DEEP):
        if frame is None:
            return False
        if frame.f_code is queue.Queue.put.__code__:
            return True
        frame = frame.f_back
    return False


def _working(frames: Iterable[FrameType], *, programs: bool) -> Iterator[tuple[str, Any]]:
    """What is at work, by name: each time the same for work that is started in the same place."""
    here = threading.current_thread()
    for thread in threading.enumerate():
        if thread is not here and _package(_work_of(thread)) not in _KNOWN:
            yield _name(thread), thread
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        me = asyncio.current_task()
        yield from ((task.get_coro().__qualname__, task) for task in asyncio.all_tasks() if task is not me)
    kinds = _kinds(programs)
    if kinds:
        doors: dict[type, int] = {}
        for frame in frames:
            for name, value in variables.variables(frame).items():
                if doors.get(type(value)) != _NO:
                    yield from ((name, one) for one in _held(value, kinds, doors))


def _work_of(thread: Any) -> Any:
    """The function that a thread runs; the thread itself if it is of a class that says so by its methods."""
    work = getattr(thread, "_target", None) or getattr(thread, "function", None) or thread
    while isinstance(work, functools.partial):
        work = work.func
    return work


def _name(thread: Any) -> str:
    work = _work_of(thread)
    return str(getattr(work, "__qualname__", type(work).__qualname__))


def _package(work: Any) -> str:
    module = getattr(work, "__module__", None) or type(work).__module__
    return str(module).partition(".")[0]


def _kinds(programs: bool) -> tuple[type, ...]:
    """The classes of what only variables lead to, of those that the program has used."""
    found: list[type] = []
    modules = sys.modules
    pools = [modules.get("concurrent.futures.thread"), modules.get("concurrent.futures.process")]
    if any(getattr(pool, name, None) for pool, name in zip(pools, ("_threads_queues", "_threads_wakeups"), strict=True)):
        found.append(modules["concurrent.futures"].Future)
    if getattr(modules.get("multiprocessing.process"), "_children", None):
        found.append(modules["multiprocessing.process"].BaseProcess)
        if "multiprocessing.pool" in modules:
            found.append(modules["multiprocessing.pool"].ApplyResult)
    if programs:
        found.append(modules["subprocess"].Popen)
    return tuple(found)


def _held(value: Any, kinds: tuple[type, ...], doors: dict[type, int]) -> Iterator[Any]:
    """The work that a variable leads to: itself, or what is in containers and in objects of the program's own classes."""
    level = [value]
    for depth in range(_LEVELS):
        inner: list[Any] = []
        for one in level:
            kind = type(one)  # not `isinstance`: that asks proxies for their class
            door = doors.get(kind)
            if door is None:
                door = doors[kind] = _door(kind, kinds)
            if door == _WORK:
                if not _is_over(one):
                    yield one
            elif door and depth < _LEVELS - 1:
                inner += _members(one, door)
        if not inner:
            return
        level = inner


def _door(kind: type, kinds: tuple[type, ...]) -> int:
    """How objects of a class are gone into."""
    if issubclass(kind, kinds):
        return _WORK
    if kind in (list, tuple):
        return _ITEMS
    if kind is dict:
        return _VALUES
    if not kind.__dictoffset__ or issubclass(kind, type) or kind.__module__ == "builtins":  # modules and functions are no containers
        return _NO
    return _NO if _package(kind) in _KNOWN else _ATTRIBUTES


def _members(one: Any, door: int) -> list[Any]:
    if door == _ITEMS:
        return list(one[:_MOST])
    return list(itertools.islice((one if door == _VALUES else own_dict(one) or {}).values(), _MOST))


def _is_over(worker: Any) -> bool:
    if hasattr(worker, "done"):
        return bool(worker.done())
    if hasattr(worker, "ready"):
        return bool(worker.ready())
    process = getattr(worker, "_popen", worker)
    return process is None or process.returncode is not None
