"""What the state before held and still holds, taken over instead of walked: models and optimizers, of which nothing changes between two
checkpoints as a rule but the memory of their tensors, and a few numbers.

That is not believed but looked at (`levels`, `facts`): every object is read again, thousands at a time. What holds other
atoms than before is taken anew, and so is what holds anything that is not plain; if more has changed, all of it is walked, and
remembered as it is then. A state that was taken over is the one that a walk would have given, but for the numbers of its nodes.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rearview.state import parametrized
from rearview.state.regions import Region
from rearview.state.take import classes, facts, modules, objects, tensors
from rearview.state.take.attributes import own_dict, slot_members
from rearview.state.take.levels import ATOMS, Changed, Levels, Read, is_packed
from rearview.state.take.packing import PACK_FROM
from rearview.state.take.walk import Taker, Walk, identity
from rearview.state.tree import FIRST, NONE, Node, RootKey

MOST_NODES = 200_000
"""Of what is remembered: some 40 MB."""
_LEAST_NODES = 200
"""Less is sooner walked."""
_FAILS = 3
"""Times in a row that nothing could be taken over, until it is tried less often."""
_SORTS = {
    "obj": "object", "attrs": "space", "dict": "dict", "defaultdict": "dict", "list": "sequence", "tuple": "sequence", "set": "set",
    "tensor": "tensor", "ref": "class",
}  # fmt: skip
"""Kinds of nodes, and how objects of that kind are read again."""
_LEFT_OUT = (modules.MODULE_HOOKS, modules.OPTIMIZER_HOOKS)
"""Constants of ours that nodes refer to."""
_WITH_ATTRIBUTES = (modules.take_module, modules.take_optimizer, modules.take_plain, objects.take_object)


def is_plain(value: Any, kind: type, taker: Taker) -> bool:
    """Whether an object can be read again quickly, and is described by what is read then."""
    if kind in ATOMS:
        return True
    if taker is tensors.take_tensor:
        return facts.is_plain(value, kind)
    if taker in _WITH_ATTRIBUTES:
        return not slot_members(kind) and type(own_dict(value)) is dict
    if kind in (list, tuple, dict):
        return not is_packed(value, PACK_FROM)
    if taker is classes.take_class:
        return "<locals>" not in value.__qualname__ and not parametrized.is_one(value)
    return kind is collections.defaultdict


@dataclass(frozen=True, slots=True)
class _Kept:
    """A part of a state, and how to see that it is still so."""

    known: frozenset[RootKey]
    """Roots that were there, plain ones or not."""
    keys: tuple[RootKey, ...]
    """Those it has."""
    roots: dict[RootKey, int]
    before: list[Node]
    """The nodes that were there before it."""
    nodes: list[Node]
    parents: list[int]
    memo: dict[int, int]
    atoms: dict[type, dict[Any, int]]
    cache: dict[Any, Any]
    takers: dict[int, Taker]
    levels: Levels
    names: list[tuple[type, str, str]]
    """Classes with what they are called: a node says that."""
    facts: facts.Facts
    anew: tuple[int, ...]
    """The numbers of what holds something that is not plain."""
    region: Region


@dataclass(slots=True)
class Again:
    """Remembers from one state to the next."""

    kept: _Kept | None = None
    _tried: int = 0
    _fails: int = 0
    taken_over: int = 0
    """How often that worked."""

    def take(self, walk: Walk, roots: Mapping[RootKey, object]) -> Taken:
        """Take what is plain of those roots that are models and optimizers, by what is remembered or by a walk that is."""
        kinds = modules.kinds()
        wanted = {key: value for key, value in roots.items() if issubclass(type(value), kinds)}
        if not wanted or walk.omit is not None:
            return Taken()
        self._tried += 1
        if self.kept is not None and walk.hooked is None:
            kept = self.kept
            taken = _take_over(walk, kept, wanted)
            if taken is not None:
                self._fails = 0
                self.taken_over += 1
                if any(key not in kept.known and identity(value) not in walk.memo for key, value in wanted.items()):  # more than there was
                    self.kept = None
                return taken
            self._fails += 1
        self.kept = None
        if self._tried > 1 and (self._fails <= _FAILS or self._tried % self._fails == 0):  # once is no reason to remember it
            self.kept, taken = _learn(walk, wanted)
            self._fails += self.kept is None
            return taken
        return Taken()


@dataclass(frozen=True, slots=True)
class Taken:
    """Roots of which the walk has what is plain."""

    keys: Collection[RootKey] = ()
    anew: Sequence[tuple[int, Any, Taker]] = ()
    """Nodes that are to be taken again, with their objects: they hold something else as well."""
    grads: Sequence[tuple[int, Any]] = ()
    """Nodes of tensors, and their gradients, which are other tensors in every step."""

    def rest(self, walk: Walk) -> None:
        """Have the walk take everything else of them."""
        walk.pending += self.anew
        for number, grad in self.grads:
            walk.at = number
            kind, payload = walk.nodes[number]
            walk.nodes[number] = (kind, (*payload[: tensors.GRAD_AT], walk.slot(grad), *payload[tensors.GRAD_AT + 1 :]))
        walk.drain()


def _learn(walk: Walk, roots: Mapping[RootKey, object]) -> tuple[_Kept | None, Taken]:
    """Walk what is plain, so that it lies side by side. What is to be remembered, if it can be, and what is to be walked then."""
    start, atoms_before, cache_before = len(walk.nodes), {kind: len(table) for kind, table in walk.interned.items()}, len(walk.cache)
    before, complaints = list(walk.nodes), _complaints(walk)
    walk.only_plain(is_plain)
    for key, value in roots.items():
        if identity(value) not in walk.memo:  # else part of another, and perhaps a variable that means one today and another tomorrow
            walk.root(key, value)
        if NONE in walk.deferred:  # no plain object itself: walked with the others
            del walk.deferred[NONE], walk.tree.roots[key]
    deferred, taken, grads = walk.everything()
    keys = tuple(key for key in roots if key in walk.tree.roots)
    kept = None
    if start + _LEAST_NODES <= len(walk.nodes) <= MOST_NODES and _complaints(walk) == complaints:
        nodes = walk.nodes[start:]
        sorts = {number: _SORTS.get(nodes[number - start][0], "") for number, (value, _) in taken.items() if type(value) not in ATOMS}
        memo = {identity(value): number for number, (value, _) in taken.items() if number in sorts}
        tops = (*(roots[key] for key in keys), *_LEFT_OUT)
        left = _left_out(walk, (number for number, sort in sorts.items() if sort == "space"))
        levels = Levels.of([one for one in tops if identity(one) in memo], memo, sorts, left) if "" not in sorts.values() else None
        told = None if levels is None else facts.Facts.of([taken[number][0] for number in levels.tensors], levels.tensors, walk)
        if levels is not None and told is not None:
            kept = _Kept(
                frozenset(roots),
                keys,
                {key: walk.tree.roots[key] for key in keys},
                before,
                nodes,
                walk.parents[start:],
                memo,
                {kind: dict(itertools.islice(table.items(), atoms_before[kind], None)) for kind, table in walk.interned.items()},
                dict(itertools.islice(walk.cache.items(), cache_before, None)),
                {number: taker for number, (_, taker) in taken.items() if number in sorts},
                levels,
                [(value, value.__module__, value.__qualname__) for value, _ in taken.values() if isinstance(value, type)],
                told,
                (*{*deferred, *_referring(nodes, start)},),
                Region(start, len(walk.nodes), *told.allocations),
            )
    return kept, Taken(keys, [(number, *taken[number]) for number in deferred], grads)


def _left_out(walk: Walk, spaces: Iterable[int]) -> dict[int, frozenset[str]]:
    """What is left out of the attributes of objects: the first that their nodes refer to says it."""
    heads = {number: walk.nodes[number][1][0] for number in spaces}
    names = {head: frozenset(walk.nodes[name][1] for name in walk.nodes[head][1] or ()) for head in set(heads.values())}
    return {number: names[head] for number, head in heads.items()}


def _referring(nodes: list[Node], start: int) -> list[int]:
    """Which nodes refer to something that every process has: it was there before."""
    outside = frozenset(range(len(FIRST), start))
    among = {kind for kind, sort in _SORTS.items() if sort in ("object", "space", "dict", "sequence")}
    return [start + at for at, (kind, payload) in enumerate(nodes) if kind in among and not outside.isdisjoint(payload)]


def _complaints(walk: Walk) -> tuple[int, ...]:
    """How much of what was taken is not, or not quite, what it was."""
    return len(walk.missing), len(walk.unlike), len(walk.pickled), len(walk.mapped)


def _take_over(walk: Walk, kept: _Kept, roots: Mapping[RootKey, object]) -> Taken | None:
    """If everything is as it was, the walk has it."""
    if not roots.keys() >= set(kept.keys) or walk.nodes != kept.before or kept.memo.keys() & walk.memo.keys() or walk.buffers:
        return None
    tops = [*(roots[key] for key in kept.keys), *(one for one in _LEFT_OUT if identity(one) in kept.memo)]
    try:
        read = kept.levels.read(tops)
        memory = kept.facts.read(read.tensors)
    except (Changed, RuntimeError, AttributeError):  # another thread changes it; a tensor that nobody counts
        return None
    if any((value.__module__, value.__qualname__) != (module, name) for value, module, name in kept.names):
        return None
    _splice(walk, kept, read)
    kept.facts.lay_out(walk, memory)
    walk.region = kept.region if len(walk.buffer_nodes) == kept.region.memory else None
    anew = [(number, kept.levels.object_of(read, number), kept.takers[number]) for number in {*kept.anew, *read.others}]
    grads = [(number, grad) for number, grad in zip(kept.levels.tensors, memory.grads, strict=True) if grad is not None]
    return Taken(kept.keys, anew, grads)


def _splice(walk: Walk, kept: _Kept, read: Read) -> None:
    """Have the walk know what it would know if it had walked it."""
    walk.nodes += kept.nodes
    walk.parents += kept.parents
    walk.memo |= kept.memo
    walk.cache |= kept.cache
    for kind, table in kept.atoms.items():
        walk.interned[kind].update(table)
    walk.tree.roots |= kept.roots
    walk.keep += read.parts
