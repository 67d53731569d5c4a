"""When a place is certain, and what is doubtful about it otherwise.

A log statement may have been moved by its author between two versions that are alike all around it: nothing tells. The less a function
was changed, the less likely that is, so that only a place in a function that is nearly the same is certain; and what reads nothing is
certain only between two neighbours. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rearview.propagate.loops import Chain, Loops
from rearview.propagate.match import Matching
from rearview.propagate.spots import Anchor, Spot
from rearview.propagate.tree import File, Node

_SAME = 0.9
_RENAMED = 0.97
"""The same but for variables that only one version has."""
_AGREEMENT = 0.85
_SAME_FILE = 0.9
"""How much of two files is the same that are hardly changed."""
_CLEARLY = 0.1
"""What is less like it by this is another one."""
_ONE_STATEMENT = 2
"""It differs on both sides."""


def reasons(matching: Matching, spot: Spot, group: list[Node]) -> list[str]:
    """What is doubtful about a place."""
    found = [*_mistakable(matching, group[0]), *_more_loops(matching, spot)]
    if _marked(matching, spot, group):
        return found
    if not spot.block:
        found.append("the block around it is another one")
    first, last = group[0], group[-1]
    preceding = any(not one.nothing for one in first.siblings[: first.index])
    following = any(not one.nothing for one in first.siblings[last.index + 1 :])
    if not _side(spot.before, preceding) or not _side(spot.after, following):
        found.append("a statement next to it was changed")
    if agreement(matching, group[0]) < _AGREEMENT:
        found.append("much around it was changed")
    elif (spot.before is None) != (spot.after is None) and not (_reads(group) and _hardly_changed(matching)):
        found.append("it stands at the edge of its block, with a neighbour on one side only")
    return found


def _marked(matching: Matching, spot: Spot, group: list[Node]) -> bool:
    """Whether the program's own marks tell the place: directly in the `rv.loop` of the same name in loops of the same names, next to a
    statement that is the same. What else was rewritten around them does not matter."""
    loops, old_loops = Loops(matching.new), Loops(matching.old)
    owner = group[0].owner
    if not spot.block or owner is None or loops.name(owner) is None or loops.chain(owner) != old_loops.chain(spot.owner):
        return False
    if loops.name(owner) != old_loops.name(spot.owner):
        return False
    near = [one for one in (spot.before, spot.after) if one is not None and one.near]
    return any(_the_same(one, loops, old_loops) for one in near) and not any(one.alike < _SAME for one in near)


def _more_loops(matching: Matching, spot: Spot) -> Iterator[str]:
    """The loops around a place that the other version has more of, under the same names: the statement may belong into each of them."""
    for owner in [spot.owner, *spot.owner.above()]:
        name, chain = Loops(matching.old).name(owner), Loops(matching.old).chain(owner)
        if name is None:
            continue
        there = _count(matching.old, chain)
        if there == 1:
            continue
        matching.new.need_all()
        if there > _count(matching.new, chain):
            yield f"there are {there} loops `{name}` there, and it is in one of them"


def _count(file: File, chain: Chain) -> int:
    """How many loops of a file are in loops of these names, the last of which is their own."""
    loops = Loops(file)
    return sum(loops.name(one) == chain[-1] and loops.chain(one) == chain for one in file.nodes)


def _the_same(anchor: Anchor, loops: Loops, old_loops: Loops) -> bool:
    """Whether a neighbour is the same statement: a log of the same name, or equal."""
    name = loops.logged(anchor.new)
    return anchor.new.key == anchor.old.key or (name is not None and name == old_loops.logged(anchor.old))


def _mistakable(matching: Matching, node: Node) -> Iterator[str]:
    """The functions and classes around a statement that are called otherwise there, where yet another is about as much like them."""
    for one in node.above():
        other = matching.old_of.get(one)
        if other is None or one.kind not in ("FunctionDef", "ClassDef") or _named(one) == _named(other):
            continue
        like = matching.likeness.of(one, other) - _CLEARLY
        for rival in matching.old.nodes:
            known = matching.new_of.get(rival)
            by_name = known is not None and _named(known) == _named(rival)
            if rival.kind == one.kind and rival is not other and not by_name and matching.likeness.of(one, rival) >= like:
                yield f"whether `{_named(one)}` is `{_named(other)}` or `{_named(rival)}` there"
                break


def _named(node: Node) -> str:
    return node.qualified[-1] if node.qualified else ""


def _reads(group: list[Node]) -> bool:
    """Whether some statements read anything but what they tell by: else their place is all that they tell."""
    every = [one for node in group for one in ast.walk(node.syntax)]
    by = {part for one in every if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) for part in ast.walk(one.value.func)}
    return any(isinstance(one, ast.Name) and one not in by for one in every)


def _hardly_changed(matching: Matching) -> bool:
    """Whether the two versions as a whole are nearly the same, but for calls for their own sake."""
    matching.new.need_all()
    new, old = _not_calls(matching.new.nodes), _not_calls(matching.old.nodes)
    same = sum(1 for one in new if (other := matching.old_of.get(one)) is not None and one.head == other.head)
    return 2 * same >= _SAME_FILE * (len(new) + len(old))


def _not_calls(nodes: list[Node]) -> list[Node]:
    return [one for one in nodes if one.kind != "Expr" and not one.nothing]


def _side(anchor: Anchor | None, has_neighbour: bool) -> bool:
    if anchor is None:
        return not has_neighbour
    return anchor.near and anchor.alike >= _SAME


def agreement(matching: Matching, node: Node) -> float:
    """How much of the function around a statement is the same in both versions."""
    home = node.function
    other = matching.old_of.get(home)
    if other is None:
        return 0.0
    mine, theirs = _statements(home), _statements(other)
    heads = matching.likeness.heads
    same = sum(1 for one in mine if (image := matching.old_of.get(one)) is not None and heads(one, image) >= _RENAMED)
    back = sum(1 for one in theirs if (image := matching.new_of.get(one)) is not None and heads(image, one) >= _RENAMED)
    different = len(mine) - same + len(theirs) - back
    return 1.0 if different <= _ONE_STATEMENT else 1 - different / (len(mine) + len(theirs))


def _statements(home: Node) -> list[Node]:
    """The statements of a function that do something of its own; calls for their own sake may be log statements."""
    return [one for one in home.below() if one.function is home and not one.nothing and one.kind not in ("Expr", "FunctionDef", "ClassDef")]
