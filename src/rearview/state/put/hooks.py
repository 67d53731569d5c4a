"""Hooks that loops had registered or removed, going back to what they belong to."""

from __future__ import annotations

import sys
from typing import Any

from rearview.state.take.hooks import KEY
from rearview.state.tree import Tree

_ITEMS_AT = 2
"""Where the items of a list begin."""


def namespaces(tree: Tree) -> frozenset[int]:
    """The nodes of the `__dict__`s of what got another class in a loop: objects that were there before it."""
    if KEY not in tree.roots:
        return frozenset()
    nodes = tree.nodes
    rows = nodes[nodes[tree.roots[KEY]][1][-1]][1][_ITEMS_AT:]
    changed = (owner for owner, _, *other in (nodes[row][1][_ITEMS_AT:] for row in rows) if other and nodes[other[0]][0] == "true")
    return frozenset(nodes[owner][1][1] for owner in changed if nodes[owner][0] == "obj")


def put_back(taken: Any) -> list[tuple[Any, bool]]:
    """Give objects the hooks that a restored state has for them (`take/hooks`), and new hooks other numbers. Gives these objects,
    and whether they have another class than before the loops.

    The dicts are those of the state: the handles that were restored with it refer to them.
    """
    number, owners = taken
    handle: Any = sys.modules["torch.utils.hooks"].RemovableHandle
    handle.next_id = max(handle.next_id, number)
    tensor = sys.modules["torch"].Tensor
    found = [(owner, hooks, any(other)) for owner, hooks, *other in owners if owner is not None and hooks is not None]
    for owner, hooks, _ in found:
        for name, held in hooks.items():
            if not isinstance(owner, tensor):
                vars(owner)[name] = held
            elif getattr(owner, name) is not held:
                setattr(owner, name, held)
    return [(owner, other) for owner, _, other in found]
