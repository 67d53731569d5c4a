"""Where in the old version a statement of the new one belongs: between the counterparts of its neighbours, in the counterpart of its block.

Knows matched trees and layout. Must not know names, nor what travels along. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from rearview.propagate.match import Matching
from rearview.propagate.tree import Node


@dataclass(slots=True)
class Anchor:
    """A neighbour of the statement and its counterpart."""

    new: Node
    old: Node
    """The statement of the place's block that is its counterpart, or contains it."""
    apart: float
    """How much new code is between it and the statement."""
    alike: float

    @property
    def near(self) -> bool:
        """Whether nothing but calls for their own sake (other log statements) is between them."""
        return self.apart < 1


@dataclass(slots=True)
class Spot:
    """A place in the old file: before the statement `index` of a block."""

    owner: Node
    name: str
    """Of the block."""
    low: int
    high: int
    """It can stand anywhere between these."""
    index: int
    before: Anchor | None
    after: Anchor | None
    block: bool
    """Whether the block is the counterpart of the statement's block."""
    doubts: list[str] = field(default_factory=list)

    @property
    def siblings(self) -> list[Node]:
        """The block."""
        return self.owner.blocks[self.name]

    @property
    def line(self) -> int:
        """The line of the old file that it comes before."""
        if self.index < len(self.siblings):
            return self.siblings[self.index].line
        return self.siblings[-1].end + 1 if self.siblings else self.owner.end + 1


@dataclass(frozen=True, slots=True)
class Nowhere:
    """There is no place, and why."""

    why: str
    spots: tuple[Spot, ...] = ()


class Spots:
    """Finds the place of statements of the new file in the old one."""

    def __init__(self, matching: Matching) -> None:
        self._matching = matching

    def find(self, group: list[Node]) -> Spot | Nowhere:
        """The place of some statements that stand next to each other."""
        first, last = group[0], group[-1]
        block = first.siblings
        preceding = [one for one in reversed(block[: first.index]) if not one.nothing]
        following = [one for one in block[last.index + 1 :] if not one.nothing]
        owner = self._matching.old_of.get(first.owner) if first.owner else None
        here = self._in_block(owner, first.field, preceding, following) if owner and first.field in owner.blocks else None
        there = self._elsewhere(preceding, following, here)
        if here is None and there is None:
            return Nowhere(self._no_block(first))
        if here is not None and (here.before or here.after or (not preceding and not following)):
            if there is not None and _strength(there) > _strength(here) + 0.5:
                return there
            return here
        if there is not None:
            return there
        if here is not None:
            return Nowhere("none of the statements around it has a counterpart", (here,))
        return Nowhere(self._no_block(first))

    def _no_block(self, node: Node) -> str:
        owner = node.owner
        if owner is None or owner.owner is None:
            return "none of the statements around it has a counterpart"
        syntax = owner.syntax
        if isinstance(syntax, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return f"this version has no counterpart of `{syntax.name}`"
        return f"this version has no counterpart of the block around it (`{owner.kind.lower()}`, line {owner.line})"

    def _in_block(self, owner: Node, name: str, preceding: list[Node], following: list[Node]) -> Spot:
        block = owner.blocks[name]
        before = self._anchor(preceding, owner, name, True)
        after = self._anchor(following, owner, name, False)
        low = before.old.index + 1 if before else _docstring(block)
        high = after.old.index if after else len(block)
        spot = Spot(owner, name, low, high, low, before, after, True)
        if low > high:  # the neighbours were exchanged: the nearer one decides
            spot.doubts.append("the statements around it stand in another order")
            if before and after and before.apart <= after.apart:
                spot.high = low
            else:
                spot.low = high
        return spot

    def _anchor(self, neighbours: Iterable[Node], owner: Node, name: str, last: bool) -> Anchor | None:
        """The nearest neighbour with a counterpart in a block."""
        apart = 0.0
        for one in neighbours:
            other = self._matching.old_of.get(one)
            lifted = _lift(other, owner, name) if other else None
            if lifted is not None and other is not None:
                return Anchor(one, lifted, apart, self._matching.likeness.of(one, other) if lifted is other else 0.3)
            inner = self._unwrapped(one, owner, name, last) if other is None else None
            if inner is not None:
                return Anchor(one, inner, apart + 0.5, 0.3)
            apart += _distance(one)
        return None

    def _unwrapped(self, node: Node, owner: Node, name: str, last: bool) -> Node | None:
        """The first or last statement of a block that is the counterpart of one inside a node."""
        images = [other for one in node.below() if (other := self._matching.old_of.get(one)) is not None]
        inside = [other for other in images if other.owner is owner and other.field == name]
        return (max if last else min)(inside, key=lambda one: one.index, default=None)

    def _elsewhere(self, preceding: list[Node], following: list[Node], here: Spot | None) -> Spot | None:
        """A block that is not the counterpart, in which the neighbours stand."""
        sides = []
        for neighbours in (preceding, following):
            apart, found = 0.0, None
            for one in neighbours:
                other = self._matching.old_of.get(one)
                if other is not None:
                    found = Anchor(one, other, apart, self._matching.likeness.of(one, other))
                    break
                apart += _distance(one)
            sides.append(found)
        before, after = sides
        nearest = min([one for one in (before, after) if one], key=lambda one: (one.apart, -one.alike), default=None)
        if nearest is None or nearest.old.owner is None:
            return None
        owner, name = nearest.old.owner, nearest.old.field
        if (here and here.owner is owner and here.name == name) or name in ("elif", "handlers", "cases"):
            return None
        spot = self._in_block(owner, name, preceding, following)
        spot.block = False
        return spot


def _lift(node: Node, owner: Node, name: str) -> Node | None:
    """The statement of a block that a node is or is in."""
    one: Node | None = node
    while one is not None:
        if one.owner is owner and one.field == name:
            return one
        one = one.owner
    return None


def _distance(node: Node) -> float:
    return 0.1 if node.kind == "Expr" else 1.0


def _docstring(block: list[Node]) -> int:
    """Where the first statement of a block may stand."""
    return 1 if block and block[0].nothing and not isinstance(block[0].syntax, ast.Pass) else 0


def _strength(spot: Spot) -> float:
    return sum(one.alike * (1 if one.near else 0.3) for one in (spot.before, spot.after) if one)
