"""In a worker: the state at each boundary that the record kept, digested and compared with it. Takes the place of `record.keeping`.

Nothing is kept and nothing is decided about checkpoints; what was decided while recording says where to look. Also counts the main
iterations: the worker's unit ends after the last of them.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rearview.errors import Damaged, NotFound
from rearview.record.checkpoints import staging
from rearview.record.checkpoints.at_work import Fed
from rearview.record.checkpoints.boundaries import INSIDE, ITERATION, Boundary, place
from rearview.record.checkpoints.cadence import AdaptivePeriod
from rearview.record.checkpoints.scope import Roots, Scope
from rearview.record.loops import Node
from rearview.replay.worker import leaves, orders
from rearview.state import bindings, caches, positions, streams, visible
from rearview.state.capture import Captured, capture
from rearview.state.digests import root_digests
from rearview.state.look import look
from rearview.state.scope import OF_CODE, REMEMBERED, assigned_by_functions
from rearview.state.tree import RootKey, decode
from rearview.store import objects
from rearview.store.layout import Store
from rearview.store.manifests import Manifest
from rearview.store.packs import buffer_digest, names_of
from rearview.store.packs.chunks import digest

if TYPE_CHECKING:
    from rearview.record.recorder import Recorder

_MOST_NAMED = 20
"""So many differing roots are named; the others are counted."""

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
            left = boundary.ending == "break" and boundary.part == ITERATION  # how far a loop had come that goes on no more is no state
            wanted = {root: told for root, told in manifest.roots.items() if not (left and root.startswith("position/"))}
            differ = differences(captured, wanted, functools.cache(lambda: self._recorded(manifest)))
            self._compared(manifest)
            self._note_orders(captured)
            self.recorder.fact(
                "compared",
                manifest=str(manifest.name),
                part=manifest.part,
                path=manifest.path,
                roots=len(wanted),
                differ=differ[:_MOST_NAMED],
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
        return leaves.State(tree, [bytes.fromhex(buffer.digest) for buffer in manifest.buffers])

    def iteration_ran(self, node: Node, seconds: float, nested_s: float) -> None:
        """A main iteration is over."""
        place = (self._block, node.iteration)
        self.recorder.fact("iteration", block=self._block, iteration=node.iteration, seconds=seconds, nested_s=nested_s)
        self._ended(place)

    def account(self, block: str, period: AdaptivePeriod) -> None:
        """Nothing was spent."""

    def finish(self) -> None:
        """Nothing is being written."""


def differences(
    captured: Captured, recorded: Mapping[str, Sequence[Any]], state: Callable[[], leaves.State | None] = lambda: None
) -> list[list[Any]]:
    """The roots of a recorded state that are another thing now, with both digests; None for one that is not there.

    Of one in which only plain values differ, those: what they are, and of which kind. `state` gives the recorded one, to look into.
    Only roots that were recorded count: a probe may have brought names of its own, and what they share with the program's is the
    program's. And what functions and classes of the program remember, that remembered nothing: a probe that calls them made it.
    Of a cache that could not be kept only that it was filled is recorded: one that is empty where it was not put back says nothing.
    """
    keys = {"/".join(str(part) for part in key): key for key in captured.tree.roots}
    wanted = [keys[text] for text in recorded if text in keys]
    memory = buffer_digests(captured)
    digests = root_digests(captured.tree, memory, only=wanted)
    more = [key for text, key in keys.items() if key[0] in REMEMBERED and text not in recorded]
    found: list[list[Any]] = [["/".join(map(str, key)), None, "new"] for key in _of_program(more, state)]
    for text, (before, *told) in recorded.items():
        now = digests[keys[text]] if text in keys else None
        if now == before or (now is None and _is_unkept_cache(text, told)):
            continue
        then = state() if now is not None and len(found) < _MOST_NAMED else None
        inside = leaves.differing(then, leaves.State(captured.tree, memory), keys[text], str(before), wanted) if then is not None else []
        found += [leaves.row(text, leaf) for leaf in inside] or [[text, str(before), now]]
    return found


def _is_unkept_cache(root: str, told: Sequence[Any]) -> bool:
    return root.startswith(f"{caches.KIND}/") and told[1:2] == [caches.UNKEPT]


def _of_program(keys: Sequence[RootKey], state: Callable[[], leaves.State | None]) -> list[RootKey]:
    """Those of functions and classes that the recorded program had, and variables that these assign; none if its state is gone."""
    then = state() if keys else None
    had = {} if then is None else {key[1]: look(then.tree, key, _NoMemory()) for key in then.tree.roots if key[0] == bindings.KIND}
    assigned = {module: assigned_by_functions(str(module), names) for module, names in had.items()}
    return [key for key in keys if str(key[2]).partition(".")[0] in (had if key[0] in OF_CODE else assigned).get(key[1], ())]


class _NoMemory:
    """What names stand for is in the tree itself."""

    def into(self, index: int, dest: memoryview) -> None:
        raise Damaged(f"the names of a state have no memory, and want buffer {index}")

    def size(self, index: int) -> int:
        raise Damaged(f"the names of a state have no memory, and want buffer {index}")


def buffer_digests(captured: Captured) -> list[bytes]:
    """The digest of each buffer of a state, as a manifest would have it."""
    far = [buffer for buffer in captured.buffers if not buffer.private and buffer.address == 0 and buffer.nbytes]
    copies = dict(zip(map(id, far), staging.copy(far, staging.Arena()), strict=True)) if far else {}
    spans = visible.of_buffers(captured.tree)
    digests = []
    for k, buffer in enumerate(captured.buffers):
        view = copies[id(buffer)] if id(buffer) in copies else buffer.memory()
        if k in spans:  # what no tensor shows is no part of the state
            digests.append(digest(view[slice(*spans[k])]))
            continue
        digests.append(bytes.fromhex(buffer_digest(names_of(view))))
    return digests
