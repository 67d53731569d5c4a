"""`rv.skip_block`: a block of the program whose end state is kept, so that it need not be run again (Flor, PVLDB 14(4), section 3.1).

The same engine as loops: its end is a boundary, kept when it is worth it. On the way of a resumed program, blocks of iterations that had
ended are not stepped into; the one at the checkpoint gets its end state back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rearview.errors import UsageError
from rearview.record import loops
from rearview.record.checkpoints import boundaries
from rearview.record.checkpoints.keeping import Keeping
from rearview.record.checkpoints.scope import Roots

if TYPE_CHECKING:
    from rearview.record.recorder import Recorder


class SkipBlock:
    """One execution of a block: `if block.step_into(): ...`, then `block.end(net, opt)`."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name
        self._around = loops.here(recorder, recorder.root)
        self._occurrence = self._around.entered.get(name, 0)
        self._around.entered[name] = self._occurrence + 1
        self._began_s: float | None = None
        self._ended = False

    def step_into(self) -> bool:
        """Whether the block is to be run. Always, but on the way to a checkpoint, unless that may lie in it."""
        self._began_s = time.perf_counter()
        recorder = self._recorder
        if not recorder.reaching:
            return True
        return recorder.reach is not None and recorder.reach.may_lie_in(self._name, self._occurrence, self._around)

    @staticmethod
    def _roots(objects: Sequence[object]) -> Roots:
        return {("given", str(place)): value for place, value in enumerate(objects)}

    def end(self, *objects: object) -> None:
        """The block ended: the state of these objects, its end state, is kept, or put back if the block was not run."""
        if self._began_s is None or self._ended:
            raise UsageError(f"skip block {self._name!r}: call step_into() before the block and end(...) once after it")
        self._ended = True
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
