"""`rv.checkpointing`: at which boundaries of the loops inside it a checkpoint is taken, and what becomes of it.

The first loop entered inside is the main loop, loops directly in it are nested. The end of a nested block and the end of the iteration
around it are one decision and two parts. Decides by `cadence`, captures by `state`, keeps by `materialize`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from rearview.record import boundaries, loops
from rearview.record.cadence import AdaptivePeriod
from rearview.record.keeping import Keeping
from rearview.record.loops import LoopIterator, Node
from rearview.record.say import say
from rearview.record.scope import Scope
from rearview.record.trouble import is_ours
from rearview.state import loaders, positions

if TYPE_CHECKING:
    from rearview.record.reaching import Reach
    from rearview.record.recorder import Recorder

_PLAIN = (range, list, tuple, itertools.count, dict, set, frozenset, str)
"""Nothing is drawn when these are iterated over."""


@dataclass(slots=True)
class Level:
    """A loop that is followed."""

    loop: LoopIterator
    node: Node
    source: Any
    items: Any
    """The iterator over it."""
    birth: Any
    """What the random streams were when that was made."""
    began_s: float = 0.0


class Checkpointing:
    """The context manager, and the guard of the loops inside it."""

    def __init__(self, recorder: Recorder, given: Mapping[str, object], frame: FrameType) -> None:
        self._recorder = recorder
        self._settings = recorder.settings
        self.scope = Scope(frame, given, recorder.project)
        self._outside: Any = None
        self._idle = False
        """Inside another one, or switched off: only marks the place."""
        self._made: dict[int, tuple[Any, Any, Any]] = {}
        """By loop: what it iterates over, its iterator, and its birth, until it is entered."""
        self.main: Level | None = None
        self.nested: Level | None = None
        self._block_seen = False
        """A nested block ended in this iteration: that was the moment to decide."""
        self._block_taken = False
        self._stopped = False
        self._loss_s = 0.0
        self.keeping: Keeping | None = None
        self.period: AdaptivePeriod | None = None
        self._block = ""

    # -- the context ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Checkpointing:
        recorder = self._recorder
        self._outside = recorder.guard
        if isinstance(self._outside, Checkpointing):
            self._idle = True
            return self
        if not self._settings["checkpoints"] and not recorder.reaching:
            self._idle = True
            return self
        self.keeping = Keeping.of(recorder)
        self.keeping.introduce(self.scope)
        loaders.watch()
        recorder.guard = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._idle:
            return
        self._recorder.guard = self._outside
        loaders.unwatch()
        if self.keeping is not None and self.period is not None:
            self.keeping.account(self._block, self.period)

    @property
    def _reach(self) -> Reach | None:
        return self._recorder.reach if self._recorder.reaching else None

    # -- the guard -----------------------------------------------------------------------------------------------------

    def iterator(self, loop: LoopIterator, source: Any) -> Iterator[Any]:
        """Make the iterator of a loop, and note what the streams are before it draws."""
        if self._reach is not None:
            return self._reach.iterator(loop, source)
        birth = None if type(source) in _PLAIN else positions.begin(source)
        items: Iterator[Any] = iter(source)
        self._made[id(loop)] = (source, items, birth)
        return items

    def entered(self, loop: LoopIterator, node: Node) -> None:
        """A loop begins: the main one, one directly in it, or one that is no business of ours."""
        reach = self._reach
        if reach is not None:
            reach.arrive(loop, node, self)
            return
        made = self._made.pop(id(loop), None)
        if made is not None:
            self.follow(loop, node, *made)

    def follow(self, loop: LoopIterator, node: Node, source: Any, items: Any, birth: Any) -> None:
        """Take a loop as the main one or as a nested one, if it is."""
        assert self.keeping is not None
        level = Level(loop, node, source, items, birth, time.perf_counter())
        if self.main is None or not self.main.node.open:
            self.main, self.nested = level, None
            self._block = node.name
            self.period = self.keeping.period_of(node.name)
            self.keeping.main_begins(self.scope, self.period)
            level.began_s = time.perf_counter()
            self._announce(1)
            self._block_seen = self._block_taken = False
            self._loss_s = 0.0
        elif node.parent is self.main.node:
            self.nested = level

    def restored(self, seconds: float) -> None:
        """The state of a checkpoint was put back here."""
        if self.period is not None and self.main is not None:
            self.period.restored(seconds)
            self.main.began_s = time.perf_counter()

    def advancing(self, loop: LoopIterator, node: Node) -> None:
        """An iteration ended."""
        main, nested = self.main, self.nested
        if main is not None and node is main.node:
            self._guarded(self._iteration_ended)
        elif nested is not None and node is nested.node and self.keeping is not None:
            if self.keeping.agreement is not None or time.monotonic() >= self.keeping.inside_due_at:
                self._guarded(self._inside)

    def left(self, loop: LoopIterator, node: Node, ending: int) -> None:
        """A loop was left."""
        main, nested = self.main, self.nested
        if nested is not None and node is nested.node:
            if ending in (loops.EXHAUSTED, loops.BREAK):
                self._guarded(lambda: self._block_ended(ending))
            self.nested = None
        elif main is not None and node is main.node:
            if ending == loops.EXHAUSTED or ending == loops.BREAK:
                self._guarded(lambda: self._main_ended(ending))
            self.main = self.nested = None

    def _guarded(self, step: Any) -> None:
        """A failure of ours ends the taking of checkpoints with one sentence; the training goes on."""
        if self._stopped or self._recorder.reaching:
            return
        try:
            step()
        except Exception as problem:
            if not is_ours(problem):
                raise
            self._stopped = True
            say(f"no more checkpoints are taken in this run: {type(problem).__name__}: {problem}; the training goes on")

    # -- boundaries ----------------------------------------------------------------------------------------------------

    def _ran(self) -> None:
        """The main loop went through an iteration."""
        assert self.main is not None
        assert self.period is not None
        now = time.perf_counter()
        self.period.ran(max(now - self.main.began_s - self._loss_s, 0.0))
        self.main.began_s = now
        self._loss_s = 0.0
        self._announce(1)

    def _block_ended(self, ending: int) -> None:
        main, nested = self.main, self.nested
        assert main is not None
        assert nested is not None
        assert self.keeping is not None
        if self._block_seen:
            return  # the first nested loop of an iteration is the one that counts
        self._block_seen = True
        if self._due():
            self._block_taken = self._take(boundaries.BLOCK, [main, nested], ending)

    def _iteration_ended(self) -> None:
        assert self.main is not None
        assert self.keeping is not None
        second = self._block_taken
        if second or (not self._block_seen and self._due()):
            self._take(boundaries.ITERATION, [self.main], second=second)
        self._ran()
        self._block_seen = self._block_taken = False

    def _main_ended(self, ending: int) -> None:
        """The end is a state people ask for: it is kept if the run can afford it, whatever the period says."""
        main = self.main
        assert main is not None
        assert self.keeping is not None
        assert self.period is not None
        if ending == loops.EXHAUSTED and self.keeping.last_is_current(main.node):
            return
        if ending == loops.BREAK:
            self._ran()
        if self.keeping.agreement is None and self.keeping.affords(self.period):
            self._take(boundaries.ITERATION, [main], ending)

    def _inside(self) -> None:
        main, nested = self.main, self.nested
        assert main is not None
        assert nested is not None
        assert self.keeping is not None
        assert self.period is not None
        agreement = self.keeping.agreement
        due = self._inside_due() if agreement is None else agreement.agreed(boundaries.place(nested.node, 0))
        if due:
            self._take(boundaries.INSIDE, [main, nested])
        if agreement is not None:
            agreement.say(boundaries.place(nested.node, 1), self._inside_due)

    def _inside_due(self) -> bool:
        assert self.main is not None
        assert self.keeping is not None
        assert self.period is not None
        if time.monotonic() < self.keeping.inside_due_at:
            return False
        return self.keeping.inside_due(self.period, time.perf_counter() - self.main.began_s - self._loss_s)

    def _announce(self, ahead: int) -> None:
        """Several ranks: the first decides now about the end of the iteration that begins."""
        keeping, period = self.keeping, self.period
        assert keeping is not None
        assert period is not None
        assert self.main is not None
        if keeping.agreement is not None and not self._settings["every"]:
            keeping.agreement.say(boundaries.place(self.main.node, ahead), lambda: keeping.affords(period, running_s=period.C))

    def _due(self) -> bool:
        assert self.keeping is not None
        assert self.period is not None
        assert self.main is not None
        if self.keeping.agreement is not None and not self._settings["every"]:
            return not self.keeping.stopped and self.keeping.agreement.agreed(boundaries.place(self.main.node, 0))
        return self.keeping.due(self.period, self.main.node.iteration, time.perf_counter() - self.main.began_s - self._loss_s)

    def _take(self, part: str, levels: list[Level], ending: int | None = None, *, second: bool = False) -> bool:
        assert self.keeping is not None
        assert self.period is not None
        began = time.perf_counter()
        try:
            boundary = boundaries.of(part, levels[-1].node, len(levels), ending=ending, compute_s=began - levels[0].began_s - self._loss_s)
            roots = self.scope.roots()
            for depth, level in enumerate(levels):
                if part != boundaries.BLOCK or depth < len(levels) - 1:  # a block is at its end
                    position = positions.take(level.items, level.birth, level.node.iteration + 1)
                    boundary.inexact.extend(position.get("inexact", ()))
                    roots["position", depth] = position
            adapters = positions.adapters(elsewhere=[level.items for level in levels])
            return self.keeping.take(boundary, roots, self.period, began=began, second=second, adapters=adapters)
        finally:
            self._loss_s += time.perf_counter() - began
