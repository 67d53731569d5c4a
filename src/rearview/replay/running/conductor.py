"""Runs a plan: units are laid down, workers started and watched, the dead ones replaced once, what is finished handed on.

Knows processes and units. How values are compared and published is for `answering`; how a plan is made for `plan`. Decides nothing about
what is worth running.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rearview.errors import Damaged, NotFound, RestoredOtherwise, RestoreRefused
from rearview.model import RunId, VersionId
from rearview.plan import scans
from rearview.plan.cost import Rates
from rearview.plan.scans import Need, Plan, Stretch
from rearview.plan.timeline import INSIDE, History, Place
from rearview.record.resume import restore_points
from rearview.record.resume.restore_points import RestorePoint
from rearview.replay.journals.cut import UNTIL
from rearview.replay.running import pool
from rearview.replay.running.pieces import Conducted, Piece, come_to, in_order
from rearview.replay.running.pool import Program, Slots, Worker
from rearview.replay.running.progress import Seen, Shown, Tail
from rearview.replay.running.units import Unit
from rearview.store import manifests
from rearview.store.layout import Store

_LOOK_S = 0.03
"""Between two looks whether a worker has ended."""
_READ_S = 0.3
"""Between two looks at what they wrote: that takes time from them."""
_SHOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be run for one run of the record."""

    run: RunId
    store: Store
    project: Path
    program: Program
    history: History
    need: Need
    plan: Plan
    recorded_version: VersionId
    version: VersionId
    probes: tuple[dict[str, Any], ...] = ()
    isolate: bool = False
    threads: int | None = None
    rates: Rates = field(default_factory=Rates)
    device: str | None = None
    until: dict[str, Any] | None = None
    """The last record of a run that was killed."""
    error: str = ""
    """The exception that ended a run that failed, or its exit code."""


def conduct(task: Task, scratch: Path, replay: str, show: Callable[[Shown], None] | None = None, slots: Slots | None = None) -> Conducted:
    """Run everything in a plan, or as much as can be run. `slots` are shared with the plans that run beside it."""
    return _Conducting(task, scratch, replay, show or (lambda _: None), slots or Slots(task.plan.workers)).run()


class _Conducting:
    def __init__(self, task: Task, scratch: Path, replay: str, show: Callable[[Shown], None], slots: Slots) -> None:
        self._task, self._scratch, self._replay, self._show, self._slots = task, scratch, replay, show, slots
        self._waiting: deque[tuple[Stretch, bool]] = deque((stretch, False) for stretch in task.plan.stretches)
        """With whether it is the second try."""
        self._running: list[tuple[Worker, Piece, bool]] = []
        self._done: list[Piece] = []
        self._number = 0
        self._looks_at = 0.0
        self._began = 0.0
        self._refused: set[str] = set()
        """States that the program could not take."""
        self._lost: list[str] = []
        self._notes: list[str] = []
        self._output = ""
        self._of = sum(stretch.size for stretch in task.plan.stretches)

    def run(self) -> Conducted:
        interrupted, shown = False, time.monotonic()
        try:
            while self._waiting or self._running:
                if self._slots.stop.is_set():
                    interrupted = True
                    break
                self._fill()
                time.sleep(_LOOK_S)
                self._look()
                if time.monotonic() - shown >= _SHOW_S:
                    shown = time.monotonic()
                    self._show(self._shown(self._elapsed_s()))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            pool.end([worker for worker, _, _ in self._running])
        for worker, piece, _ in self._running:
            self._close(worker, piece)
        ran = sorted(self._done, key=in_order)
        pieces = come_to(ran)
        if any(piece.covers for piece in ran[len(pieces) :]):
            self._notes.append("what workers ran behind the statement that raised is not kept: with it, the run would not have come there")
        notes = dict.fromkeys([*self._notes, *(f"a nested block was run: {why}" for piece in pieces for why in piece.seen.instead)])
        return Conducted(pieces, self._elapsed_s(), interrupted, self._lost, list(notes), self._output, self._task.plan.shared)

    def _elapsed_s(self) -> float:
        """Since the first worker began: before, others may have had the slots."""
        return time.monotonic() - self._began if self._began else 0.0

    def _fill(self) -> None:
        while self._waiting and len(self._running) < max(1, self._task.plan.workers) and self._slots.take():
            stretch, second = self._waiting.popleft()
            unit = self._unit(stretch)
            Path(unit.scratch).mkdir(parents=True, exist_ok=True)
            try:
                worker = pool.start(self._task.program, unit)
            except BaseException:
                self._slots.give_back()
                raise
            self._began = self._began or worker.began_s
            piece = Piece(unit, stretch, Seen(Tail(Path(unit.scratch), unit.run)), began_wall=worker.began_wall)
            self._running.append((worker, piece, second))

    def _unit(self, stretch: Stretch) -> Unit:
        task, number = self._task, self._number
        self._number += 1
        return Unit(
            replay=self._replay, number=number, run=task.run, store=str(task.store.root), project=str(task.project), version=task.version,
            recorded_version=task.recorded_version, scratch=str(self._scratch / str(number)),
            start=stretch.start.name if stretch.start is not None else None, first=stretch.first, last=stretch.last,
            stop=stretch.stop.name if stretch.stop is not None else None,
            to_end=stretch.to_end, prefix=stretch.prefix, skip=stretch.skip, runs_inside=stretch.runs_inside,
            lost=tuple(sorted(task.need.lost)) if stretch.skip else (),
            until=task.until if stretch.until else None, probes=task.probes, isolate=task.isolate, threads=task.threads, device=task.device,
        )  # fmt: skip

    def _look(self) -> None:
        for entry in list(self._running):
            worker, piece, second = entry
            over = worker.code is not None
            if over or time.monotonic() >= self._looks_at:
                piece.seen.look()
            if over:
                self._running.remove(entry)
                self._close(worker, piece)
                if not piece.complete:
                    self._died(worker, piece, second)
        if time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + _READ_S

    def _close(self, worker: Worker, piece: Piece) -> None:
        pool.reap(worker)
        self._slots.give_back()
        piece.seen.look()
        piece.code, piece.seconds = worker.code, time.monotonic() - worker.began_s
        piece.went_beyond = self._went_beyond(piece)
        piece.complete = not piece.went_beyond and self._is_complete(piece)
        piece.printed = "" if piece.complete else worker.printed()
        self._done.append(piece)

    def _is_complete(self, piece: Piece) -> bool:
        """Whether the unit came to its end, or the program to the end that it had."""
        if piece.seen.failed:
            return False
        if piece.unit.stop is not None:  # it came there, or it took another way
            return piece.seen.done == INSIDE
        if piece.seen.done is not None:
            return True
        as_recorded = all(map(self._was_left, piece.unfinished))
        if self._task.history.status == "failed":  # it fails once more, in the same place
            reached = bool(piece.unfinished or piece.stretch.to_end)
            return piece.seen.ended == "failed" and piece.seen.error in ("", self._task.error) and as_recorded and reached
        if piece.seen.ended == "finished" and piece.unfinished and as_recorded:
            return True
        return piece.stretch.to_end and piece.seen.ended == "finished"

    def _went_beyond(self, piece: Piece) -> bool:
        if piece.unit.until is not None:
            return piece.seen.done not in (None, UNTIL)
        if self._task.history.status != "failed":
            return False
        last = len(self._task.history.blocks) - 1
        passed = any(place[0] == last and self._was_left(place) for place in piece.seen.iterations)
        return passed or (piece.stretch.to_end and piece.seen.ended == "finished")

    def _was_left(self, place: Place) -> bool:
        """Whether an iteration had no end in the record either: an exception left its loop, and the program went on."""
        block = self._task.history.blocks[place[0]]
        return block.ending in ("left", "exception") and place[1] == block.iterations - 1

    # -- workers that died -----------------------------------------------------------------------------------------------

    def _died(self, worker: Worker, piece: Piece, second: bool) -> None:
        inside = piece.begins_inside
        if inside and not piece.arrived:
            piece.seen.failed.clear()  # what is on the way is no answer
        if piece.seen.failed:
            return  # the statement raised: that is the answer, and trying again would give the same
        self._output = self._output or piece.printed
        if piece.went_beyond:
            how = f"ended with {self._task.error}" if self._task.error else "was killed"
            self._lost.append(f"the recorded run {how}, and its replay goes on there: what a worker ran up to that place is not kept")
            return
        what = _in_words(worker.code, piece)
        given_up = inside and (second or not piece.arrived)
        if given_up:
            self._give_up_inside(piece)
        elif second and not _was_refused(piece):
            self._lost.append(f"{_places(self._task.history, piece)} could not be run: a worker {what}, twice")
            return
        refused = not second if given_up else self._note_refused(piece)
        again = self._remaining(piece)
        if not again:
            self._lost.append(f"{_places(self._task.history, piece)} could not be run: a worker {what}")
        self._waiting.extendleft((stretch, not refused) for stretch in reversed(again))

    def _give_up_inside(self, piece: Piece) -> None:
        """A worker that was to begin inside an iteration did not come to its end: what it had to do is run from the beginning of that."""
        self._refused |= {one.name for one in self._task.history.boundaries if one.part == INSIDE}
        start = piece.stretch.start
        assert start is not None
        self._notes.append(f"the program did not go on from the state {start.name} inside a nested loop, and an earlier one was used")

    def _note_refused(self, piece: Piece) -> bool:
        """Whether the worker could not begin because its program does not take the state: the second time no state is tried any more."""
        start = piece.stretch.start
        if start is None or not _was_refused(piece) or piece.seen.iterations or start.name in self._refused:
            return False
        states = [one.name for one in self._task.history.boundaries]
        self._refused |= {start.name} if not self._refused else {start.name, *states}
        self._notes.append(f"the program could not take the state {start.name}, and an earlier one was used")
        return True

    def _remaining(self, piece: Piece) -> list[Stretch]:
        """What a dead worker did not come to, from where it was."""
        known = not self._refused and not self._damaged(piece)
        if piece.stretch.parts and known:  # others do the rest of an iteration: exactly this is done once more
            return [piece.stretch]
        left = set(piece.unfinished)
        need, history = self._task.need, self._task.history
        every = [(b, k) for b in range(len(history.blocks)) for k in range(history.blocks[b].iterations)]
        without = {one.name for one in history.boundaries if one.part == INSIDE}  # what it shared with others is run in one go
        lacking = need.lacking | self._damaged(piece) | self._refused | without
        narrowed = replace(
            need, only=None, answered=scans.ranges([place for place in every if place not in left]), lacking=lacking,
            prefix_answered=not (piece.stretch.prefix and not piece.seen.iterations), end_answered=not piece.stretch.to_end,
        )  # fmt: skip
        return list(scans.plan(history, narrowed, 1, self._task.plan.rung, self._task.rates).stretches)

    def _damaged(self, piece: Piece) -> frozenset[str]:
        """The state that a worker began with, if its bytes are not what was written: the next older one is taken."""
        start = piece.stretch.start
        if start is None or piece.seen.iterations:
            return frozenset()
        name = manifests.named(self._task.run, start.name)
        assert name is not None
        try:
            one = manifests.read(self._task.store, name)
            problem = restore_points.problem_of(self._task.store, RestorePoint(one.run, one.attempt, one.number, one.part, (one,)))
        except (Damaged, NotFound) as trouble:
            problem = str(trouble)
        if problem is None:
            return frozenset()
        self._notes.append(f"{problem}; an older one was used")
        return frozenset((start.name,))

    def _shown(self, elapsed_s: float) -> Shown:
        pieces = [*self._done, *(piece for _, piece, _ in self._running)]
        wanted = {(b, k) for piece in pieces for b, first, last in piece.stretch.covers for k in range(first, last + 1)}
        done = {place for piece in pieces for place in piece.seen.iterations} & wanted
        parts = {part for piece in pieces for part in piece.parts}
        return Shown(len(done) + len(parts), self._of, len(self._running), elapsed_s, self._task.plan.seconds.expected)


def _was_refused(piece: Piece) -> bool:
    """Whether it was ended by a state that the program could not take."""
    return piece.seen.error.rpartition(".")[2] in (RestoreRefused.__name__, RestoredOtherwise.__name__)


def _in_words(code: int | None, piece: Piece) -> str:
    if code is None:
        return "did not end"
    if code < 0:
        import signal

        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        memory = " (memory may have run out: use fewer --workers)" if name == "SIGKILL" else ""
        return f"was ended by {name}{memory}"
    if code == 0 or piece.seen.ended == "finished":
        return "came to the program's end before the last iteration that was asked for"
    return f"failed with exit code {code}"


def _places(history: History, piece: Piece) -> str:
    left = piece.unfinished
    if not left:
        return "what is after the main loop" if piece.stretch.to_end else "what is before the main loop"
    (block, first), (_, last) = left[0], left[-1]
    name = history.blocks[block].name if block < len(history.blocks) else "iteration"
    return f"{name}#{first}" if len(left) == 1 else f"{name}#{first} to #{last}"
