"""Conditions turned round: `if not x: continue` and the rest of a loop behind it, or the same rest inside `if x:`.

Both say the same, and a program goes from one to the other when its author tidies up. Knows matched trees. Must not know names. Pure.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from rearview.propagate.match import Matching
from rearview.propagate.telling import tells
from rearview.propagate.tree import Node

_LOOPS = ("For", "While")


@dataclass(frozen=True, slots=True)
class Turned:
    """The block of the old version that holds what is behind a guard of the new one, or the other way round."""

    owner: Node
    name: str
    low: int
    """Where in the block it begins."""
    since: int
    """The statement of the new block with which it begins."""
    line: int
    """Of the condition in the old version."""


def turned(matching: Matching, node: Node) -> Turned | None:
    """The block that holds what a statement's block holds, behind a condition that was turned round."""
    owner = node.owner
    if owner is None or node.field != "body":
        return None
    if owner.kind in _LOOPS:
        return _into(matching, owner, node)
    return _out_of(matching, owner) if owner.kind == "If" and not _guard(owner) else None


def _into(matching: Matching, loop: Node, node: Node) -> Turned | None:
    """Behind a guard in the new version: inside the `if` that the old loop ends with."""
    guards = [one for one in loop.blocks["body"][: node.index] if _guard(one)]
    other = matching.old_of.get(loop)
    last = _last(other) if other is not None and other.kind in _LOOPS else None
    guards = [one for one in guards if matching.old_of.get(one, last) is last]
    if not guards or other is None or last is None or _guard(last):
        return None
    if matching.new_of.get(last, guards[-1]) is not guards[-1] or not _ends_with(other, last) or not _about_the_same(guards[-1], last):
        return None
    return Turned(last, "body", 0, guards[-1].index + 1, last.line)


def _out_of(matching: Matching, owner: Node) -> Turned | None:
    """Inside an `if` that the new loop ends with: behind a guard in the old version."""
    loop = owner.owner
    other = matching.old_of.get(loop) if loop is not None and loop.kind in _LOOPS and owner.field == "body" else None
    if loop is None or other is None or other.kind not in _LOOPS or not _ends_with(loop, owner):
        return None
    guards = [one for one in other.blocks["body"] if _guard(one) and matching.new_of.get(one, owner) is owner]
    if owner in matching.old_of and matching.old_of[owner] not in guards:
        return None
    if len(guards) != 1 or not _about_the_same(owner, guards[0]):
        return None
    return Turned(other, "body", guards[0].index + 1, 0, guards[0].line)


def _guard(node: Node) -> bool:
    """Whether a statement does nothing but go on with the next time of a loop, on a condition."""
    if node.kind != "If" or set(node.blocks) != {"body"}:
        return False
    *rest, last = node.blocks["body"]
    return isinstance(last.syntax, ast.Continue) and all(one.nothing or tells(one) for one in rest)


def _last(loop: Node) -> Node | None:
    block = [one for one in loop.blocks["body"] if not one.nothing]
    return block[-1] if block else None


def _ends_with(loop: Node, node: Node) -> bool:
    """Whether an `if` without an `else` is the last of a loop."""
    return node.kind == "If" and set(node.blocks) == {"body"} and _last(loop) is node


def _about_the_same(new: Node, old: Node) -> bool:
    """Whether two conditions ask about the same: they share a word, or each asks about what its loop runs over."""
    if new.words.keys() & old.words.keys():
        return True
    loops = [next(one for one in node.above() if one.kind in _LOOPS) for node in (new, old)]
    return all(node.words.keys() & _targets(loop) for node, loop in zip((new, old), loops, strict=True))


def _targets(loop: Node) -> set[str]:
    target = getattr(loop.syntax, "target", None)
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)} if target is not None else set()
