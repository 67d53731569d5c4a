"""`rv.checkpointing`: the context manager, and the guard of the loops inside it.

The first loop entered inside is the main loop, loops directly in it are nested; `following` says what happens at their boundaries.
Whatever fails here ends the taking of checkpoints with one sentence: the training goes on.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from rearview.record import dropped, endings, loops
from rearview.record.checkpoints.following import PLAIN, Following, Level
from rearview.record.checkpoints.keeping import Keeping
from rearview.record.checkpoints.scope import Roots, Scope
from rearview.record.loops import LoopIterator, Node
from rearview.record.say import say
from rearview.record.trouble import is_the_programs
from rearview.state import loaders, positions
from rearview.state.loading import late

if TYPE_CHECKING:
    from rearview.record.recorder import Recorder
    from rearview.record.resume.rehearsal import Rehearsal

_BEHIND_A_LOOP = 3
"""Frames between who is asked for an iterator and who wants it: `LoopIterator` and `Loop`."""
_IN_ORDER = (dropped.EXHAUSTED, dropped.BREAK)


class Checkpointing:
    """The state of the program is kept at the boundaries of the loops inside."""

    _entered = True
    """Nothing is to be said about that."""

    def __init__(self, recorder: Recorder, given: Mapping[str, object], frame: FrameType) -> None:
        self._recorder = recorder
        inside = loops.here(recorder, recorder.root) is not recorder.root
        self.scope = Scope(frame, given, recorder.project, recorder.covered, follows=inside or recorder.covered is not None)
        self._outside: loops.Guard | None = None
        self._keeping: Keeping | None = None
        """None inside another `checkpointing`, or when there are to be no checkpoints: it only marks the place."""
        self._made: dict[int, tuple[Any, Any, Any, bool]] = {}
        """By loop: what it iterates over, its iterator, and its birth, until it is entered."""
        self._following: Following | None = None
        self._rehearsal: Rehearsal | None = None
        self._stopped = self._entered = False

    def __del__(self) -> None:
        if not self._entered:
            say("`rv.checkpointing()` was called, and there is nothing inside: write `with rv.checkpointing(...):` around the loop")

    def __enter__(self) -> Checkpointing:
        self._entered = True
        recorder = self._recorder
        self._outside = recorder.guard
        wanted = recorder.settings["checkpoints"] or recorder.reaching
        if wanted and not isinstance(self._outside, Checkpointing):
            self._keeping = keeping = Keeping.of(recorder)
            keeping.left_with = None
            recorder.guard = self
            self._guarded(lambda: keeping.introduce(self.scope))
            loaders.watch()
            late.adopt()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._keeping is not None:
            self._recorder.guard = self._outside
            self._keeping.left_with = endings.exit_code(error) if isinstance(error, SystemExit) else None
            with suppress(RuntimeError):  # a module that another thread is changing
                self._recorder.covered = self.scope.end()
            loaders.unwatch()

    # -- the guard -----------------------------------------------------------------------------------------------------

    def iterator(self, loop: LoopIterator, source: Any) -> Iterator[Any]:
        """Make the iterator of a loop, and note what the streams are before it draws."""
        followed = self._following
        if followed is not None and followed.main.node.open and loops.current.get() is followed.main.node:
            self._guarded(followed.nested_begins)
        if self._recorder.reaching and self._recorder.reach is not None:
            return self._recorder.reach.iterator(loop, source)
        birth = None if type(source) in PLAIN else positions.begin(source)
        items: Iterator[Any] = iter(source)
        self._made[id(loop)] = (source, items, birth, dropped.is_begun_by_for(sys._getframe(_BEHIND_A_LOOP)))
        return items

    def entered(self, loop: LoopIterator, node: Node) -> None:
        """A loop begins: the main one, one directly in it, or one that is no business of ours."""
        if self._recorder.reaching and self._recorder.reach is not None:
            self._recorder.reach.arrive(loop, node, self)
            return
        made = self._made.pop(id(loop), None)
        if made is not None:
            self._guarded(lambda: self.follow(loop, node, *made))
            nested = self._following.nested if self._following is not None else None
            if self._rehearsal is not None and nested is not None and nested.node is node:
                self._rehearsal.begin(nested)

    def follow(self, loop: LoopIterator, node: Node, source: Any, items: Any, birth: Any, alone: bool = False) -> None:
        """Take a loop as the main one or as a nested one, if it is. `alone`: nothing is zipped with it."""
        level = Level(weakref.ref(loop), node, source, items, birth, alone=alone)
        followed = self._following
        if followed is not None and followed.main.node.open:
            if node.parent is followed.main.node:
                followed.nested = level
                followed.nested_begun(node)
        elif self._keeping is not None:
            self._following = Following(self._keeping, self.scope, level)

    def iteration_begins(self) -> None:
        """The random streams are those that the iteration of the main loop begins with."""
        if self._following is not None:
            self._following.iteration_begins()

    def roots_of(self, part: str) -> Roots:
        """The roots of the state where the program is: a boundary of that part, come to by a resume."""
        return {} if self._following is None else self._following.roots_of(part)

    def restored(self, seconds: float) -> None:
        """The state of a checkpoint was put back here."""
        if self._following is not None:
            self._following.restored(seconds)

    def rehearse(self, node: Node | None) -> None:
        """The next step is gone through twice: the one of this loop that is about to begin, or the first one of the next nested loop."""
        from rearview.record.resume.rehearsal import Rehearsal  # few programs are resumed

        self._rehearsal = Rehearsal(self._recorder, self.scope)
        levels = [] if self._following is None else [self._following.main, self._following.nested]
        for level in levels:
            if node is not None and level is not None and level.node is node:
                self._rehearsal.begin(level)

    def advancing(self, loop: LoopIterator, node: Node) -> None:
        """An iteration ended."""
        followed = self._following
        if followed is None:
            return
        if self._rehearsal is not None and self._rehearsal.is_of(node):
            rehearsal, self._rehearsal = self._rehearsal, None
            rehearsal.end(loop)
            return
        if node is followed.main.node:
            self._guarded(followed.iteration_ended)
            followed.main.item = None
        elif followed.nested is not None and node is followed.nested.node:
            keeping = self._keeping
            assert keeping is not None
            if keeping.agreement is not None or keeping.grows or time.monotonic() >= keeping.inside_due_at:
                nested = followed.nested
                self._guarded(lambda: followed.nested_advanced(nested))

    def yielded(self, loop: LoopIterator, item: Any) -> None:
        """An item was drawn: the main loop is told."""
        followed = self._following
        if followed is not None and loop.is_at(followed.main.node):
            followed.drawn(item)

    def left(self, loop: LoopIterator, node: Node, ending: int) -> None:
        """A loop was left."""
        self._made.pop(id(loop), None)
        if self._rehearsal is not None and self._rehearsal.is_of(node):
            self._rehearsal.give_up(ending)
        followed = self._following
        if followed is None:
            return
        nested = followed.nested
        if nested is not None and node is nested.node:
            if ending in _IN_ORDER:
                self._guarded(lambda: followed.block_ended(nested, ending))
            followed.nested = None
        elif node is followed.main.node:
            self._following = None
            if ending in _IN_ORDER:
                self._guarded(lambda: followed.main_ended(ending))
            if self._keeping is not None:
                self._keeping.account(followed.block, followed.period)

    def _guarded(self, step: Callable[[], object]) -> None:
        """A failure of ours ends the taking of checkpoints with one sentence; the training goes on."""
        if self._stopped or self._recorder.reaching:
            return
        try:
            step()
        except Exception as problem:
            if is_the_programs(problem):
                raise
            self._stopped = True
            say(f"no more checkpoints are taken in this run: {type(problem).__name__}: {problem}; the training goes on")
