"""In a worker: the state at each boundary that the record kept, digested and compared with it. Takes the place of `record.keeping`.

Nothing is kept and nothing is decided about checkpoints; what was decided while recording says where to look. Also counts the main
iterations: the worker's unit ends after the last of them.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rearview.errors import Damaged, NotFound
from rearview.record.checkpoints import differing
from rearview.record.checkpoints.at_work import Fed
from rearview.record.checkpoints.boundaries import INSIDE, ITERATION, Boundary, place
from rearview.record.checkpoints.cadence import AdaptivePeriod
from rearview.record.checkpoints.scope import Roots, Scope
from rearview.record.loops import Node
from rearview.replay.worker import orders
from rearview.state import leaves, positions, streams
from rearview.state.capture import Captured, capture
from rearview.state.tree import decode
from rearview.store import objects
from rearview.store.layout import Store
from rearview.store.manifests import Manifest

if TYPE_CHECKING:
    from rearview.record.recorder import Recorder

Place = tuple[int, int]
"""Which main block, in program order, and which of its iterations."""


class KeptBoundaries:
    """What the record kept of one process, by boundary; the newest attempt that came there counts."""

    def __init__(self, found: Sequence[Manifest], restorable: Callable[[Manifest], bool]) -> None:
        self._by_place: dict[tuple[str, str], Manifest] = {}
        self._ends: dict[tuple[str, str, int], Manifest] = {}
        """Of nested blocks that can be put back: by the place of the iteration they are in, name and occurrence."""
        self.iterations: set[int] = set()
        """Numbers of main iterations at whose end, or in which, anything was kept."""
        self.steps: set[int] = set()
        """Numbers of iterations of nested loops behind which something was kept inside these."""
        for one in sorted(found, key=lambda one: one.name.order):
            self._by_place[one.part, _key(one.path)] = one
            self.iterations.add(one.path[min(int(one.stats.get("outside", 0)), len(one.path) - 1)][2])
            if one.part == INSIDE:
                self.steps.add(one.path[-1][2])
            if one.part == "block" and restorable(one):
                self._ends[_key(one.path[:-1]), one.path[-1][0], one.path[-1][1]] = one

    def at(self, part: str, path: Sequence[Sequence[Any]]) -> Manifest | None:
        """The manifest of a boundary."""
        return self._by_place.get((part, _key(path)))

    def end_of(self, around: Sequence[Sequence[Any]], name: str, occurrence: int) -> Manifest | None:
        """The end state of a nested block, if it can be put back; `around` is the path of the loops around it."""
        return self._ends.get((_key(around), name, occurrence))


def _key(path: Sequence[Sequence[Any]]) -> str:
    """A place by its numbers: a value may be called anything."""
    return "".join(f"{name!r}:{occurrence}:{iteration}/" for name, occurrence, iteration, *_ in path)


def same_place(path: Sequence[Sequence[Any]], other: Sequence[Sequence[Any]]) -> bool:
    """Whether two paths are of one place, whatever its iterations are called."""
    return _key(path) == _key(other)


class _AtRest:
    """There is no writing thread."""

    def rest(self) -> None:
        """Nothing to do."""


class Comparing:
    """Follows the main loops of a replayed run, as `Keeping` does those of a recorded one."""

    agreement = None
    decides_ahead = False
    grows = False
    stopped = False

    def __init__(
        self, recorder: Recorder, kept: KeptBoundaries, *, first_block: int, ended: Callable[[Place], None], began: Callable[[int], None],
        compared: Callable[[Manifest], None], passed: Callable[[Boundary], None], origin: Store, seed_known: bool = True,
    ) -> None:  # fmt: skip
        self.recorder = recorder
        self._origin = origin
        self._seed_known = seed_known
        """The process has the hash seed of the recorded one."""
        self._noted: set[orders.Row] = set()
        self._looked = False
        self.kept = kept
        self.materializer = _AtRest()
        self.fed = Fed()
        self._block = first_block - 1
        self._ended = ended
        """Told after each main iteration."""
        self._compared = compared
        """Told at each boundary that is compared."""
        self._passed = passed
        """Told behind each boundary."""
        self.inside_due_at = -math.inf if kept.steps else math.inf
        self._began = began
        """Told when a main loop begins."""

    # -- what loops ask -------------------------------------------------------------------------------------------------

    def period_of(self, block: str) -> AdaptivePeriod:
        """Nobody asks it anything."""
        return AdaptivePeriod()

    def introduce(self, scope: Scope) -> None:
        """What cannot be captured was said when it was recorded."""

    def main_begins(self, scope: Scope, period: AdaptivePeriod) -> None:
        """The next main block."""
        self._block += 1
        self._began(self._block)

    def due(self, period: AdaptivePeriod, iteration: int, running_s: float) -> bool:
        """Whether there may be something to compare with here. The first that ends is looked at whatever was kept."""
        return iteration in self.kept.iterations or not self._looked

    def affords(self, period: AdaptivePeriod, running_s: float = 0.0) -> bool:
        """The end of the main loop is looked at like any other."""
        return True

    def inside_due(self, period: AdaptivePeriod, running_s: float, node: Node) -> bool:
        """Whether there is something to compare with at a place inside a nested block."""
        return node.iteration in self.kept.steps and self.kept.at(INSIDE, place(node, 0)) is not None

    def last_is_current(self, node: Node) -> bool:
        """The end of the loop may have been kept by itself: `take` knows."""
        return False

    def take(self, boundary: Boundary, roots: Roots, period: AdaptivePeriod, *, began: float, second: bool = False) -> bool:
        """A boundary: compare, if the record kept its digests."""
        manifest = self.kept.at(boundary.part, boundary.path)
        if manifest is None and not self._looked:
            self._note_orders(capture(roots, adapters=[positions.Iterators()]))
        self._looked = True
        if manifest is not None and (boundary.part != ITERATION or manifest.ending == boundary.ending):  # or it is of another moment
            roots["stream", "global"] = streams.take()
            captured = capture(roots, adapters=[positions.Iterators()])
            wanted = differing.comparable(manifest)
            differ = differing.differences(captured, wanted, functools.cache(lambda: self._recorded(manifest)))
            self._compared(manifest)
            self._note_orders(captured)
            self.recorder.fact(
                "compared",
                manifest=str(manifest.name),
                part=manifest.part,
                path=manifest.path,
                roots=len(wanted),
                differ=differ[: differing.MOST_NAMED],
                differing=len(differ),
                lacks=len(manifest.missing),
                seconds=time.perf_counter() - began,
            )
        self._passed(boundary)
        return True

    def _note_orders(self, captured: Captured) -> None:
        """Variables with sets that come in another order in each process; each once."""
        for row in orders.rows(captured.tree, self._seed_known):
            if row not in self._noted:
                self._noted.add(row)
                self.recorder.fact("unordered", root=row[0], way=list(row[1:]))

    def _recorded(self, manifest: Manifest) -> leaves.State | None:
        """The recorded state, to look into; None if its bytes are gone."""
        try:
            tree = decode(objects.get(self._origin, manifest.tree))
        except (Damaged, NotFound):
            return None
        return differing.state_of(tree, manifest)

    def iteration_ran(self, node: Node, seconds: float, nested_s: float) -> None:
        """A main iteration is over."""
        place = (self._block, node.iteration)
        self.recorder.fact("iteration", block=self._block, iteration=node.iteration, seconds=seconds, nested_s=nested_s)
        self._ended(place)

    def account(self, block: str, period: AdaptivePeriod) -> None:
        """Nothing was spent."""

    def finish(self) -> None:
        """Nothing is being written."""
