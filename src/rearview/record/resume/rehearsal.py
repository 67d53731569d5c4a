"""A step that a resumed program goes through twice, the first time for what it does to things that no checkpoint can hold.

torch lays the gradient buckets of data parallel training out anew after the first step, in the order in which gradients came. With
three ranks or more another layout adds in another order, so the first step after a resume would not be the one that was recorded.
The state is held in memory, the step is run and nothing of it recorded, the state is put back, and the step is run again.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rearview.record import dropped
from rearview.record.checkpoints.following import Level
from rearview.record.checkpoints.scope import Scope
from rearview.record.loops import LoopIterator, Node
from rearview.record.resume import kept
from rearview.record.resume.kept import Held
from rearview.record.say import say
from rearview.state import positions
from rearview.state.iterating.around import bring_on

if TYPE_CHECKING:
    from rearview.record.recorder import Recorder

_COMMUTES = 2
"""With so many ranks a sum is the same in any order."""


def is_needed(recorder: Recorder) -> bool:
    """Whether this program adds gradients of several ranks in an order that comes about in its first step."""
    distributed = sys.modules.get("torch.distributed")
    parallel = getattr(sys.modules.get("torch.nn.parallel"), "DistributedDataParallel", None)
    if (recorder.world or 1) <= _COMMUTES or distributed is None or parallel is None or not distributed.is_initialized():
        return False
    return any(issubclass(type(thing), parallel) for thing in gc.get_objects())


class Rehearsal:
    """One step, to be gone through twice."""

    def __init__(self, recorder: Recorder, scope: Scope) -> None:
        self._recorder = recorder
        self._scope = scope
        self._reach = recorder.reach
        self._level: Level | None = None
        self._held: Held | None = None

    def is_of(self, node: Node) -> bool:
        """Whether the step that is being gone through is one of this loop."""
        return self._level is not None and self._level.node is node

    def begin(self, level: Level) -> None:
        """The step is about to begin: hold the state, and record nothing from now on."""
        if not self._recorder.rank:
            say("the first step is run twice, for torch lays out its gradient buckets in it: what it prints comes twice, only one counts")
        roots = self._scope.roots()
        roots["position", 0] = positions.take(level.items, level.birth, level.node.iteration + 1)
        self._held = kept.hold(roots, self._say_inexact)
        self._level = level
        self._recorder.reach = None  # loops are loops
        self._recorder.reaching = True

    def end(self, loop: LoopIterator) -> None:
        """The step is over: back to where it began."""
        level, held = self._level, self._held
        assert level is not None
        assert held is not None
        self._say_inexact(bring_on(loop, -1))
        held.put_back(self._scope)
        level.items = positions.put_back(level.source, held.position_of(0))
        loop.go_back(level.items)
        held.put_streams_back()
        self._over()

    def give_up(self, ending: int) -> None:
        """The loop was left. If it had no step left, the next loop may have one; if it was left in the step, that was the last one."""
        self._over()
        if ending != dropped.EXHAUSTED:
            self._say_inexact(["it left its loop in the first step, which was to be gone through twice; that step is not recorded"])

    def _over(self) -> None:
        self._level = self._held = None
        self._recorder.reach = self._reach
        self._recorder.reaching = False

    def _say_inexact(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            say(f"run {self._recorder.run} may not go on exactly as it was: {sentence}")
