"""In a worker: the guard of loops inside `rv.checkpointing`. A nested block whose end state was kept is put back instead of run.

What it leaves is what a block that was run leaves: the state of the program, variables of the frames around it, positions, random
streams. What cannot be put back is run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from rearview.errors import Damaged, NotFound, RestoreRefused
from rearview.record import loops
from rearview.record.checkpoints import boundaries
from rearview.record.checkpoints.checkpointing import Checkpointing
from rearview.record.checkpoints.skipping import SkipBlock
from rearview.record.loops import LoopIterator, Node
from rearview.record.off import AlwaysRun
from rearview.record.resume.kept import Kept
from rearview.store.manifests import Manifest

if TYPE_CHECKING:
    from rearview.replay.worker.replayer import ReplayRecorder

_NOTHING = object()
_BREAK = "break"


class Replaying(Checkpointing):
    """Follows the loops inside as while recording, and skips the nested ones that it may."""

    _recorder: ReplayRecorder

    def __init__(self, recorder: ReplayRecorder, given: Mapping[str, object], frame: FrameType) -> None:
        super().__init__(recorder, given, frame)
        self.scope.exact, self.scope.deleted = True, recorder.deleted

    def restored(self, seconds: float) -> None:
        """The state of the start was put back. Where no iteration is run that would be compared, it is what the values rest on."""
        super().restored(seconds)
        reach, followed = self._recorder.reach, self._following
        if self._recorder.unit.first is None and reach is not None and followed is not None and reach.manifest.part == boundaries.ITERATION:
            self._guarded(lambda: followed.was_put_back(reach.manifest.ending))

    def iterator(self, loop: LoopIterator, source: Any) -> Iterator[Any]:
        """A loop that may be skipped is not iterated over before that is decided."""
        if self._recorder.probing:
            return iter(source)
        if not self._recorder.reaching and self._may_be_put_back(loop):
            self._recorder.waiting[id(loop)] = source
            return iter(())
        return super().iterator(loop, source)

    def entered(self, loop: LoopIterator, node: Node) -> None:
        """Decide: put its end state back, or run it."""
        if self._recorder.probing:
            return
        source = self._recorder.waiting.pop(id(loop), _NOTHING)
        if source is _NOTHING:
            super().entered(loop, node)
            return
        around = boundaries.chain(node)[1:-1]
        manifest = self._recorder.kept.end_of([[one.name, one.occurrence, one.iteration] for one in around], node.name, node.occurrence)
        if manifest is not None and self._put_back(loop, manifest):
            return
        loop.go_to(0, super().iterator(loop, source))
        super().entered(loop, node)

    def _may_be_put_back(self, loop: LoopIterator) -> bool:
        unit, followed = self._recorder.unit, self._following
        if not unit.skip or not loop.in_for or loop.name in unit.runs_inside or followed is None:
            return False
        main = followed.main.node
        return main.open and loops.current.get() is main and not self._recorder.ends_in(main, loop.name)

    def _put_back(self, loop: LoopIterator, manifest: Manifest) -> bool:
        """Whether the end state of the block could be put back; nothing was touched if not."""
        began = time.perf_counter()
        recorder = self._recorder
        try:
            kept = Kept(recorder.origin, manifest, lambda said: recorder.inexact(manifest, said))
            kept.put_back(self.scope)
        except (Damaged, NotFound, RestoreRefused) as problem:
            recorder.fact("run_instead", manifest=str(manifest.name), why=str(problem))
            return False
        last = manifest.path[-1][2]
        broke = manifest.ending == _BREAK and loop.has_else
        recorder.broke = broke
        loop.go_to(last + 1 - broke, iter((None,) if broke else ()))
        assert self._following is not None
        self._following.block_was_put_back()
        recorder.pass_over(manifest)
        kept.put_streams_back()
        recorder.fact("put_back", manifest=str(manifest.name), seconds=time.perf_counter() - began, bytes=manifest.size_bytes)
        return True


class ReplayedSkipBlock(SkipBlock):
    """A skip block: its end state is put back where it was kept, unless a probe is in it."""

    _recorder: ReplayRecorder

    def __init__(self, recorder: ReplayRecorder, name: str) -> None:
        super().__init__(recorder, name)
        self._kept: Kept | None = None

    def step_into(self) -> bool:
        """Whether the block is run."""
        self._kept = None
        run = super().step_into()
        unit = self._recorder.unit
        if not run or not unit.skip or self._name in unit.runs_inside:
            return run
        around = [[one.name, one.occurrence, one.iteration] for one in boundaries.chain(self._around)[1:]]
        manifest = self._recorder.kept.end_of(around, self._name, self._occurrence)
        if manifest is None:
            return True
        try:
            self._kept = Kept(self._recorder.origin, manifest, lambda said: self._recorder.inexact(manifest, said))
        except (Damaged, NotFound) as problem:
            self._recorder.fact("run_instead", manifest=str(manifest.name), why=str(problem))
        return self._kept is None

    def end(self, *objects: object) -> None:
        """The block ended, or was skipped."""
        if self._kept is None:
            if self._recorder.reaching:
                super().end(*objects)
            else:
                AlwaysRun.end(self, *objects)
            return
        AlwaysRun.end(self, *objects)
        began = time.perf_counter()
        self._kept.restore(self._roots(objects))
        manifest = self._kept.manifest
        self._recorder.pass_over(manifest)
        self._kept.put_streams_back()
        self._recorder.fact("put_back", manifest=str(manifest.name), seconds=time.perf_counter() - began, bytes=manifest.size_bytes)
