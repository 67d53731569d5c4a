"""Sets that give their elements out in another order in each process: of objects, or of text where the hash seed is unknown.

Two states with such a set are the same, and yet what a statement makes of its order is nothing that could come out again. Here is which
variables have one, and which statements make one. Pure: trees and text in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from rearview.state.tree import CALLER, OUTER, RootKey, Tree, is_atom

_SETS = ("set", "frozenset", "weakset")
_ITEMS_AT = 2
"""Behind its class and attributes."""
_NUMBERS = frozenset(("true", "false", "int", "bigint", "float", "complex"))
_TEXT = frozenset(("str", "bytes", "enum"))
_NAMED = {"attrs": 1, "obj": 2, "extra": 1, "dict": 2, "defaultdict": 3}
_KINDS = frozenset(("local", OUTER, CALLER, "global", "class", "given"))
_UNORDERED = frozenset("len sorted min max any all bool set frozenset isinstance".split())
"""What comes to the same in whatever order it is given."""
_PLAIN = frozenset("int float str round abs".split())
_MOST = 20

Row = tuple[str, ...]
"""A variable, and the names on the way from it to the set."""


def rows(tree: Tree, seed_known: bool) -> list[Row]:
    """The variables that reach such a set, each with the way to the first one."""
    found = {number for number, (kind, payload) in enumerate(tree.nodes) if kind in _SETS and _is_open(tree, payload, seed_known)}
    if not found:
        return []
    told = [(key, way) for key, number in tree.roots.items() if key[0] in _KINDS and (way := _way(tree, number, found)) is not None]
    return [(_text(key), *way) for key, way in told[:_MOST]]


def _is_open(tree: Tree, payload: Sequence[int], seed_known: bool) -> bool:
    items = set(payload[_ITEMS_AT:])
    return len(items) > 1 and not all(_is_fixed(tree, item, seed_known) for item in items)


def _is_fixed(tree: Tree, number: int, seed_known: bool) -> bool:
    """Whether an element has the same hash in every process."""
    kind, payload = tree.nodes[number]
    if kind == "tuple":
        return all(_is_fixed(tree, one, seed_known) for one in payload[_ITEMS_AT:])
    return kind in _NUMBERS or (seed_known and kind in _TEXT)


def _way(tree: Tree, root: int, found: set[int]) -> tuple[str, ...] | None:
    """The names on the way from a variable to the nearest of these sets."""
    waiting: list[tuple[int, tuple[str, ...]]] = [(root, ())]
    seen = {root}
    for number, way in waiting:
        if number in found:
            return way
        kind, payload = tree.nodes[number]
        if is_atom(kind):
            continue
        first = _NAMED.get(kind)
        for at, child in enumerate(payload):
            if child not in seen:
                seen.add(child)
                name = tree.nodes[payload[at - 1]][1] if first is not None and at > first and (at - first) % 2 else None
                waiting.append((child, (*way, name) if isinstance(name, str) else way))
    return None


def _text(key: RootKey) -> str:
    return "/".join(str(part) for part in key)


def makes_one(text: str) -> bool:
    """Whether a statement makes a set and uses its order.

    >>> makes_one("rv.log('x', list(set(names))[0])"), makes_one("rv.log('x', len(set(names)))"), makes_one("rv.log('x', {1} == seen)")
    (True, False, False)
    """
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(True for _ in _used(tree, False))


def counted(text: str) -> frozenset[str]:
    """Names and attributes of which a statement uses no order: only how many there are, or whether something is in them.

    >>> sorted(counted("rv.log('x', len(self.seen) + (3 in other) + first)"))
    ['other', 'seen']
    """
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node) not in _UNORDERED | _PLAIN]
    if not all(isinstance(call.func, ast.Attribute) and call.func.attr == "log" for call in calls):
        return frozenset()  # what it calls may look at them
    alone = {id(one) for node in ast.walk(tree) for one in _taken_whole(node)}
    words = [(_word(node), id(node) in alone) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    return frozenset(word for word, _ in words) - {word for word, whole in words if not whole}


def _taken_whole(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare) and all(isinstance(one, ast.In | ast.NotIn | ast.Eq | ast.NotEq) for one in node.ops):
        return node.comparators
    return node.args if isinstance(node, ast.Call) and _called(node) in _UNORDERED else []


def _word(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _used(node: ast.AST, unordered: bool) -> Iterator[ast.AST]:
    """Sets that are made where their order may count."""
    if not unordered and (isinstance(node, ast.Set | ast.SetComp) or _called(node) in ("set", "frozenset")):
        yield node
    inside = isinstance(node, ast.Compare) or _called(node) in _UNORDERED
    for child in ast.iter_child_nodes(node):
        yield from _used(child, inside or (unordered and isinstance(node, ast.BinOp)))


def _called(node: ast.AST) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
