"""`rv.skip_block`: a block of the program whose end state is kept, so that it need not be run again (Flor, PVLDB 14(4), section 3.1).

The same engine as loops: its end is a boundary, kept when it is worth it. On the way of a resumed program, blocks of iterations that had
ended are not stepped into; the one at the checkpoint gets its end state back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rearview.record import loops
from rearview.record.checkpoints import boundaries
from rearview.record.checkpoints.keeping import Keeping
from rearview.record.checkpoints.scope import Roots
from rearview.record.loops import Node
from rearview.record.off import AlwaysRun

if TYPE_CHECKING:
    from rearview.record.recorder import Recorder


class SkipBlock(AlwaysRun):
    """A block: `if block.step_into(): ...`, then `block.end(net, opt)`, as often as the program comes there."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        super().__init__(name)
        self._recorder = recorder
        self._around: Node = recorder.root
        self._occurrence = 0
        self._began_s = 0.0

    def step_into(self) -> bool:
        """Whether the block is to be run. Always, but on the way to a checkpoint, unless that may lie in it."""
        super().step_into()
        recorder = self._recorder
        self._around = loops.here(recorder, recorder.root)
        self._occurrence = self._around.entered.get(self._name, 0)
        self._around.entered[self._name] = self._occurrence + 1
        self._began_s = time.perf_counter()
        if not recorder.reaching:
            return True
        return recorder.reach is not None and recorder.reach.may_lie_in(self._name, self._occurrence, self._around)

    @staticmethod
    def _roots(objects: Sequence[object]) -> Roots:
        return {("given", str(place)): value for place, value in enumerate(objects)}

    def end(self, *objects: object) -> None:
        """The block ended: the state of these objects, its end state, is kept, or put back if the block was not run."""
        super().end(*objects)
        recorder = self._recorder
        roots = self._roots(objects)
        if recorder.reaching:
            if recorder.reach is not None:
                recorder.reach.block_ended(self._name, self._occurrence, self._around, roots)
            return
        if recorder.settings["checkpoints"]:
            keeping = Keeping.of(recorder)
            period = keeping.period_of(self._name)
            period.ran(time.perf_counter() - self._began_s)
            if keeping.due(period, period.n - 1, 0.0):
                keeping.take(boundaries.of_skip_block(self._name, self._occurrence, self._around), roots, period, began=time.perf_counter())
