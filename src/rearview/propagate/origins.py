"""Whether what a statement reads got its value in the old version where it gets it in the new one.

A name may be the same and mean something else: a constant set once where today it is computed in each iteration, a total that was
already set back to zero, a variable where today there is a function. The statement would log that under the same name, so that the place
is not certain. How a value is computed may differ: that is the old version's own. Knows matched statements. Must not know text. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from rearview.propagate.match import Matching
from rearview.propagate.needs import binds
from rearview.propagate.spots import Spot
from rearview.propagate.tree import Node, Scope

_LOOPS = ("For", "While")
_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


def otherwise_given(matching: Matching, spot: Spot, group: list[Node], names: Iterable[tuple[str, str]]) -> Iterator[str]:
    """What is doubtful about the variables that a statement reads: (what it is called in the old version, in the new one)."""
    mine = _Before(group[0].owner or matching.new.module, group[0].field, group[0].index)
    theirs = _Before(spot.owner, spot.name, spot.index)
    for old_name, new_name in names:
        new, old = mine.makers(new_name), theirs.makers(old_name)
        if not new or not old:
            continue
        if _code(new) != _code(old):
            yield f"`{old_name}` is {'no ' if _code(new) else 'a '}function, class or module there ({old[-1].quoted})"
            continue
        last, other = mine.last(new), theirs.last(old)
        if not _code(new) and not (_same(matching, last, other) and mine.again(last) == theirs.again(other)):
            where = f"in {other.quoted}" if other is not None else "elsewhere"
            yield f"`{old_name}` gets its value otherwise there, {where}"


class _Before:
    """What comes before a place in the function that it is in."""

    def __init__(self, owner: Node, field: str, index: int) -> None:
        self._home = owner if owner.owner is None or isinstance(owner.syntax, ast.FunctionDef | ast.AsyncFunctionDef) else owner.function
        block = owner.blocks[field]
        self._place = block[index].line if index < len(block) else (block[-1].end + 1 if block else owner.end + 1)
        self._around = [owner, *owner.above()]

    def makers(self, name: str) -> list[Node]:
        """The statements of the function, or else of one around it, that give a name its value."""
        home: Node | None = self._home
        while home is not None:
            found = [one for one in home.below() if one.function is home and _may_bind(one, name) and binds(one, name)]
            if found or home.owner is None:
                return found
            home = home.function
        return []

    def last(self, makers: list[Node]) -> Node | None:
        """The last of these before the place: the statement of a block around the place that it is in."""
        before = [one for one in makers if one.line < self._place]
        one = before[-1] if before else None
        while one is not None and one not in self._around and one.owner is not None and one.owner not in self._around:
            one = one.owner
        return one

    def again(self, node: Node | None) -> bool:
        """Whether a statement runs each time that the place does: no loop is around the place alone."""
        return node is not None and _loop(node) is next((one for one in self._around if one.kind in _LOOPS), None)


def _may_bind(node: Node, name: str) -> bool:
    """Quickly, for most statements bind something else."""
    syntax = node.syntax
    return syntax.name == name if isinstance(syntax, Scope) else name in node.head


def _code(makers: list[Node]) -> bool:
    return all(isinstance(one.syntax, _CODE) for one in makers)


def _same(matching: Matching, new: Node | None, old: Node | None) -> bool:
    """Whether two statements give a value at the same point, however they compute it."""
    if new is None or old is None:
        one = new or old
        return one is None or _loop(one) is None
    if matching.old_of.get(new) is old:
        return True
    if new in matching.old_of or old in matching.new_of or (new.kind == "AugAssign") != (old.kind == "AugAssign"):
        return False
    assert new.owner is not None
    return matching.old_of.get(new.owner) is old.owner or (_loop(new) is None and _loop(old) is None)


def _loop(node: Node) -> Node | None:
    return next((one for one in node.above() if one.kind in _LOOPS), None)
