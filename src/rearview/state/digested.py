"""What the digests of one state were made of, for the next ones: most of a program is told the same way at every checkpoint.

Holds plain nodes and text, no object of the program. Nothing is taken for unchanged: the nodes themselves are compared, and what memory
holds is asked anew. Bounded: two states are remembered, of very many nodes none.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rearview.state.tree import Node, RootKey

MOST_NODES = 50_000
"""Of a state that is remembered: some 20 MB."""
_STATES = 2
_NUMBERS = ("float", "complex")
"""Of these two may be equal and not the same: 0.0 and -0.0."""

_STRETCH = 256
"""Nodes that are compared at once."""
_KIND = operator.itemgetter(0)

Owns = Mapping[int, tuple[bytes, int]]
"""Nodes that a root has: its name, and their number there."""
_MANY = 1000


class Owned:
    """What the roots have that were looked at so far. Those that have many nodes stay by themselves: nobody copies them."""

    def __init__(self) -> None:
        self._few: dict[int, tuple[bytes, int]] = {}
        self._parts: list[Owns] = [self._few]

    def add(self, owns: Owns) -> None:
        """A root has these."""
        if len(owns) < _MANY:
            self._few.update(owns)
        else:
            self._parts.append(owns)

    def get(self, node: int) -> tuple[bytes, int] | None:
        """Who has a node."""
        for part in self._parts:
            found = part.get(node)
            if found is not None:
                return found
        return None

    def among(self, nodes: frozenset[int]) -> dict[int, tuple[bytes, int]]:
        """Who has which of these."""
        return {node: part[node] for part in self._parts for node in part.keys() & nodes}


@dataclass(slots=True)
class Told:
    """One root as it was hashed."""

    number: int
    texts: list[bytes]
    """What was hashed, without what memory counts with: that stands between two of these."""
    memory: list[int]
    """The nodes of that memory."""
    owns: Owns
    """What the root reached first."""
    reached: frozenset[int]
    """All nodes that the texts depend on."""
    last: int
    """The highest of them."""
    referred: Owns
    """Those of them that other roots had."""
    hashed: tuple[list[bytes], str] | None = None
    """What memory counted with when it was last hashed, and the digest."""

    def holds(self, number: int, others: set[int], end: int, owned: Owned) -> bool:
        """Whether the same would be told now: of the same nodes, as far as others do not have them."""
        if self.number != number or self.last >= end or not others.isdisjoint(self.reached):
            return False
        return owned.among(self.reached) == self.referred


@dataclass(slots=True)
class Before:
    """The two states before, by root: of the two parts of a checkpoint each is most like its own kind (`train`, `eval`)."""

    states: list[tuple[Sequence[Node], dict[RootKey, Told]]] = field(default_factory=list)

    def alike(self, nodes: Sequence[Node]) -> list[Alike]:
        """What can be taken over from each, the newest first."""
        return [Alike(told, *_others(before, nodes)) for before, told in self.states]

    def now(self, nodes: Sequence[Node], told: dict[RootKey, Told]) -> None:
        """This is the newest from now on."""
        newest = [(nodes, told)] if len(nodes) <= MOST_NODES else []
        self.states = [*newest, *self.states][:_STATES]


@dataclass(frozen=True, slots=True)
class Alike:
    """How a state differs from one before."""

    roots: dict[RootKey, Told]
    others: set[int]
    """Which nodes are not what they were."""
    end: int
    """Up to where that was looked at."""

    def told(self, key: RootKey, number: int, owned: Owned) -> Told | None:
        """How a root was told, if it would be told so now."""
        told = self.roots.get(key)
        return told if told is not None and told.holds(number, self.others, self.end, owned) else None


def _others(before: Sequence[Node], nodes: Sequence[Node]) -> tuple[set[int], int]:
    """Which nodes are not what they were, and up to where that was looked at. Small memory may hold something else."""
    end = min(len(before), len(nodes))
    looked_at = (
        at
        for first in range(0, end, _STRETCH)
        if not _is_equal(nodes[first : first + _STRETCH], before[first : first + _STRETCH])
        for at in range(first, min(first + _STRETCH, end))
    )
    return {at for at in looked_at if nodes[at] is not before[at] and not _is_same(nodes[at], before[at])}, end


def _is_equal(nodes: Sequence[Node], before: Sequence[Node]) -> bool:
    """Whether nothing in a stretch of nodes is another: by C code, which finds most of a state equal, and what was taken over the same."""
    if all(map(operator.is_, nodes, before)):
        return True
    if nodes != before:
        return False
    kinds = set(map(_KIND, nodes))
    return kinds.isdisjoint(_NUMBERS)


def _is_same(node: Node, before: Node) -> bool:
    (kind, value), (kind_before, value_before) = node, before
    if kind != kind_before or kind == "small":
        return kind == kind_before
    return _bits(value) == _bits(value_before) if kind in _NUMBERS else bool(value == value_before)


def _bits(value: complex) -> bytes:
    return struct.pack("<dd", value.real, value.imag)
