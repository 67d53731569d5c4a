"""Which statement gives a variable its value: evidence that two statements are counterparts, however differently they are written.

`stats = train(loader)` and `stats = run_epoch(model, loader)` share one word of many, and it is the one that matters to a statement that
reads `stats`. Knows names and matched statements. Must not know where a statement is placed. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from rearview.instrument.scopes import of_own
from rearview.propagate.tree import Node

_AGAIN = ("For", "While", "FunctionDef", "ClassDef")
"""What these give a value may be read inside them as well as behind them."""


def same_given(new: Node, old: Node, reads: Collection[str]) -> bool:
    """Whether two statements give a value to the same variable, one that is read, or that no other statement of their blocks gives one."""
    if new.kind in _AGAIN or old.kind in _AGAIN:
        return False
    if new.kind != old.kind and not (_always(new) and _always(old)):
        return False
    shared = given(new) & given(old)
    if any(_last(new, one) and not _last(old, one) for one in shared.intersection(reads)):
        return False  # it gets another value yet
    return not shared.isdisjoint(reads) or any(_alone(new, one) and _alone(old, one) for one in shared)


def given(node: Node) -> frozenset[str]:
    """What a statement gives a value, all that is in it included: variables and attributes, by their text."""
    known: frozenset[str] | None = node.__dict__.get("given")
    if known is None:
        stores = [one for one in of_own([node.syntax]) if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Store)]
        known = node.__dict__["given"] = frozenset(ast.unparse(one) for one in stores)
    return known


def _always(node: Node) -> bool:
    """Whether one of its blocks always runs: it is no `if` without an `else`."""
    return node.kind != "If" or "orelse" in node.blocks


def _last(node: Node, name: str) -> bool:
    return not any(name in given(one) for one in node.siblings[node.index + 1 :])


def _alone(node: Node, name: str) -> bool:
    return not any(name in given(one) for one in node.siblings if one is not node)
