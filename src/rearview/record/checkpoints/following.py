"""One pass through the main loop of a `checkpointing`: at which of its boundaries a checkpoint is taken.

The end of a nested block and the end of the iteration around it are one decision and two parts. Inside a long nested block one is taken
when too much work is at risk. The decision is `keeping`'s; with several ranks it is rank 0's, said beforehand.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rearview.record import dropped
from rearview.record.checkpoints import at_work, boundaries
from rearview.record.checkpoints.keeping import Keeping
from rearview.record.checkpoints.on_the_way import Way
from rearview.record.checkpoints.scope import Scope, caller
from rearview.record.loops import LoopIterator, Node
from rearview.state import positions, streams
from rearview.state.frames import variables
from rearview.state.iterating import around, items, shared

PLAIN = (range, list, tuple, itertools.count, dict, set, frozenset, str)
"""Nothing is drawn when these are iterated over, and any iteration can be gone to."""


@dataclass(slots=True)
class Level:
    """A loop that is followed. It does not hold the loop: that a `for` statement drops it is how a break is known."""

    loop: Callable[[], LoopIterator | None]
    node: Node
    source: Any
    items: Any
    """The iterator over it."""
    birth: Any
    """What the random streams were when that was made."""
    began_s: float = field(default_factory=time.perf_counter)
    item: Any = None
    """What the iteration is about, where it cannot be had again by counting. The program holds it as well."""
    alone: bool = False
    """Nothing is zipped with it: that is not looked for again."""

    def position(self, *, nested: bool = False) -> dict[str, Any]:
        """How far it has come in what it iterates over, and what is zipped with it in what that does."""
        position = positions.take(self.items, self.birth, self.node.iteration + 1)
        held = items.of(self.source) if nested else None
        if held is not None:
            position["items"] = held
        loop = self.loop()
        if loop is not None and not self.alone:
            beside, said = around.taken(loop)
            self.alone = not beside and not said
            position["inexact"] += said
            if beside:  # a position must not tell whether it was asked before: a replay asks at other places
                position["beside"] = beside
                position["inexact"] += [sentence for shape in beside if shape is not None for sentence in shape["inexact"]]
        return position


class Following:
    """Follows a main loop and the loops directly in it."""

    def __init__(self, keeping: Keeping, scope: Scope, main: Level) -> None:
        self._keeping = keeping
        self._scope = scope
        self.main = main
        self.nested: Level | None = None
        self.block = main.node.name
        self.period = keeping.period_of(self.block)
        self._block_ended = False
        """A nested block ended in this iteration: that was the moment to decide."""
        self._block_taken = False
        self._lost_s = 0.0
        """Spent on checkpoints in this iteration."""
        self._nested_s = 0.0
        """Spent in the nested block that was kept, or could have been."""
        scope.begin()
        keeping.main_begins(scope, self.period)
        self._began_with = streams.take()
        """The random streams at the beginning of the iteration: what runs in it before a place inside draws the same again."""
        keeping.fed.main_begins(boundaries.place(main.node, 0)[:-1])
        self._beside = at_work.Beside(scope.frames())
        self._way = Way(caller())
        self._drew = self._nests = False
        """An item was drawn. It has nested loops: only then it matters what an iteration has at work."""
        self._began_s = time.perf_counter()
        self._announce()

    def iteration_begins(self) -> None:
        """The random streams are those that the iteration begins with."""
        self._began_with = streams.take()

    def drawn(self, item: Any) -> None:
        """Keep what the iteration of the main loop is about, for as long as it lasts."""
        self.main.item = item
        if not self._drew:
            self._drew = True
            self._keeping.fed.has_begun()

    def restored(self, seconds: float) -> None:
        """The state of a checkpoint was put back here."""
        self.period.restored(seconds)
        self._began_s = time.perf_counter()

    def was_put_back(self, ending: str | None) -> None:
        """The state at the end of an iteration was put back, and nothing of the loop runs any more: a replay looks at it as it is now."""
        self._take(boundaries.ITERATION, [self.main], boundaries.ending_of(ending))

    # -- boundaries ----------------------------------------------------------------------------------------------------

    def iteration_ended(self) -> None:
        """The main loop is about to begin its next iteration, or to end."""
        second = self._block_taken
        if second or (not self._block_ended and self._due()):
            self._take(boundaries.ITERATION, [self.main], second=second)
        self._ran()
        self._began_with = streams.take()
        self._way.iteration_ended()
        if self._nests:
            self._beside.begin(self._scope.frames())
        self._block_ended = self._block_taken = False

    def nested_begins(self) -> None:
        """A nested loop is about to be made: nothing of its own is at work yet."""
        self._nests = True
        self._beside.look(self._scope.frames())

    def nested_begun(self, node: Node) -> None:
        """It is about to give its first item."""
        self._way.nested_begins(node.name, caller())

    def block_ended(self, nested: Level, ending: int) -> None:
        """A nested loop was left in order. The first one of an iteration is the one that counts."""
        if not self._block_ended:
            self._block_ended = True
            self._nested_s = time.perf_counter() - nested.began_s
            self._block_taken = self._due() and self._take(boundaries.BLOCK, [self.main, nested], ending)

    def block_was_put_back(self) -> None:
        """The nested block of this iteration was not run: its end state is there, and the end of the iteration is looked at."""
        self._block_ended = self._block_taken = True

    def nested_advanced(self, nested: Level) -> None:
        """An iteration of a nested loop ended."""
        if self._keeping.grows:
            self._keeping.first_step_ended(self._scope, self.period)
        agreement = self._keeping.agreement
        if agreement is None:
            if self._inside_due(nested.node):
                self._take(boundaries.INSIDE, [self.main, nested])
            return
        if agreement.agreed(boundaries.place(nested.node, 0)):
            self._take(boundaries.INSIDE, [self.main, nested])
        agreement.say(boundaries.place(nested.node, 1), lambda: self._inside_due(nested.node))

    def main_ended(self, ending: int) -> None:
        """The end is a state people ask for: it is kept if the run can afford it, whatever the period says."""
        if ending == dropped.EXHAUSTED and self._keeping.last_is_current(self.main.node):
            return
        if ending == dropped.BREAK:
            self._ran()
        if self._keeping.agreement is None and self._keeping.affords(self.period):
            self._take(boundaries.ITERATION, [self.main], ending)

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _running_s(self) -> float:
        return time.perf_counter() - self._began_s - self._lost_s

    def _ran(self) -> None:
        seconds = self._running_s()
        self.period.ran(seconds)
        self._keeping.iteration_ran(self.main.node, seconds, self._nested_s)
        self._began_s = time.perf_counter()
        self._lost_s = self._nested_s = 0.0
        self._announce()

    def _due(self) -> bool:
        if self._keeping.decides_ahead:
            assert self._keeping.agreement is not None
            return not self._keeping.stopped and self._keeping.agreement.agreed(boundaries.place(self.main.node, 0))
        return self._keeping.due(self.period, self.main.node.iteration, self._running_s())

    def _inside_due(self, node: Node) -> bool:
        return time.monotonic() >= self._keeping.inside_due_at and self._keeping.inside_due(self.period, self._running_s(), node)

    def _announce(self) -> None:
        """Several ranks: the first decides now about the end of the iteration that begins."""
        if self._keeping.decides_ahead:
            assert self._keeping.agreement is not None
            place = boundaries.place(self.main.node, 1)
            self._keeping.agreement.say(place, lambda: self._keeping.affords(self.period, running_s=self.period.C))

    def _take(self, part: str, levels: list[Level], ending: int | None = None, *, second: bool = False) -> bool:
        began = time.perf_counter()
        try:
            function = self._scope.frame.f_code.co_qualname
            boundary = boundaries.of(part, levels[-1].node, len(levels), ending=ending, compute_s=self._running_s(), function=function)
            self._keeping.fed.look()
            boundary.beside.extend(self._keeping.fed.rows)
            roots = self._roots(part, levels)
            for depth in range(len(levels)):
                boundary.inexact.extend(roots.get(("position", depth), {}).get("inexact", ()))
            boundary.beside.extend(self._way.gathered)
            if part != boundaries.INSIDE and len(self._scope.frames()) == 1:  # else there may be two variables of one name
                boundary = replace(boundary, rebound=partial(self._way.rebound, behind_nested=part == boundaries.BLOCK))
            if part != boundaries.ITERATION:
                boundary.beside.extend(self._beside.rows)
                boundary.beside.extend(self._way.rows(caller()))
            return self._keeping.take(boundary, roots, self.period, began=began, second=second)
        finally:
            self._lost_s += time.perf_counter() - began

    def _held(self, source: Any) -> list[object]:
        """What variables hold, where the iterator of a loop may be among it, or below it."""
        if not hasattr(type(source), "__next__"):
            return []
        frames = self._scope.frames()
        return [value for frame in frames for space in (variables(frame), frame.f_globals) for value in list(space.values())]

    def roots_of(self, part: str) -> dict[Any, Any]:
        """The roots of the state as it is now, if the program is at a boundary of that part."""
        nested = [self.nested] if part != boundaries.ITERATION and self.nested is not None else []
        return self._roots(part, [self.main, *nested])

    def _roots(self, part: str, levels: list[Level]) -> dict[Any, Any]:
        roots: dict[Any, Any] = self._scope.roots()
        for depth, level in enumerate(levels):
            if part != boundaries.BLOCK or depth < len(levels) - 1:  # a block is at its end
                roots["position", depth] = position = level.position(nested=depth > 0)
                position["inexact"] += shared.come_apart(level.items, self._held(level.source))
                if depth and (objects := items.objects(level.source)) is not None:
                    roots[items.KIND, depth] = objects
        if part != boundaries.ITERATION:
            roots["stream", "iteration"] = self._began_with
            if type(self.main.source) not in PLAIN:
                roots["item", 0] = self.main.item
        return roots
