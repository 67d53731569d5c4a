"""The checkpoints of one run in one process: when one is due, what its manifest says, what it has cost.

Brings together the decision (`cadence`), the state (`state`) and the writing (`materialize`). A disk that fails ends the taking of
checkpoints with one sentence; logging goes on.
"""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING

from rearview.record import environment, keeper
from rearview.record.checkpoints import staging
from rearview.record.checkpoints.agreement import Agreement
from rearview.record.checkpoints.at_work import Fed
from rearview.record.checkpoints.boundaries import Boundary
from rearview.record.checkpoints.cadence import AdaptivePeriod
from rearview.record.checkpoints.jobs import Job
from rearview.record.checkpoints.materialize import Materializer, is_of_the_disk, is_void
from rearview.record.checkpoints.room import is_of_memory
from rearview.record.checkpoints.scope import Roots, Scope
from rearview.record.checkpoints.thinning import Thinning
from rearview.record.checkpoints.timing import Timing
from rearview.record.checkpoints.uncounted import Uncounted
from rearview.record.files import own, under_way
from rearview.record.files.outputs import Outputs
from rearview.record.loops import Node
from rearview.record.reserve import Reserve
from rearview.record.say import say
from rearview.state import positions, streams
from rearview.state.capture import Captured, Missing, capture
from rearview.state.places import root_text
from rearview.state.take import histories
from rearview.state.take.again import Again
from rearview.state.take.hooks import Hooks
from rearview.state.take.texts import Texts
from rearview.store.manifests import Manifest

if TYPE_CHECKING:
    from rearview.record.recorder import Recorder

_LARGE = 256 << 20
"""What takes this much and was not named is named with its size."""
_PASSES = 3
"""Over the bytes of a state: the copy, the hash, the write. What the first checkpoint is reckoned to cost."""
_LOOK_AGAIN_S = 60.0
_MEMBER = re.compile(r"\[[^\]]*\]")
"""Which one of a list or dict."""


class Keeping:
    """Takes and accounts for checkpoints."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.settings = recorder.settings
        self.periods: dict[str, AdaptivePeriod] = {}
        uncounted = Uncounted(recorder.project).is_there
        self.materializer = Materializer(recorder.store, self._over, uncounted, lambda: keeper.settle(recorder))
        self._thinning = Thinning(recorder)
        self._reserve = Reserve(recorder.store)
        recorder.journal.make_room = self._reserve.give_back
        self.outputs = Outputs(recorder.project, recorder.store.root)
        self.number = 0
        several = (recorder.world or 1) > 1
        self.agreement = Agreement(recorder.store, recorder.run, recorder.attempt, recorder.rank or 0) if several else None
        """With the other ranks, if there are any."""
        self.fed = Fed()
        self.stopped = self._is_parents = False
        self.grows = False
        """Nothing but the beginning of a first main loop was seen: how large a state is will be known after its first step."""
        self.inside_due_at = time.monotonic() + self.settings["risk"]
        self.left_with: int | None = None
        """The program left its loops by `sys.exit` with that, and nobody else may see it: a handler of SIGTERM does so."""
        self._results: list[Job] = []
        self._current: tuple[Node, int] | None = None
        """The iteration at whose end the last checkpoint was taken."""
        self._said: set[str] = set()
        self._accounted: dict[str, dict[str, float]] = {}
        """Of each block, what was measured when it was last told."""
        self._told_environment = False
        self._hooks, self._texts, self._again = Hooks(), Texts(), Again()
        self._timing: Timing | None = None
        self._timed: Node | None = None
        self._blocks = 0
        """Main blocks so far whose iterations were timed."""

    @property
    def decides_ahead(self) -> bool:
        """Whether a rank decides for all, before an iteration begins. A fixed period needs no word."""
        return self.agreement is not None and not self.settings["every"]

    @staticmethod
    def of(recorder: Recorder) -> Keeping:
        """The one of a run."""
        if recorder.keeping is None:
            recorder.keeping = Keeping(recorder)
        return recorder.keeping

    def period_of(self, block: str) -> AdaptivePeriod:
        """The period of a block, as an earlier pass through it left it."""
        if block not in self.periods:
            self.periods[block] = AdaptivePeriod(self.settings["eps"], every=self.settings["every"])
        return self.periods[block]

    # -- what is said beforehand --------------------------------------------------------------------------------------

    def introduce(self, scope: Scope) -> None:
        """What was named is looked at once: it can be captured, or the run says now that it cannot."""
        captured = capture({("given", name): value for name, value in scope.given().items()}, adapters=[positions.Iterators()])
        self._say_partial([[lack.where, lack.type_name, lack.why] for lack in captured.missing])

    def main_begins(self, scope: Scope, period: AdaptivePeriod) -> None:
        """The main loop is about to begin: what is there now says how large a checkpoint will be, at the least."""
        self._tell_outputs()
        self.outputs.loop_begins()
        self._hooks.loop_begins(scope.hooked)
        if not self._told_environment:  # a run that is killed never comes to its end, where this is told as well
            self._told_environment = True
            self.recorder.fact("environment", **environment.at_end())
        self.grows = period.k == 0
        if self.grows:
            self._expect(scope, period)

    def _tell_outputs(self) -> None:
        """Files opened before the loop, with their size before: killed ahead of its first checkpoint, the run begins anew from these."""
        fresh = own.fresh(self.recorder.outputs_told, self.recorder.project, self.recorder.store.root)
        if fresh is not None:
            self.recorder.fact("outputs", **fresh)
            self.recorder.flush()

    def first_step_ended(self, scope: Scope, period: AdaptivePeriod) -> None:
        """Optimizers have made their state by now, and there are gradients: several times what there was before."""
        self.grows = False
        self._expect(scope, period)

    def _expect(self, scope: Scope, period: AdaptivePeriod) -> None:
        if self._is_parents:
            return
        captured = capture(scope.roots(), adapters=[positions.Iterators()], hooks=self._hooks, texts=self._texts)
        size = sum(buffer.nbytes for buffer in captured.buffers)
        period.expect(size, staging.copy_speed(size) / _PASSES)
        self.materializer.prepare(size)

    def _say_once(self, sentence: str, about: str | None = None) -> None:
        """`about`: what the sentence is about, where it has figures that are others each time."""
        if (about or sentence) not in self._said:
            self._said.add(about or sentence)
            say(sentence)

    def _say_partial(self, missing: list[list[str]]) -> None:
        """What is not held, by name: of the members of a container one for all."""
        alike: dict[str, list[list[str]]] = {}
        for row in missing:
            alike.setdefault(_MEMBER.sub("[]", " ".join(row)), []).append(row)
        for about, ((where, kind, why), *more) in alike.items():
            others = f" and {len(more)} more like it" if more else ""
            are = "are" if more else "is"
            self._say_once(f"checkpoints of this run are partial: {where} ({kind}){others} {are} not in them: {why}", about=about)

    # -- when ----------------------------------------------------------------------------------------------------------

    def due(self, period: AdaptivePeriod, iteration: int, running_s: float) -> bool:
        """Whether the end of this iteration is worth a checkpoint."""
        self._account_results()
        if self.stopped:
            return False
        every = self.settings["every"]
        if every:
            return bool((iteration + 1) % every == 0)
        return not self.materializer.busy and bool(period.inside_due(math.inf, 0.0, running_s))

    def affords(self, period: AdaptivePeriod, running_s: float = 0.0) -> bool:
        """Whether one more may be taken, wherever the program is."""
        self._account_results()
        return not self.stopped and (bool(self.settings["every"]) or bool(period.inside_due(math.inf, 0.0, running_s)))

    def inside_due(self, period: AdaptivePeriod, running_s: float, node: Node) -> bool:
        """Whether so much work is at risk that a checkpoint inside a long block, at `node`, is worth it."""
        self._account_results()
        if self.stopped or self.materializer.busy:
            return False
        risk_s = self.settings["risk"]
        decision = period.inside_due(math.inf, risk_s, running_s)
        if not decision:
            self.inside_due_at = time.monotonic() + min(risk_s, _LOOK_AGAIN_S)
            self._say_once(
                f"more than {risk_s:g} s of work are at risk inside a loop: {decision.reason} (eps={self.settings['eps']:.3g}); "
                "raise eps to be safe sooner",
                about="work at risk",
            )
        return bool(decision)

    def last_is_current(self, node: Node) -> bool:
        """Whether the end of the last iteration was kept already."""
        return self._current == (node, node.iteration)

    def after_fork_in_child(self) -> None:
        """In a forked child that goes on inside the loop: the checkpoints are those of its parent."""
        self._is_parents = self.stopped = True
        self.materializer.after_fork_in_child()

    # -- taking one ------------------------------------------------------------------------------------------------------

    def take(self, boundary: Boundary, roots: Roots, period: AdaptivePeriod, *, began: float, second: bool = False) -> bool:
        """Take one part of a checkpoint. False if it was skipped."""
        if self._is_parents:
            return False
        if self.materializer.busy and not second:
            if not self.settings["every"] and self.agreement is None:
                return False
            self.materializer.wait()
        if not second:
            self.number += 1
        boundary.beside.extend(under_way.settle())
        roots["stream", "global"] = streams.take()
        iterators = positions.Iterators()
        captured = capture(roots, adapters=[iterators], hooks=self._hooks, texts=self._texts, again=self._again)
        boundary.inexact.extend(iterators.inexact)
        marks, metrics = self.outputs.at_boundary(captured.mapped), self._thinning.metrics()
        manifest = self._manifest(boundary, captured)
        job = self.materializer.take(
            manifest, captured, began, second=second, period=period, files=lambda keep: self.outputs.note(marks, keep)
        )
        job.metrics = metrics
        if job.held_since is not None:
            size = sum(captured.tree.buffers) / 1e6
            sentence = f"there is no memory for a copy of {size:,.0f} MB: the training waits while a checkpoint is written"
            self._say_once(sentence, about="no memory for a copy")
        self._current = boundary.current
        self.inside_due_at = time.monotonic() + self.settings["risk"]
        self._name_what_is_large(captured)
        return True

    @staticmethod
    def _done_with(captured: Captured, boundary: Boundary) -> list[Missing]:
        """Histories of values that nothing looks at any more. Of more than are named, nothing is known of the others."""
        pending = [lack for lack in captured.missing if lack.why == histories.PENDING]
        names = boundary.rebound() if 0 < len(pending) < histories.MOST else ()
        return [lack for lack in pending if lack.where in names]

    def _manifest(self, boundary: Boundary, captured: Captured) -> Manifest:
        recorder = self.recorder
        done_with = self._done_with(captured, boundary)
        missing = [[lack.where, lack.type_name, lack.why] for lack in captured.missing if lack not in done_with]
        missing += [[str(boundary.path[-1][0]), "position", why] for why in boundary.inexact]
        missing += boundary.beside
        self._say_partial(missing)
        return Manifest(
            run=recorder.run,
            process=recorder.process,
            attempt=recorder.attempt,
            number=self.number,
            part=boundary.part,
            path=boundary.path,
            tree="",
            tree_bytes=0,
            buffers=(),
            ending=boundary.ending,
            loops=list(boundary.loops),
            taken_at=recorder.elapsed_us(),
            wall=time.time(),
            missing=missing,
            unlike=[[one.where, one.type_name, one.why] for one in captured.unlike],
            pickled=list(captured.pickled),
            function=boundary.function,
            stats={"compute_s": boundary.compute_s, "nodes": len(captured.tree.nodes), "outside": boundary.outside},
            rank=recorder.rank or 0,
            world=recorder.world or 1,
            complete=not missing,
        )

    def _name_what_is_large(self, captured: Captured) -> None:
        if sum(captured.tree.buffers) < _LARGE:  # all of it together: no root needs to be looked for
            return
        for key, size in captured.sizes().items():
            if key[0] != "given" and size >= _LARGE:
                name = root_text(key)
                self._say_once(f"{name} is kept with each checkpoint: {size / 1e9:.1f} GB", about=f"size of {name}")

    # -- afterwards ------------------------------------------------------------------------------------------------------

    def _over(self, job: Job) -> None:
        """On the writing thread: a job is done, or failed."""
        self._results.append(job)
        if job.written:
            self._thinning.written(job.manifest, job.metrics)
            self._thinning.keep_to_it()
            self.recorder.fact("checkpoint", manifest=str(job.manifest.name), wall=job.manifest.wall, at=job.manifest.taken_at)

    def _account_results(self) -> None:
        while self._results:
            job = self._results.pop(0)
            if job.written and job.is_second:
                job.period.costs_more(job.lost_s)
            elif job.written:
                job.period.took(job.lost_s)
            elif is_of_memory(job.problem):
                self._say_once("a checkpoint was left out, there was no memory to write it: the next one is tried")
            elif not is_void(job.problem):
                self._stop(job.problem)

    def iteration_ran(self, node: Node, seconds: float, nested_s: float) -> None:
        """A main iteration is over: what it took is noted, a batch at a time, for whoever predicts what running it again takes."""
        if self._timing is None or not self._timing.goes_on(node):
            self._note_timing()
            self._blocks += node is not self._timed
            self._timed, self._timing = node, Timing(node, self._blocks - 1)
        if self._timing.add(seconds, nested_s):
            self._note_timing()

    def _note_timing(self) -> None:
        timing, self._timing = self._timing, None
        if timing is not None:
            self.recorder.fact("timing", **timing.facts())

    def _stop(self, problem: Exception | None) -> None:
        if not self.stopped:
            self.stopped = True
            fault = "" if is_of_the_disk(problem) else f"a fault in rearview, please report it: {type(problem).__name__}: "
            say(f"no more checkpoints of run {self.recorder.run} are taken: {fault}{problem}; logging and the training go on")

    def account(self, block: str, period: AdaptivePeriod) -> None:
        """What the checkpoints of a block have cost so far, for `rearview show`. One that is still being written is added by `finish`."""
        self._hooks.loop_ended()
        self._note_timing()
        self._account_results()
        measured = period.to_plain()
        if self._accounted.get(block) == measured:
            return
        self._accounted[block] = measured
        figures = {"M": period.M, "C": period.C, "c": period.c, "share": period.share, "eps": period.eps, "every": self.settings["every"]}
        self.recorder.fact("cadence", block=block, **figures, **measured)

    def finish(self) -> None:
        """The run ends: the last write is finished, with a line if that takes a moment; Ctrl-C gives it up."""
        try:
            if not self.materializer.wait(0.2):
                say(f"run {self.recorder.run}: the last checkpoint is being written (Ctrl-C gives it up)")
            self.materializer.wait()
        except KeyboardInterrupt:
            self.stopped = True  # no fault: nothing is to be said about it
            self.materializer.give_up()
            say(f"run {self.recorder.run}: the last checkpoint was given up, the one before it stands")
        self.materializer.rest()
        self._account_results()
        for block, period in self.periods.items():
            self.account(block, period)
        self._thinning.keep_to_it(last=True)
        self._reserve.end()
