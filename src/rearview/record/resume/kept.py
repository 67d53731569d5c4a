"""A checkpoint's state on its way back into the program, and which checkpoint is of the end of the iteration before.

Knows how roots, positions and streams are called in a state; when each is put back is for `reaching`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from rearview.errors import Damaged, NotFound
from rearview.record import firsts
from rearview.record.checkpoints import boundaries, staging
from rearview.record.checkpoints.scope import Beside, Roots, Scope
from rearview.state import bindings, positions, process, refilling, restore, streams, visible
from rearview.state import tree as trees
from rearview.state.capture import capture
from rearview.state.iterating import items
from rearview.state.look import look
from rearview.state.put.hooks import put_back as put_hooks_back
from rearview.state.take import hooks
from rearview.store import manifests, objects
from rearview.store.layout import Store
from rearview.store.manifests import Manifest
from rearview.store.packs import Known, PackReader
from rearview.store.packs.hashing import digest

NOW, ITERATION = ("stream", "global"), ("stream", "iteration")
"""The random streams at the boundary, and where the iteration of the main loop began."""


_LOOKED_AT = 100
"""States at most between an iteration and the end of the one before."""


class Held:
    """A state, wherever its bytes are."""

    _job: restore.Job | None = None
    """What was last put back."""

    def __init__(self, tree: trees.Tree, reader: restore.Reader, inexact: Callable[[Sequence[str]], None]) -> None:
        self._tree = tree
        self._reader = reader
        self._inexact = inexact

    def position_of(self, level: int) -> dict[str, Any]:
        """How far a loop had come in what it iterates over; the main loop is level 0."""
        key = ("position", level)
        return look(self._tree, key, self._reader) if key in self._tree.roots else {}

    def put_back(self, scope: Scope) -> dict[Any, object]:
        """The state, in place, but for the random streams: they come last."""
        frames = scope.frames()
        scope.follows = scope.follows or any(key[0] == trees.OUTER for key in self._tree.roots)
        beside = self._beside()
        left = scope.check(self._tree.roots, beside)
        values = self.restore(scope.roots(), scope.codes(), len(frames), without=(trees.MADE,) if scope.edited else ())
        scope.bind(values)
        if hooks.KEY in values:
            scope.hooked = put_hooks_back(values[hooks.KEY])
        scope.settle(self._tree.roots, beside)
        self._inexact(left)
        return values

    @contextlib.contextmanager
    def refilled(self, scope: Scope, values: dict[Any, object]) -> Iterator[None]:
        """While iterators are brought to their places: what code of the program writes on the way is put back once more.

        Afterwards, nothing of the program is held on to.
        """

        def again() -> None:
            if self._job is not None:
                self._job.again()
                scope.bind(values)

        try:
            with refilling.by(again):
                yield
        finally:
            self._job = None

    def _beside(self) -> Beside:
        """What names stood for, and what was changed about the process. States of older runs say nothing about it."""
        roots, read = self._tree.roots, self._reader
        meanings = {key: look(self._tree, key, read) for key in roots if key[0] == bindings.KIND}
        changed = look(self._tree, process.KEY, read) if process.KEY in roots else None
        lost = [key for key, number in roots.items() if self._tree.nodes[number][0] == "live"]
        return Beside(meanings, changed, lost)

    def restore(self, live: Roots, codes: Sequence[CodeType] = (), frames: int = 0, without: Sequence[str] = ()) -> dict[Any, object]:
        """The same for roots at hand. Variables of functions that are not running (yet) are left out, and kinds `without` which it goes."""
        ours = ("position", "stream", *trees.BESIDE, *without)
        wanted = [key for key in self._tree.roots if key[0] not in ours or key == hooks.KEY or key[0] == items.KIND]
        keys = [key for key in wanted if not (key[0] == "local" and int(key[1]) >= frames)]
        iterators = positions.Iterators()
        plan = restore.plan(self._tree, live, self._reader, adapters=[iterators], codes=codes, only=keys)
        values, self._job = plan.carry_out()
        self._inexact(iterators.settle())
        return values

    def put_streams_back(self, which: tuple[str, str] = NOW) -> None:
        """The global random streams, as they were then; and the count of forks, now that no worker of a loader is started any more."""
        if which in self._tree.roots:
            streams.put_back(look(self._tree, which, self._reader))
        if process.FORKS in self._tree.roots:
            firsts.forks = look(self._tree, process.FORKS, self._reader)


class _Copies:
    """The bytes of a state in memory."""

    def __init__(self, views: Sequence[memoryview]) -> None:
        self._views = views

    def into(self, index: int, dest: memoryview) -> None:
        """The bytes of a buffer."""
        dest[:] = self._views[index]

    def size(self, index: int) -> int:
        """How many there are."""
        return self._views[index].nbytes


def hold(roots: Roots, inexact: Callable[[Sequence[str]], None]) -> Held:
    """A state as it is now, held in memory, with the random streams."""
    roots[NOW] = streams.take()
    captured = capture(roots, adapters=[positions.Iterators()])
    copies = [buffer for buffer in captured.buffers if not buffer.private]
    staged = dict(zip(map(id, copies), staging.copy(copies, staging.Arena()).views, strict=True))
    views = [staged[id(buffer)] if id(buffer) in staged else buffer.memory() for buffer in captured.buffers]
    return Held(captured.tree, _Copies(views), inexact)


class Kept(Held):
    """One checkpoint of this process."""

    def __init__(self, store: Store, manifest: Manifest, inexact: Callable[[Sequence[str]], None]) -> None:
        self.manifest = manifest
        self.tree = trees.decode(objects.get(store, manifest.tree))
        reader = PackReader(store, Known(store), [buffer.refs() for buffer in manifest.buffers])
        super().__init__(self.tree, reader, inexact)

    def seen_digests(self) -> list[bytes]:
        """The digest of each buffer, of some only the part that tensors show: with these, the digests of roots come out."""
        spans = visible.of_buffers(self.tree)
        return [self._seen(k, spans[k]) if k in spans else bytes.fromhex(buffer.digest) for k, buffer in enumerate(self.manifest.buffers)]

    def _seen(self, index: int, span: visible.Range) -> bytes:
        memory = memoryview(bytearray(self._reader.size(index)))
        self._reader.into(index, memory)
        return digest(memory[slice(*span)])

    def position(self, depth: int) -> dict[str, Any]:
        """How far a loop had come; `depth` is its place in the path, where loops around `checkpointing` come first."""
        return self.position_of(self._level(depth))

    def ran_over(self, values: dict[Any, object], depth: int) -> Any:
        """The objects that a nested loop ran over, of the values that were put back; None where these are not known."""
        return values.get((items.KIND, self._level(depth)))

    def _level(self, depth: int) -> int:
        return depth - int(self.manifest.stats.get("outside", 0))


def before(store: Store, manifest: Manifest, depth: int) -> Manifest | None:
    """The checkpoint at the end of the iteration before the one that a checkpoint is in: the state that the iteration began with.

    `depth` is that of the main loop in the path. None if there is none, or nothing of it is left.
    """
    name, occurrence, iteration = manifest.path[depth][:3]
    return _earlier(store, manifest, depth, lambda place: place == [name, occurrence, iteration - 1], _LOOKED_AT)


def last_of(store: Store, manifest: Manifest, depth: int, name: str, occurrence: int) -> Manifest | None:
    """The last checkpoint of a loop that had ended before another one began."""
    return _earlier(store, manifest, depth, lambda place: place[:2] == [name, occurrence])


def end_of_block(store: Store, manifest: Manifest, depth: int, name: str, occurrence: int) -> Manifest | None:
    """The end state of a skip block before a checkpoint, in the same iteration of the loops around it."""
    return _earlier(store, manifest, depth, lambda place: place == [name, occurrence, 0], part=boundaries.BLOCK)


def _earlier(
    store: Store, manifest: Manifest, depth: int, fits: Callable[[list[Any]], bool], at_most: int | None = None,
    part: str = boundaries.ITERATION,
) -> Manifest | None:  # fmt: skip
    around = [level[:3] for level in manifest.path[:depth]]
    names = [one for one in manifests.list_of(store, manifest.run) if one.process == manifest.process and one.part == part]
    earlier = sorted((one for one in names if one.order < manifest.name.order), key=lambda one: one.order, reverse=True)
    for one in earlier[:at_most]:
        if manifests.has(store, one, manifests.THINNED):
            continue
        try:
            found = manifests.read(store, one)
        except (Damaged, NotFound, OSError):
            continue
        place = [level[:3] for level in found.path]
        if len(place) == depth + 1 and place[:depth] == around and fits(place[depth]):
            return found
    return None
