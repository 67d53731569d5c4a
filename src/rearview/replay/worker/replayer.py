"""In a worker: the session of a replayed program. It logs into the unit's own store, begins where the unit says, and ends there.

The program finds loops, arguments and `rv.log` as it did when it was recorded. Must not know how units are planned or compared.
"""

from __future__ import annotations

import builtins
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from rearview.errors import CheckpointError
from rearview.model import RunId
from rearview.record import lifecycle
from rearview.record.checkpoints import boundaries
from rearview.record.checkpoints.keeping import Keeping
from rearview.record.loops import Loop, Node
from rearview.record.recorder import Recorder
from rearview.record.resume import reaching
from rearview.record.resume.handshake import Handshake
from rearview.replay.running.again import unknown_seed
from rearview.replay.running.units import Unit
from rearview.replay.sandbox.files import LaidOut
from rearview.replay.worker import isolating
from rearview.replay.worker.along import Along
from rearview.replay.worker.comparing import Comparing, KeptBoundaries, Place, same_place
from rearview.state.put import unkept
from rearview.store import atomic, layout, manifests, runs
from rearview.store.layout import Store
from rearview.store.manifests import Manifest


class ReplayRecorder(Recorder):
    """Records what a replayed program logs. The run's own store is only read."""

    unit: Unit
    origin: Store
    kept: KeptBoundaries
    deleted: set[str]
    """Names that the program deletes somewhere."""
    leaving: Callable[[], list[tuple[str, str]]]
    """Asked at the end: project files that came from elsewhere, and why."""

    def stage(self, unit: Unit, laid_out: LaidOut, leaving: Callable[[], list[tuple[str, str]]]) -> None:
        """Take a unit on."""
        self.unit = unit
        self.origin = Store(Path(unit.store))
        self.leaving = leaving
        self.probing = 0
        """How many probes the program is in: their own loops are none of the program's."""
        self.along = Along(name for probe in unit.probes for name in probe.get("along", ()))
        self._laid_out = laid_out
        self._files: list[Any] | None = None
        """The run's output files at the last boundary that was come to; None: as they were before the run."""
        self.waiting: dict[int, Any] = {}
        """By loop: what it iterates over, until it is decided whether it is run."""
        self.broke = False
        """A skipped loop had ended by break: its first item says so."""
        self._in_prefix = unit.prefix and unit.start is not None
        """On the way to the restore point, and what is logged counts."""
        self._said: set[str] = set()
        self._stopped = False
        self._stop_at = read_manifest(self.origin, unit.run, unit.stop).path if unit.stop is not None else None
        """Where in the last iteration it ends, if not with that."""
        self.kept = KeptBoundaries(*_manifests(self.origin, unit, str(self.process)))
        first = unit.first or unit.last
        block = first[0] if first else 0
        if first is not None and first[1] == 0 and unit.start is not None and unit.start.endswith("-iteration"):
            block -= 1  # the state is that at the end of the main block before: its loop is come to first
        comparing: Any = Comparing(
            self, self.kept, first_block=block, ended=self._iteration_ended, began=self._main_begins, compared=self.at_boundary,
            passed=self._passed, origin=self.origin, seed_known=unknown_seed(runs.read_run(self.origin, unit.run)) is None,
        )  # fmt: skip
        keeping: Keeping = comparing  # what loops ask of it
        self.keeping = keeping
        if unit.start is not None:
            start = read_manifest(self.origin, unit.run, unit.start).name
            attempt = 1 if start.run == unit.run else 0  # the program went on from another's state, as a run of its own
            shake = Handshake(self.origin.root, start.run, attempt, {str(self.process): str(start)}, laid_out.folder, laid_out.files)
            reaching.begin(self, shake, exactly=unit.start.endswith(boundaries.INSIDE), resumes=False)
            self._files = self.reach.manifest.files if self.reach is not None else None
        for sentence in laid_out.lost:
            self.fact("lost_file", why=sentence)

    # -- the session ----------------------------------------------------------------------------------------------------

    def checkpointing(self, given: dict[str, object], frame: FrameType) -> AbstractContextManager[Any]:
        """Loops inside are followed, and skipped where they may be."""
        from rearview.replay.worker.replaying import Replaying

        return Replaying(self, given, frame)

    def skip_block(self, name: str) -> Any:
        """A block that is not stepped into where its end state was kept."""
        from rearview.replay.worker.replaying import ReplayedSkipBlock

        return ReplayedSkipBlock(self, name)

    def log(self, name: str, value: object, volatile: bool) -> None:
        """Not what a statement makes of something that it was refused."""
        if unkept.refused is not None:
            raise unkept.refused
        super().log(name, value, volatile)

    def _log_any(self, node: Node, name: str, value: object, flags: int) -> None:
        if self.reaching and self._in_prefix:
            self.reaching = False
            try:
                super()._log_any(node, name, value, flags)
            finally:
                self.reaching = True
        elif self.reaching:  # not kept, but the next one of its name in this place is not the first
            node.counts[name] = node.counts.get(name, 0) + 1
        else:
            super()._log_any(node, name, value, flags)

    def fact(self, kind: str, **facts: object) -> None:
        """Note something; that the restore point was come to at once: whoever replaces this worker goes by it."""
        super().fact(kind, **facts)
        if kind == "restored":
            self.flush()

    def prefix_is_over(self) -> None:
        """The first main loop begins: from here on to the restore point nothing counts."""
        if self._in_prefix:
            self._in_prefix = False
            self.root.heads.clear()

    def at_boundary(self, manifest: Manifest) -> None:
        """The program is where a manifest is of."""
        self._files = manifest.files

    def pass_over(self, manifest: Manifest) -> None:
        """A block was not run: the files that it wrote are as at its end."""
        for sentence in self._laid_out.pass_over(self._files, manifest.files, str(self.process)):
            self.fact("lost_file", why=sentence)
        self._files = manifest.files

    def inexact(self, manifest: Manifest, sentences: Sequence[str]) -> None:
        """What a state could not bring back exactly."""
        for sentence in sentences:
            if sentence not in self._said:
                self._said.add(sentence)
                self.fact("inexact", manifest=str(manifest.name), why=sentence)

    def end(self, how: str, **facts: object) -> None:
        """The program ended, or its unit did."""
        for path, why in self.leaving():
            self.fact("loaded_elsewhere", path=path, why=why)
        self._look_along()
        over = lifecycle.script_is_over()
        if how == "finished" and not over and not self._stopped:
            self.fact("unit_done", why="end")
        super().end(how, **facts)
        if how == "finished" and not over:  # the run is over, the program would go on to its next one
            _leave()

    # -- where it ends ---------------------------------------------------------------------------------------------------

    def _main_begins(self, block: int) -> None:
        self.prefix_is_over()
        if self.unit.last is None and not self.unit.to_end and not self.reaching:
            self._stop("prefix")

    def _look_along(self) -> None:
        for name in self.along.changed():
            self.fact("changed_along", name=name)

    def _iteration_ended(self, place: Place) -> None:
        self._look_along()
        if not self.unit.to_end and self.unit.last is not None and place >= self.unit.last:
            self._stop("last")
        self.flush()  # that it ended is known at once: an interrupted replay keeps it

    def _passed(self, boundary: boundaries.Boundary) -> None:
        if boundary.part == boundaries.INSIDE and self._stop_at is not None and same_place(boundary.path, self._stop_at):
            self._stop(boundaries.INSIDE)

    def ends_in(self, node: Node, name: str) -> bool:
        """Whether the unit ends inside a loop of a name directly in the iteration that a main loop is at: then that is not put back."""
        if self._stop_at is None or self._stop_at[-1][0] != name:
            return False
        around = [[one.name, one.occurrence, one.iteration] for one in boundaries.chain(node)[1:]]
        return same_place(around, self._stop_at[:-1])

    def _stop(self, why: str) -> None:
        """What was asked for has been run: end the process here. Nothing of the program's own clean-up belongs to the question."""
        self._stopped = True
        self.fact("unit_done", why=why)
        self.end("finished")
        _leave()


def _leave() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(0)


def _manifests(store: Store, unit: Unit, process: str) -> tuple[list[Manifest], Callable[[Manifest], bool]]:
    found = [one for group in manifests.grouped(store, unit.run) if group.whole for one in group.members if str(one.process) == process]
    not_put_back = manifests.marked(store, unit.run, manifests.THINNED) | set(unit.lost)
    return found, lambda one: str(one.name) not in not_put_back


def read_manifest(store: Store, run: RunId, text: str) -> Manifest:
    """A manifest of a run by the text of its name; one of another run is named with that."""
    name = manifests.named(run, text)
    if name is None:
        raise CheckpointError(f"{text!r} is not the name of a checkpoint of run {run}")
    return manifests.read(store, name)


class Stage:
    """Where the run that is replayed goes (`record.lifecycle`)."""

    def __init__(
        self, unit: Unit, place: int, laid_out: LaidOut, leaving: Callable[[], list[tuple[str, str]]], deleted: set[str]
    ) -> None:  # fmt: skip
        self.unit = unit
        self.deleted = deleted
        """Names that the program deletes somewhere, as far as its modules are loaded."""
        self.run = unit.run
        self.place = place
        """Which of the runs of its process it was."""
        self.recorder: type[Recorder] = _recorder_for(unit)
        self._leaving = leaving
        self._laid_out = laid_out
        self.store = scratch_store(unit)
        self._probes = _Probes(unit)
        install(self._probes, lambda: self._current)
        self._current: ReplayRecorder | None = None
        facts = runs.read_run(self.store, self.run)
        self.how = str(facts.get("how"))
        """What kind of program the run was."""
        self.explicit: Sequence[bool] = facts.get("explicit") or []

    @property
    def probe_failed(self) -> bool:
        """Whether a statement added in hindsight has raised."""
        return self._probes.any_failed

    def begun(self, recorder: Recorder) -> None:
        """The run has begun."""
        assert isinstance(recorder, ReplayRecorder)
        recorder.deleted = self.deleted
        recorder.stage(self.unit, self._laid_out, self._leaving)
        self._current = self._probes.recorder = recorder


def _recorder_for(unit: Unit) -> type[Recorder]:
    if unit.until is None:
        return ReplayRecorder
    from rearview.replay.journals.cut import UntilRecorder

    return UntilRecorder


def scratch_store(unit: Unit) -> Store:
    """The store that takes what the worker logs, with the run's own `run.json` in it."""
    store = layout.create(Path(unit.scratch) / "store")
    facts = (Store(Path(unit.store)).run(unit.run) / "run.json").read_bytes()
    atomic.publish(store.run(unit.run) / "run.json", facts, tmp=store.tmp, durable=False)
    return store


# -- what the rewritten program calls -------------------------------------------------------------------------------------


class _Probes:
    """Statements added in hindsight: what fails in one is its own fault, and is said so."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self.recorder: ReplayRecorder | None = None
        self.any_failed = False

    def __call__(self, index: int) -> _Probe:
        return _Probe(self, index)

    def failed(self, index: int, error: BaseException) -> None:
        """A probe raised."""
        self.any_failed = True
        probe = self._unit.probes[index] if index < len(self._unit.probes) else {}
        if self.recorder is None and isinstance(error, Exception):
            lifecycle.begin_implicitly()  # as its log would have
        if self.recorder is not None and isinstance(error, Exception):
            raised = traceback.TracebackException.from_exception(error)
            if probe.get("placed") and raised.stack:  # no file has its text
                first = raised.stack[0]
                raised.stack[0] = traceback.FrameSummary(first.filename, first.lineno, first.name, line=str(probe.get("text")))
            trace = "".join(raised.format())
            at = raised.stack[0]  # a probe may be several statements: the one that raised
            self.recorder.fact(
                "probe_failed", file=probe.get("file"), line=at.lineno or probe.get("line"), text=at.line or probe.get("text"),
                traceback=trace, error=f"{type(error).__name__}: {error}",
            )  # fmt: skip
            self.recorder.flush()

    def isolates(self) -> bool:
        """Whether the state is put back after each probe."""
        return self._unit.isolate and self.recorder is not None and self.recorder.guard is not None


class _Probe:
    """One execution of a probe."""

    __slots__ = ("_held", "_index", "_probes")

    def __init__(self, probes: _Probes, index: int) -> None:
        self._probes = probes
        self._index = index
        self._held: Any = None

    def __enter__(self) -> None:
        recorder = self._probes.recorder
        if recorder is None:
            return
        recorder.along.look(sys._getframe(1))
        recorder.probing += 1
        unkept.strict += 1
        if self._probes.isolates():
            self._held = isolating.hold(recorder)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._probes.recorder is not None and self._probes.recorder.probing:
            self._probes.recorder.probing -= 1
            unkept.strict -= 1
        missed, unkept.refused = unkept.refused, None
        if (failure := missed or error) is not None:
            self._probes.failed(self._index, failure)
        if self._held is not None:
            self._held()
        if missed is not None and error is None:  # the statement went on without what it did not get
            raise missed


def install(probes: _Probes, current: Callable[[], ReplayRecorder | None]) -> None:
    """Give the rewritten program the names it calls. In `builtins`: modules of the program keep the names they had."""

    def in_for(loop: Any, has_else: bool = False) -> Any:
        if isinstance(loop, Loop):
            loop.in_for, loop.has_else = True, has_else
        return loop

    def broke() -> bool:
        recorder = current()
        if recorder is None or not recorder.broke:
            return False
        recorder.broke = False
        return True

    names: dict[str, object] = {"__rearview_for__": in_for, "__rearview_broke__": broke, "__rearview_probe__": probes}
    vars(builtins).update(names)
