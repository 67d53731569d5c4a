"""Where in the old version a statement of the new one belongs: between the counterparts of its neighbours, in the counterpart of its block.

Knows matched trees and layout. Must not know names, nor what travels along. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rearview.instrument.scopes import read
from rearview.propagate.gives import given, same_given
from rearview.propagate.match import Matching
from rearview.propagate.telling import tells
from rearview.propagate.tree import Node
from rearview.propagate.turned import turned

_OWN_BLOCK = 0.8
"""What it counts that a block is the counterpart of the statement's, against a neighbour that stands in it."""
_IN_A_ROW = 1.5
"""What it counts that the next statement tells as well: those that tell in a row in one version do so in another."""
_TOO_CLOSE = 0.65
_WEAK = 0.6
_GIVES = 0.65
"""How alike statements count at least that give the same variable its value."""
_SAME_STEP = 0.65
"""And statements that are the same step of the program by a comment or by what they call, or blocks with the same head."""
_SAYS_MUCH = 20
"""Characters of the head of a block by which it is known whatever is in it."""
_WRAPPED, _UNWRAPPED = 0.3, 0.4
"""How alike a neighbour counts that stands in a block of its own in the old version, or in the new one."""
_SAME_HEAD = 0.97
_NEIGHBOURS = 6
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
"""Nothing runs behind these."""


@dataclass(slots=True)
class Anchor:
    """A neighbour of the statement and its counterpart."""

    new: Node
    old: Node
    """The statement of the place's block that is its counterpart, or contains it."""
    apart: float
    """How much new code is between it and the statement."""
    alike: float
    gives: bool = False
    """Whether both versions of it give a variable its value that the statement reads."""

    @property
    def near(self) -> bool:
        """Whether nothing but calls for their own sake (other log statements) is between them."""
        return self.apart < 1

    @property
    def firm(self) -> bool:
        """Whether it is near and the same in both versions."""
        return self.near and self.alike >= _SAME_HEAD


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
    last: bool = False
    """Whether nothing stands behind the statement in its block."""
    apart: bool = False
    """Whether blank lines are before and behind it: it belongs to neither neighbour."""
    headed: bool = False
    """Whether a comment stands directly above it: with blank lines around, it is a paragraph of its own."""
    conditional: bool = False
    """Whether the block around it decides whether it runs, and how often."""
    edge: bool = False
    """Whether on one side it has neighbours of which none is in the place's block."""
    fellow: Node | None = None
    """A statement next to it, in the new version, that tells as it does and has its counterpart in the place's block."""
    beside: tuple[Node | None, Node | None] = (None, None)
    """The statements directly before and behind it in the new version."""
    exchanged: bool = False
    """Whether its neighbours stand in another order."""
    doubts: list[str] = field(default_factory=list)

    def refusal(self) -> str | None:
        """Why it is not enough of a place."""
        near = [one for one in (self.before, self.after) if one and one.near]
        if not self.block:
            both = self.before is not None and self.before.near and (self.after is not None or self.last)
            given = self.before is not None and self.before.apart == 0 and self.before.gives and not self.conditional
            if self.edge and self.fellow is None and not given and not any(one.firm for one in near):
                return f"it would stand at the edge of another block ({self.owner.quoted}): as well in it as beside it"
            at_edge = self.edge and (given or any(one.firm for one in near))
            if not near or (self.low < self.high and not both and not at_edge and self.fellow is None):
                return f"the block around it has no counterpart, and {self._missing()} has none next to the place"
        elif self.low < self.high and not near and (self.before or self.after):
            return f"this version has no counterpart of what is next to it: {self._missing()} of the new version"
        weak = self.before is not None and self.before.near and self.before.alike < _WEAK and not self.leads
        if self.before and weak and (self.after is None or self.after.alike < 0.99):
            return f"what is next to it is much changed: {self.before.new.quoted} of the new version, {self.before.old.quoted} of this one"
        only_after = self.before is not None and not self.before.near and self.after is not None and self.after.near
        if self.after and self.apart and only_after and (self.low < self.high or self.headed):
            return f"it stands apart from the only statement next to it that has a counterpart, {self.after.new.quoted} of the new version"
        wrapped = [one for one in near if one.alike == _WRAPPED]
        if any(one.apart == 0 for one in wrapped) or len(wrapped) == len(near) > 0:
            one = wrapped[0]
            return f"what is next to it, {one.new.quoted} of the new version, stands in a block of its own here: {one.old.quoted}"
        return None

    @property
    def leads(self) -> bool:
        """Whether it stands in front of a statement that tells as it does, and behind nothing that is the same: with that one it goes."""
        before = self.before is not None and self.before.near and self.before.alike >= _WEAK
        return not before and self.after is not None and self.after.new is self.fellow

    def _missing(self) -> str:
        """The statements of the new version next to it that have no counterpart next to the place."""
        known = [anchor.new for anchor in (self.before, self.after) if anchor]
        found = [one for one in self.beside if one is not None and one not in known]
        return " and ".join(one.quoted for one in found) or "what is next to it"

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


_Row = tuple[tuple[Node, str], float, Node]
"""A block, how alike a statement of the new version is to its counterpart in it, and that statement."""


class Spots:
    """Finds the place of statements of the new file in the old one."""

    def __init__(self, matching: Matching) -> None:
        self._matching = matching
        self._group: list[Node] = []
        self._reads: set[str] = set()

    def find(self, group: list[Node]) -> Spot | Nowhere:
        """The place of some statements that stand next to each other."""
        first, last = group[0], group[-1]
        self._group, self._reads = group, read([node.syntax for node in group])
        if first.owner is first.file.module:
            first.file.need_all()
        block = first.siblings
        preceding = [one for one in reversed(block[: first.index]) if not one.nothing]
        following = [one for one in block[last.index + 1 :] if not one.nothing]
        owner = self._matching.old_of.get(first.owner) if first.owner else None
        name, around = first.field, turned(self._matching, first)
        if around is not None:
            owner, name = around.owner, around.name
            preceding = [one for one in preceding if one.index >= around.since]
        votes = self._votes(preceding, following)
        rows = list(self._in_a_row(group, preceding, following))
        for place, alike, _ in rows:
            votes[place] = votes.get(place, 0.0) + _IN_A_ROW * alike
        here = (owner, name) if owner and name in owner.blocks else None
        if here is not None:
            votes[here] = votes.get(here, 0.0) + _OWN_BLOCK
        ranked = sorted(votes.items(), key=lambda item: -item[1])
        if not ranked:
            return Nowhere(self._no_block(first))
        (place, most), second = ranked[0], ranked[1][1] if len(ranked) > 1 else 0.0
        inner = next((one for one, *_ in rows if (one[0].owner, one[0].field) == place and tells(one[0])), None)
        if inner is not None:  # where that tells on a condition of its own, so does this
            place, second = inner, 0.0
        spot = self._in_block(place[0], place[1], preceding, following)
        spot.block = place == here
        if around is not None and spot.block:
            spot.low = spot.index = max(spot.low, around.low)
            spot.high = max(spot.low, spot.high)
            spot.doubts.append(f"whether the condition in line {around.line} is the one around it, turned round")
        spot.last = not following
        spot.beside = (preceding[0] if preceding else None, following[0] if following else None)
        spot.fellow = next((node for one, _, node in rows if one == place), None)
        spot.apart = _apart(group)
        spot.conditional = first.owner is not None and first.owner.kind not in ("With", "FunctionDef", "Module")
        spot.headed = first.line > 1 and first.file.lines[first.line - 2].lstrip().startswith("#")
        spot.edge = (bool(preceding) and spot.before is None) or (bool(following) and spot.after is None)
        spot.edge = spot.edge or (not following and not spot.block and spot.high == len(spot.siblings) and spot.owner.kind == "With")
        if second > _TOO_CLOSE * most:
            other = self._in_block(*ranked[1][0], preceding, following)
            lines = f"lines {spot.line} and {other.line}" if spot.line != other.line else f"both at line {spot.line}"
            return Nowhere(f"two places are about equally good, {lines}", (spot, other))
        return self._looked_at(spot, preceding, following, alone=inner is not None)

    def _looked_at(self, spot: Spot, preceding: list[Node], following: list[Node], *, alone: bool) -> Spot | Nowhere:
        """The place, if what is around it allows it. `alone`: what is next to it need not be in its block."""
        if spot.exchanged and not self._nearer(spot).firm:
            order = " and ".join(one.old.quoted for one in (spot.after, spot.before) if one)
            return Nowhere(f"the statements around it stand in another order in this version: {order}", (spot,))
        for side, anchor in ((preceding, spot.before), (following, spot.after)):
            moved = self._elsewhere(side, anchor, spot) if not alone else None
            if moved is not None:
                return Nowhere(f"what is next to it stands elsewhere in this version: {moved.quoted}", (spot,))
        if spot.before is not None and isinstance(spot.before.old.syntax, _LEAVING):
            return Nowhere(f"nothing runs behind the statement before it in this version: {spot.before.old.quoted}", (spot,))
        if not spot.before and not spot.after and not self._empty(spot, preceding, following):
            return Nowhere(f"nothing around it has a counterpart in the block of {spot.owner.quoted}", (spot,))
        return spot

    def _votes(self, preceding: list[Node], following: list[Node]) -> dict[tuple[Node, str], float]:
        """The blocks in which the counterparts of the neighbours stand, the near ones counting more."""
        votes: dict[tuple[Node, str], float] = {}
        for neighbours in (preceding, following):
            for rank, one in enumerate(neighbours[:_NEIGHBOURS]):
                known, below = self._matching.old_of.get(one), self._matching.headed.get(one)
                other = known or below
                if other is not None and other.owner is not None and other.field not in ("elif", "handlers", "cases"):
                    place = (other.owner, other.field)
                    alike = self._matching.likeness.of(one, other) if known is not None else _SAME_STEP
                    votes[place] = votes.get(place, 0.0) + alike / (1 + rank)
        return votes

    def _in_a_row(self, group: list[Node], preceding: list[Node], following: list[Node]) -> Iterator[_Row]:
        """The blocks of statements that tell as these do, and that no blank line parts from them: they stay together."""
        first, last = group[0], group[-1]
        rows = [(one, range(one.end, first.line - 1)) for one in preceding[:1]]
        rows += [(one, range(last.end, one.line - 1)) for one in following[:1]]
        for one, between in rows:
            other = self._matching.old_of.get(one)
            if other is None or other.owner is None or not all(tells(node) for node in (*group, one)):
                continue
            alike = self._matching.likeness.of(one, other)
            if alike >= _WEAK and all(first.file.lines[line].strip() for line in between):
                yield (other.owner, other.field), alike, one

    def _elsewhere(self, neighbours: list[Node], anchor: Anchor | None, spot: Spot) -> Node | None:
        """The counterpart of a neighbour that is nearer than the anchor and surely in another block."""
        for one in neighbours:
            if anchor is not None and one is anchor.new:
                break
            other = self._matching.old_of.get(one)
            if isinstance(one.syntax, ast.Import | ast.ImportFrom):
                continue  # where it is imported does not matter
            if other is not None and not one.blocks and _lift(other, spot.owner, spot.name) is None:
                return other if self._matching.likeness.of(one, other) >= _WEAK else None
            if one.kind != "Expr":
                break
        return None

    def _empty(self, spot: Spot, preceding: list[Node], following: list[Node]) -> bool:
        """Whether the old block has nothing in it, and is surely the statement's: there is one place in it."""
        if not spot.block or not all(one.nothing or isinstance(one.syntax, _LEAVING) for one in spot.siblings[spot.low :]):
            return False
        owner = self._matching.new_of.get(spot.owner)
        calls = all(one.kind == "Expr" or tells(one) or isinstance(one.syntax, _LEAVING) for one in (*preceding, *following))
        return calls or (owner is not None and owner.owner is not None and self._matching.likeness.heads(owner, spot.owner) >= _SAME_HEAD)

    def _no_block(self, node: Node) -> str:
        owner = node.owner
        if owner is None or owner.owner is None:
            return "none of the statements around it has a counterpart"
        syntax = owner.syntax
        if isinstance(syntax, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return f"this version has no counterpart of `{syntax.name}`"
        return f"this version has no counterpart of the block around it (`{owner.kind.lower()}`, line {owner.line})"

    def _in_block(self, owner: Node, name: str, preceding: list[Node], following: list[Node]) -> Spot:
        if owner is owner.file.module:
            owner.file.need_all()
        block = owner.blocks[name]
        before = self._anchor(preceding, owner, name, True)
        after = self._anchor(following, owner, name, False)
        low = before.old.index + 1 if before else _docstring(block)
        if after is None or not after.near:
            after = self._heading(following, owner, name, low) or after
        high = after.old.index if after else len(block) - (bool(block) and isinstance(block[-1].syntax, _LEAVING))
        spot = Spot(owner, name, low, high, low, before, after, True)
        if low > high and (before is None or after is None):  # behind what leaves the block, or before its docstring
            spot.high = low
        elif low > high:  # the neighbours were exchanged: the nearer one decides
            spot.exchanged = True
            spot.doubts.append("the statements around it stand in another order")
            if self._nearer(spot) is before:
                spot.high = low
            else:
                spot.low = high
        return spot

    def _nearer(self, spot: Spot) -> Anchor:
        """The neighbour that decides where both have a counterpart: of two that are as near, the one in its paragraph."""
        assert spot.before is not None
        assert spot.after is not None
        if spot.before.apart != spot.after.apart:
            return min(spot.before, spot.after, key=lambda one: one.apart)
        lines = self._group[0].file.lines
        parted = _blank(lines[spot.before.new.end : self._group[0].line - 1])
        return spot.after if parted and not _blank(lines[self._group[-1].end : spot.after.new.line - 1]) else spot.before

    def _anchor(self, neighbours: Iterable[Node], owner: Node, name: str, last: bool) -> Anchor | None:
        """The nearest neighbour with a counterpart in a block."""
        apart = 0.0
        for one in neighbours:
            other = self._matching.old_of.get(one)
            lifted = _lift(other, owner, name) if other else None
            if lifted is not None and other is not None:
                gives = lifted is other and not given(one).isdisjoint(given(other) & self._reads) and same_given(one, other, self._reads)
                return Anchor(one, lifted, apart, self._alike(one, lifted, self._wrapped(other, lifted, one)), gives)
            inner = self._unwrapped(one, owner, name, last) if other is None else None
            if inner is not None:
                return Anchor(one, inner, apart + 0.5, self._alike(one, inner, _UNWRAPPED))
            apart += _distance(one)
        return None

    def _heading(self, following: list[Node], owner: Node, name: str, low: int) -> Anchor | None:
        """The statement behind it that a comment heads, which in the old version heads another: it stands before that."""
        one = next(iter(following), None)
        other = self._matching.headed.get(one) if one is not None else None
        if one is None or other is None or other.owner is not owner or other.field != name or other.index < low:
            return None
        return Anchor(one, other, 0.0, _SAME_STEP)

    def _alike(self, new: Node, old: Node, alike: float) -> float:
        """How alike a neighbour counts: more than it looks if it is the same step, or both versions give the same variable its value."""
        same_head = new.head == old.head and len(new.head) >= _SAYS_MUCH
        if alike < _SAME_STEP and (same_head or self._matching.same_step(new, old)):
            return _SAME_STEP
        return _GIVES if alike < _GIVES and same_given(new, old, self._reads) else alike

    def _wrapped(self, old: Node, lifted: Node, new: Node) -> float:
        return self._matching.likeness.of(new, old) if lifted is old else _WRAPPED

    def _unwrapped(self, node: Node, owner: Node, name: str, last: bool) -> Node | None:
        """The first or last statement of a block that is the counterpart of one inside a node."""
        images = [other for one in node.below() if (other := self._matching.old_of.get(one)) is not None]
        inside = [other for other in images if other.owner is owner and other.field == name]
        return (max if last else min)(inside, key=lambda one: one.index, default=None)


def _apart(group: list[Node]) -> bool:
    lines, block = group[0].file.lines, group[0].siblings
    first, last = group[0], group[-1]
    above = block[first.index - 1].end if first.index else first.line - 1
    below = block[last.index + 1].line if last.index + 1 < len(block) else last.end + 1
    return all(_blank(part) for part in (lines[above : first.line - 1], lines[last.end : below - 1]))


def _blank(lines: list[str]) -> bool:
    return any(not line.strip() for line in lines)


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
