"""What one walk leaves for the next: most objects of a training are the same at every checkpoint, with other numbers in them.

Roots that stay come first in the table, so that it can be gone on with where they end; those that were found changed come last for a
while. Knows the order of roots and what is kept of a table; whether objects are as they were is for `again`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rearview.state.take.again import UNSTEADY, Again
from rearview.state.take.columns import Program
from rearview.state.take.kept import Kept, Mark
from rearview.state.take.objects import process_objects
from rearview.state.take.walk import Walk
from rearview.state.tree import RootKey

_PATIENCE = 16
"""So many walks a root that changed is not looked for; four times as many after each further time."""
_LONGER = 4
_MOST = 4096
_FAILURES = 3


class Recall:
    """The walks of one run's checkpoints, each with what the one before found. Holds no object of the program."""

    def __init__(self) -> None:
        self._kept: Kept | None = None
        self._walks = 0
        self._changed: dict[RootKey, tuple[int, int]] = {}
        """Roots that changed: how long to wait, and until which walk."""

    def order(self, roots: Mapping[RootKey, object]) -> list[RootKey]:
        """The roots as they are to be walked: those that stay, then those that change."""
        steady = [key for key in roots if not self._is_restless(key)]
        return [*steady, *(key for key in roots if self._is_restless(key))]

    def _is_restless(self, key: RootKey) -> bool:
        return self._changed.get(key, (0, 0))[1] > self._walks

    def _changes(self, key: RootKey) -> None:
        wait = min(self._changed.get(key, (_PATIENCE // _LONGER, 0))[0] * _LONGER, _MOST)
        self._changed[key] = (wait, self._walks + wait)

    def begin(self, walk: Walk, roots: Mapping[RootKey, object]) -> tuple[list[Mark], object | None]:
        """Fill the walk with the roots that are what they were, up to the first that is not. The shape, if these are all that was kept."""
        self._walks += 1
        kept, self._kept = self._kept, None
        objects = process_objects()
        if kept is None or [name for name, _ in objects] != list(kept.names):
            return [], None
        again, good = self._compared(walk, kept, roots, objects)
        if not good or not again.is_one_to_one():
            return [], None
        _go_on(walk, again, good)
        self._kept = kept = _of(walk, good, kept.names, kept) if len(good) < len(kept.marks) else kept
        kept.nodes, kept.memo = walk.nodes[:], dict(walk.memo)
        return [*good], kept.shape

    def _compared(self, walk: Walk, kept: Kept, roots: Mapping[RootKey, object], objects: list[Any]) -> tuple[Again, list[Mark]]:
        """The roots that are what they were: all at once, or one after the other up to the first that is not."""
        if kept.program is not None:
            again = Again(walk, kept, objects)
            if kept.program.run(again, roots):
                return again, [*kept.marks]
            kept.program = None
            kept.failures += 1
        again = Again(walk, kept, objects)
        good: list[Mark] = []
        for mark in kept.marks:
            if mark.key not in roots or not again.check(mark, roots[mark.key]):
                self._changes(mark.key)
                return again, good
            good.append(mark)
        if kept.failures < _FAILURES:
            kept.program = Program(again, good, roots)
        return again, good

    def end(self, walk: Walk, marks: list[Mark], names: dict[tuple[str, str], int]) -> None:
        """Keep what a walk found of the roots that are expected to stay, if there are others than at its beginning."""
        kept = self._kept
        steady: list[Mark] = []
        known = len(kept.marks) if kept is not None else 0
        for place, mark in enumerate(marks):
            before = steady[-1].nodes if steady else 0
            if self._is_restless(mark.key):
                break
            unsteady = place >= known and any(kind in UNSTEADY for kind, _ in walk.nodes[before : mark.nodes])
            if unsteady or not mark.steady:
                self._changes(mark.key)
                break
            steady.append(mark)
        if steady and (kept is None or len(steady) > len(kept.marks)):
            self._kept = _of(walk, steady, kept.names if kept is not None else names, kept)


def _go_on(walk: Walk, again: Again, good: list[Mark]) -> None:
    """The walk as it was when the last of these roots had been walked, with the memory and the numbers of now."""
    kept, end, count = again.kept, good[-1].nodes, good[-1].buffers
    walk.nodes[:] = again.nodes[:end]
    walk.parents[:] = kept.parents[:end]
    cut = _below if len(good) < len(kept.marks) else _all
    walk.memo.update(cut(again.memo, end))
    walk.interned.update({kind: cut(table, end) for kind, table in kept.interned.items()})
    walk.cache.update(cut(kept.cache, end))
    walk.tree.buffers[:] = kept.sizes[:count]
    walk.tree.roots.update({mark.key: mark.number for mark in good})
    for number, buffer in zip(kept.numbers[:count], again.found, strict=False):
        assert buffer is not None
        walk.buffers.append(buffer)
        walk.buffer_nodes[buffer.key] = number
    walk.buffer_nodes.update(_below(again.buffer_nodes, end))


def _of(walk: Walk, marks: list[Mark], names: dict[tuple[str, str], int], before: Kept | None) -> Kept:
    """What a walk found of some roots, the first ones in its table."""
    end, count = marks[-1].nodes, marks[-1].buffers
    return Kept(
        nodes=walk.nodes[:end],
        parents=walk.parents[:end],
        interned={kind: _below(table, end) for kind, table in walk.interned.items()},
        cache=_below({key: number for key, number in walk.cache.items() if type(key) is tuple}, end),
        sizes=walk.tree.buffers[:count],
        numbers=[number for number in walk.buffer_nodes.values() if walk.nodes[number][0] == "buffer"][:count],
        memo=_below(walk.memo, end),
        names=names,
        marks=marks,
        quick=_first(before.quick, end) if before is not None else {},
        facts=_first(before.facts, end) if before is not None else {},
    )


def _below(table: Mapping[Any, int], end: int) -> dict[Any, int]:
    """What has a number below the end."""
    return {key: number for key, number in table.items() if number < end}


def _all(table: Mapping[Any, int], _end: int) -> dict[Any, int]:
    return dict(table)


def _first(table: Mapping[int, Any], end: int) -> dict[int, Any]:
    return {number: found for number, found in table.items() if number < end}
