"""A resumed program on its way to its checkpoint: loops go to where they were, the state is put back, and recording begins.

The code before the loop runs again. Loops that had ended by then are not gone through again; those around the place begin at the
iteration that was going on, with the state that it began with where that was kept; in the innermost one everything is put back, the
random streams last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rearview.errors import CheckpointError, Damaged, NotFound, PlaceNotReached, RestoredOtherwise, RestoreRefused
from rearview.record.checkpoints import boundaries
from rearview.record.checkpoints.following import PLAIN
from rearview.record.checkpoints.scope import Roots
from rearview.record.loops import LoopIterator, Node
from rearview.record.resume import aside, proving, rehearsal, restore_points, undoing
from rearview.record.resume.handshake import Handshake
from rearview.record.resume.kept import ITERATION, Kept, before, end_of_block, last_of
from rearview.record.say import say
from rearview.state import positions
from rearview.state.iterating import around, simple
from rearview.state.iterating import items as chosen
from rearview.state.iterating.layers import OnceMore
from rearview.store import manifests
from rearview.store.layout import Store
from rearview.store.manifests import Manifest, ManifestName

if TYPE_CHECKING:
    from rearview.record.checkpoints.checkpointing import Checkpointing
    from rearview.record.recorder import Recorder


class Reach:
    """Brings one process of a run to one checkpoint. The guard of the loops outside `checkpointing` until then."""

    def __init__(self, recorder: Recorder, shake: Handshake, manifest: Manifest, *, exactly: bool = False, resumes: bool = True) -> None:
        self._recorder = recorder
        self._exactly = exactly
        """What cannot be brought back exactly is refused, instead of said."""
        self._resumes = resumes
        """The run goes on: what was put back and is not what the checkpoint holds is said. A replay begins with no such state."""
        self._shake = shake
        self._store = Store(shake.store)
        """The one that has the run; a replay logs into another."""
        self.manifest = manifest
        self._kept = Kept(self._store, manifest, self._say_inexact)
        self._sources: dict[int, Any] = {}
        self._said: set[str] = set()
        self._refused = False
        """The state does not fit what the program has made so far."""
        self._is_another = False
        """When it was put back, it was another one."""
        self._is_inside = False
        """The program runs the body of its main loop, on its way to a place in that: what it finds there is a later state."""
        self._ended: Kept | None = None
        """The end state of a skip block that is being passed by."""
        self._gone_through: list[Node] = []
        """Loops that had ended and of which a state is not enough: they are run again, and nothing in them is recorded again."""
        self._began = time.perf_counter()

    @property
    def is_new_run(self) -> bool:
        """The edited code goes on, as a run of its own: its arguments were not recorded before."""
        return self._shake.is_new_run

    # -- the guard of loops -----------------------------------------------------------------------------------------------

    def iterator(self, loop: LoopIterator, source: Any) -> Iterator[Any]:
        """Nothing is iterated over before it is known where to begin; once the place is come to, everything is."""
        if not self._recorder.reaching:
            return iter(source)
        self._sources[id(loop)] = source
        return iter(())

    def entered(self, loop: LoopIterator, node: Node) -> None:
        """A loop outside `checkpointing`."""
        self.arrive(loop, node, None)

    def advancing(self, loop: LoopIterator, node: Node) -> None:
        """Nothing to do."""

    def yielded(self, loop: LoopIterator, item: Any) -> None:
        """Nothing to do."""

    def left(self, loop: LoopIterator, node: Node, ending: int) -> None:
        """Nothing to do."""

    # -- arriving ----------------------------------------------------------------------------------------------------------

    def arrive(self, loop: LoopIterator, node: Node, within: Checkpointing | None) -> None:
        """A loop is about to begin: skip it, go to where it was, or be there."""
        if within is not None and self._shake.is_new_run and not within.scope.exact:
            within.scope.edited = True
        source = self._sources.pop(id(loop), None)
        if source is None:
            return
        if not self._recorder.reaching:  # it was made on the way
            loop.go_to(0, iter(source))
            return
        depth = _depth(node) - 1
        path = self.manifest.path
        if self._is_gone_through(node):
            loop.go_to(0, iter(source))
            return
        on_the_way = depth < len(path) and [node.name, node.occurrence] == path[depth][:2] and self._around(node, depth)
        if not on_the_way:
            self._pass_by(loop, node, source, depth, within)
        elif depth == len(path) - 1:
            self._be_there(loop, node, source, depth, within)
        else:
            self._go_on_in(loop, node, source, depth, within)

    def may_lie_in(self, name: str, occurrence: int, around: Node) -> bool:
        """Whether the place may be inside a skip block: the loops around it are where they were, the way goes on to another loop, and
        the block had not ended before. If it had and its end state was kept, that is put back at its end."""
        path = self.manifest.path
        depth = _depth(around)
        if depth >= len(path) or [name, occurrence] == path[depth][:2] or not self._around_is(around, depth):
            return False
        ended = end_of_block(self._store, self.manifest, depth, name, occurrence)
        if ended is None or restore_points.damage(self._store, [ended]) is not None:
            return True
        self._ended = Kept(self._store, ended, self._say_inexact)
        return False

    def block_ended(self, name: str, occurrence: int, around: Node, live: Roots) -> None:
        """A skip block that was not stepped into: its end state is put back, if it is the one of the checkpoint, or on the way there."""
        path = self.manifest.path
        depth = _depth(around)
        if depth == len(path) - 1 and [name, occurrence] == path[depth][:2] and self._around_is(around, depth):
            self._kept.restore(live)
            self._kept.put_streams_back()
            self._count(around)
            self._arrived(None, lambda: live)
        elif self._ended is not None:
            self._ended.restore(live)
            self._ended.put_streams_back()
            around.entered.update(self._ended.manifest.loops[depth]["entered"])
        self._ended = None

    def _is_gone_through(self, node: Node) -> bool:
        """Whether a loop is inside one that is gone through again."""
        around = node.parent
        while around is not None:
            if around in self._gone_through:
                return True
            around = around.parent
        return False

    def _around_is(self, parent: Node | None, depth: int) -> bool:
        while depth > 0 and parent is not None:
            depth -= 1
            if [parent.name, parent.occurrence, parent.iteration] != self.manifest.path[depth][:3]:
                return False
            parent = parent.parent
        return True

    def _around(self, node: Node, depth: int) -> bool:
        """Whether the loops around it are where they were."""
        return self._around_is(node.parent, depth)

    def _pass_by(self, loop: LoopIterator, node: Node, source: Any, depth: int, within: Checkpointing | None) -> None:
        """A loop inside `checkpointing` that had ended is not gone through again; any other means that the program took another way."""
        levels = self.manifest.loops
        ended = levels[depth]["entered"].get(node.name, 0) if depth < len(levels) and self._around(node, depth) else 0
        if node.occurrence >= ended:
            raise CheckpointError(
                f"the program did not come to the place of checkpoint {self.manifest.name}: loop {node.name!r} began instead of "
                f"{self.manifest.path[min(depth, len(self.manifest.path) - 1)][0]!r}; resume from the beginning, or with --current-code"
            )
        if within is None:  # nothing of it was kept, and what comes next needs what it does
            self._go_through(loop, node, 0, iter(source))
            return
        if depth == int(self.manifest.stats.get("outside", 0)):
            self._end_of_main(loop, node, source, depth, within)
            return
        loop.go_to(0, iter(()))
        self._put_back_quietly(self._kept, within)  # what comes next finds variables that the loop assigned

    def _go_through(self, loop: LoopIterator, node: Node, iteration: int, items: Iterator[Any]) -> None:
        """Run a loop from an iteration on."""
        self._gone_through.append(node)
        loop.go_to(iteration, items)

    def _end_of_main(self, loop: LoopIterator, node: Node, source: Any, depth: int, within: Checkpointing) -> None:
        """A main loop that had ended is at its end: it is run from its last state on to where it was left, mostly nothing.

        What it leaves by `return` or an exception, and what comes next draws, is then what it was.
        """
        last = self._open(lambda: last_of(self._store, self.manifest, depth, node.name, node.occurrence))
        if last is not None and self._put_back_quietly(last, within):
            position = last.position(depth)
            iteration = last.manifest.path[depth][2] + 1
            is_over = last.manifest.ending == "break"
            if not is_over:
                self._bring_on(loop, iteration, position.get("beside", ()))
            self._go_through(loop, node, iteration, iter(()) if is_over else positions.put_back(source, position))
            last.put_streams_back()
        elif self.manifest.function in ("", within.scope.frame.f_code.co_qualname):  # it has its variables
            loop.go_to(0, iter(()))
            self._put_back_quietly(self._kept, within)
        else:
            self._go_through(loop, node, 0, iter(source))

    def _go_on_in(self, loop: LoopIterator, node: Node, source: Any, depth: int, within: Checkpointing | None) -> None:
        """A loop around the place: it yields again what it was at."""
        iteration = self.manifest.path[depth][2]
        self._is_inside = within is not None
        self._bring_on(loop, iteration)
        if within is None:
            loop.go_to(iteration, islice(iter(source), iteration, None))
            return
        began = self._open(lambda: before(self._store, self.manifest, depth))  # what runs in it before the place sees that
        if iteration == 0:
            birth = None if type(source) in PLAIN else positions.begin(source)
            items: Iterator[Any] = iter(source)
        elif began is not None and (values := self._put_back_quietly(began, within)) is not None:
            with began.refilled(within.scope, values):
                items, birth = self._from(source, self._fitted(source, began.position(depth)), iteration)
        else:
            values = self._kept.put_back(within.scope)
            with self._kept.refilled(within.scope, values):
                items, birth = self._from(source, self._fitted(source, self._kept.position(depth)), iteration)
            if type(source) not in PLAIN:
                items = OnceMore(values.get(("item", 0)), items)
        loop.go_to(iteration, items)
        within.follow(loop, node, source, items, birth)
        self._kept.put_streams_back(ITERATION)
        within.iteration_begins()

    def _open(self, find: Callable[[], Manifest | None]) -> Kept | None:
        """An earlier checkpoint, for what runs on the way; None if nothing of it is left."""
        try:
            found = find()
            return None if found is None else Kept(self._store, found, lambda _: None)
        except (Damaged, NotFound):
            return None

    @staticmethod
    def _put_back_quietly(kept: Kept, within: Checkpointing) -> dict[Any, object] | None:
        """What was put back; None if that could not be: a later one takes its place."""
        try:
            return kept.put_back(within.scope)
        except (Damaged, NotFound, RestoreRefused):
            return None

    @staticmethod
    def _from(source: Any, position: dict[str, Any], iteration: int) -> tuple[Iterator[Any], Any]:
        """What a loop goes on with, and what was true when it began."""
        if type(source) in PLAIN:
            return simple.advanced(source, iteration), None
        return positions.put_back(source, position), positions.born_as(source, position)

    def _fitted(self, source: Any, position: dict[str, Any]) -> dict[str, Any]:
        """Where a loop is. Edited code says itself how far a range goes: more epochs is why most of it was edited."""
        live = getattr(source, "iterable", source)  # a progress bar's
        shape = position.get("shape", {})
        if self._shake.is_new_run and type(live) is range and shape.get("kind") == "range" and shape["rest"][2] == live.step:
            shape["rest"][1] = live.stop
        return position

    def _be_there(self, loop: LoopIterator, node: Node, source: Any, depth: int, within: Checkpointing | None) -> None:
        """The place itself."""
        if within is None:
            raise CheckpointError(f"loop {node.name!r} was inside `rv.checkpointing` when it was recorded, and is not now")
        iteration = self.manifest.path[depth][2]
        position = self._kept.position(depth)
        beside = position.get("beside", ())
        is_over = self.manifest.part == boundaries.BLOCK or self.manifest.ending == "break"
        if not is_over:
            self._bring_on(loop, iteration + 1, beside)
        self._refused = True
        values = self._kept.put_back(within.scope)
        items: Iterator[Any] = iter(())
        birth = None
        with self._kept.refilled(within.scope, values):
            if not is_over:
                known = list(position.get("inexact", ()))
                source = chosen.as_they_were(source, position.get("items"), self._kept.ran_over(values, depth))
                items = positions.put_back(source, self._fitted(source, position))
                birth = positions.born_as(source, position)
                self._refuse_inexact(known)
                self._say_inexact([sentence for sentence in position.get("inexact", ()) if sentence not in known])
                self._say_inexact(around.settle(loop, beside) if beside else ())
        loop.go_to(iteration + 1, items)
        within.follow(loop, node, source, items, birth)
        self._kept.put_streams_back()
        if self.manifest.part == boundaries.ITERATION:
            within.iteration_begins()
        self._count(node)
        self._arrived(within, lambda: within.roots_of(self.manifest.part))
        if rehearsal.is_needed(self._recorder):
            within.rehearse(node if self._steps_here() else None)

    def _steps_here(self) -> bool:
        """Whether the loop of the place is the one that the program's steps are in."""
        return self.manifest.part == boundaries.INSIDE or (
            self.manifest.part == boundaries.ITERATION and not self.manifest.loops[-1]["entered"]
        )

    def _bring_on(self, loop: LoopIterator, steps: int, beside: Sequence[Any] = ()) -> None:
        """Before anything is put back: what the program put around the loop counts along, and may draw on the way."""
        self._say_inexact(around.bring_on(loop, steps, beside))

    def _refuse_inexact(self, sentences: Sequence[str]) -> None:
        if self._exactly and sentences:
            raise RestoreRefused(list(sentences))

    def _say_otherwise(self, sentences: Sequence[str]) -> None:
        if sentences and not self._resumes:
            raise RestoreRefused(list(sentences))
        self._say_inexact(sentences)

    def _say_inexact(self, sentences: Sequence[str]) -> None:
        self._refuse_inexact(sentences)
        for sentence in sentences:
            if sentence in self._said:  # a state may be put back twice on the way
                continue
            self._said.add(sentence)
            say(f"run {self._recorder.run} may not go on exactly as it was: {sentence}")
            if self._resumes:
                self._recorder.fact("inexact", manifest=str(self.manifest.name), why=sentence)

    def _count(self, node: Node) -> None:
        """Records and loops are counted on from where they were."""
        nodes = [node]
        while nodes[-1].parent is not None:
            nodes.append(nodes[-1].parent)
        for one, kept in zip(nodes[::-1], self.manifest.loops, strict=False):
            one.counts.update(kept["counts"])  # what a replay's own statements logged on the way stays counted
            one.entered.clear()
            one.entered.update(kept["entered"])

    def _arrived(self, within: Checkpointing | None, roots: Callable[[], Roots]) -> None:
        if self._shake.aside is not None:
            for sentence in aside.bring_back(self._shake.aside, self._shake.files, str(self._recorder.process)):
                say(sentence)
        if self._resumes and self._recorder.keeping is not None:
            self._recorder.keeping.outputs.go_on_with(self.manifest.files)
        seconds = time.perf_counter() - self._began
        self._recorder.reaching = False
        if not self._shake.is_new_run:  # edited code makes another state of it, on purpose
            self._prove(roots)
        self._refused = False
        if within is not None:
            within.restored(seconds)
        self._recorder.fact("restored", manifest=str(self.manifest.name), seconds=seconds)

    def _prove(self, roots: Callable[[], Roots]) -> None:
        """What was put back is what the checkpoint holds; if not, an older state is to be taken, where this one is not wanted anyway."""
        proof = proving.prove(self._kept, roots)
        if proof.refused and self._resumes and not self._shake.anyway:
            self._recorder.reaching = self._is_another = True
            raise RestoredOtherwise([proof.refused])
        self._say_otherwise(proof.sentences)

    def ended(self) -> PlaceNotReached | None:
        """The run ends. If the place was never reached, that is said, and output files are as they were before."""
        if not self._recorder.reaching or self._recorder.process != self.manifest.process:  # or a child that was forked on the way
            return None
        missed = f"run {self._recorder.run} ended without coming to the place of checkpoint {self.manifest.name}: nothing was restored"
        if self._is_another:
            missed = f"run {self._recorder.run} did not go on from checkpoint {self.manifest.name}, whose state did not come back as it was"
        command = f"rearview resume {self._recorder.run}"
        now = f"look at what it did before its loop, then `{command}` tries again"
        if (self._refused or self._is_inside or self._is_another) and not self._shake.is_new_run:
            self._recorder.fact("missed", manifest=str(self.manifest.name), otherwise=self._is_another)
            now = f"`{command}` takes an older state next, if there is one (`--at PLACE` this one, or another)"
        sentence = f"{missed}; {now}"
        say(sentence)
        if self._shake.aside is not None:
            for said in undoing.undo(self._shake.aside, self._shake.files, str(self._recorder.process)):
                say(said)
        return PlaceNotReached(sentence)


def begin(recorder: Recorder, shake: Handshake, *, exactly: bool = False, resumes: bool = True) -> None:
    """The run goes on from a checkpoint, or, where there is none, once more from the beginning. `resumes`: it is no replay."""
    recorder.fact("resumed", **shake.facts())
    text = shake.checkpoint.get(recorder.process)
    if text is None:
        return
    name = ManifestName.parse(shake.run, text if text.endswith(manifests.SUFFIX) else text + manifests.SUFFIX)
    if name is None:
        raise CheckpointError(f"{text!r} is not the name of a checkpoint of run {shake.run}")
    recorder.reach = Reach(recorder, shake, manifests.read(Store(shake.store), name), exactly=exactly, resumes=resumes)
    recorder.reaching = True
    recorder.guard = recorder.reach


def _depth(node: Node) -> int:
    depth = 0
    while node.parent is not None:
        node = node.parent
        depth += 1
    return depth
