"""The state of live objects, taken as it is now: a tree, and the memory it refers to.

Runs on the training thread: nothing large is copied, nothing of the program is changed or drawn from. Whoever calls it copies
the buffers before the program goes on. What cannot be kept is listed, never passed over.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType

from rearview.state.buffers import LiveBuffer
from rearview.state.iterating import items
from rearview.state.places import Places
from rearview.state.regions import Region
from rearview.state.take import addresses, arrays, classes, functions, modules, objects, overlaps, plain, tensors
from rearview.state.take.again import Again, Taken
from rearview.state.take.hooks import Hooks
from rearview.state.take.texts import Texts
from rearview.state.take.walk import Adapter, Missing, Omit, Uncapturable, Walk
from rearview.state.tree import MADE, NONE, RootKey, Tree

__all__ = ["Adapter", "Captured", "LiveBuffer", "Missing", "Uncapturable", "capture"]

FAMILIES = (classes, tensors, modules, arrays, functions, plain, objects)
"""In the order in which they are asked about a class; the last one takes anything."""


@dataclass(slots=True)
class Captured:
    """A state: the tree is a snapshot, the buffers are live memory. It keeps that memory, and no object of the program."""

    tree: Tree
    buffers: list[LiveBuffer]
    missing: list[Missing]
    """What it does not hold."""
    unlike: list[Missing]
    """What it brings back otherwise than the program had it."""
    pickled: list[str]
    """What is put back by its own code for being pickled."""
    mapped: frozenset[str]
    """Files that the program can write through memory, which leaves no trace."""
    places: Places
    buffer_nodes: list[int]
    optimizers: frozenset[int]
    """The nodes of those that were met."""
    region: Region | None = None
    """What it has in common with the states before."""

    def sizes(self) -> dict[RootKey, int]:
        """How many bytes of memory each root brought in; what several roots reach counts for the first."""
        known = 0 if self.region is None else self.region.buffers
        by_node = {} if self.region is None else dict(self.region.once("sizes", lambda: self._sizes(0, known)))
        for root, size in self._sizes(known, len(self.buffers)).items():
            by_node[root] = by_node.get(root, 0) + size
        return {key: by_node.pop(number, 0) for key, number in self.tree.roots.items()}

    def remembered_by_optimizers(self, numbers: Iterable[int]) -> set[int]:
        """Which of these buffers are what optimizers keep for parameters: tensors of theirs that are no parameters, and none's gradient."""
        nodes, found = self.tree.nodes, set[int]()
        for number in numbers:
            above = list(self.places.above(self.buffer_nodes[number]))
            held_by = [nodes[node] for node in above if nodes[node][0] == "tensor"]
            if len(held_by) != 1 or self.optimizers.isdisjoint(above):
                continue
            kind, _, _, flags, *_ = held_by[0][1]
            if kind == NONE and not nodes[flags][1] & tensors.REQUIRES_GRAD:
                found.add(number)
        return found

    def _sizes(self, first: int, last: int) -> dict[int, int]:
        """The same of the buffers from `first` to before `last`, by the node of the root."""
        by_node: dict[int, int] = {}
        for number, buffer in zip(self.buffer_nodes[first:last], self.buffers[first:last], strict=True):
            root = self.places.root_of(number)
            by_node[root] = by_node.get(root, 0) + buffer.nbytes
        return by_node


def capture(
    roots: Mapping[RootKey, object],
    *,
    adapters: Sequence[Adapter] = (),
    omit: Omit | None = None,
    hooks: Hooks | None = None,
    texts: Texts | None = None,
    again: Again | None = None,
) -> Captured:
    """Take the state of everything that the roots reach. `omit` leaves out what it says yes to (for tests).

    Of what nested loops run over only the order is taken: of objects that the other roots reach.

    `again` remembers the state before: what is still so is not walked. `hooks` and `texts` know what there was before the loops: hooks
    that these changed are taken, functions that they made of text named.
    """
    ordered = {key: value for key, value in roots.items() if key[0] == items.KIND}
    roots = {key: value for key, value in roots.items() if key not in ordered} if ordered else roots
    collecting = gc.isenabled()
    gc.disable()  # thousands of small objects are made: no reason to look through all others
    try:
        with tensors.quiet():
            walk = Walk(FAMILIES, adapters, omit)
            walk.hooked = [] if hooks is not None and hooks.wanted() else None
            objects.take_names(walk)
            taken = again.take(walk, roots) if again is not None else Taken()
            made = {key: value for key, value in roots.items() if key[0] == MADE}  # first: others refer to them
            for key, value in made.items():
                walk.root(key, value, functions.take_made if type(value) is FunctionType else None)
            taken.rest(walk)
            for key, value in roots.items():
                if key not in made and key not in taken.keys:
                    walk.root(key, value)
            for key, value in ordered.items():
                walk.known(key, value)
            overlaps.merge(walk)
            addresses.look(walk)
            if hooks is not None:
                hooks.look(walk)
            if texts is not None:
                texts.look(walk)
    finally:
        if collecting:
            gc.enable()
    return Captured(
        walk.tree,
        walk.buffers,
        walk.missing,
        walk.unlike,
        _outermost(walk),
        frozenset(walk.mapped),
        walk.places,
        [number for number in walk.buffer_nodes.values() if walk.nodes[number][0] == "buffer"],
        walk.cache.get(modules.OPTIMIZERS, frozenset()),
        walk.region,
    )


def _outermost(walk: Walk) -> list[str]:
    """What is put back by its own code for being pickled, without what that holds in turn."""
    among = set(walk.pickled)
    found: list[str] = []
    for number in walk.pickled:
        above = walk.parents[number]
        while above != NONE and above not in among:
            above = walk.parents[above]
        if above == NONE:
            found.append(walk.where(number))
    return found
