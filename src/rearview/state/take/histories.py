"""Whether a backward pass through a tensor is still to come. A tensor is kept as a value, so such a pass cannot be repeated later.

torch lets go of what it saved for a backward pass when that pass is done, and says so when it is asked: a tensor whose history has
let go of anything is just a value to the program too. Knows torch's graph by its public attributes; changes nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Any

PENDING = "its history, which a backward pass may still need"
"""What a state lacks that holds such a tensor."""

MOST = 4
"""So many are named in one state; the next ones are no longer looked at."""
_NODES = 200
"""Looked at in one graph, at most: what is done is found after a few."""

_SAVED: dict[type, tuple[str, ...]] = {}
"""By type of node: the attributes with tensors that it saved."""


def is_pending(tensor: Any) -> bool:
    """Whether everything that a backward pass from this tensor would need is still there."""
    waiting: deque[Any] = deque([tensor.grad_fn])
    seen: set[Any] = set()
    found = False
    while waiting and len(seen) < _NODES:
        node = waiting.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in _SAVED.get(type(node)) or _names(node):
            try:
                saved = getattr(node, name)
                found |= saved is not None and saved != ()
            except RuntimeError:
                return False  # let go of
        waiting.extend(following for following, _ in node.next_functions)
    return found


def _names(node: Any) -> tuple[str, ...]:
    names = [name.removeprefix("_raw") for name in dir(node) if name.startswith("_raw_saved") and name != "_raw_saved_tensors"]
    if hasattr(type(node), "saved_tensors"):  # a function of the program
        names.append("saved_tensors")
    return _SAVED.setdefault(type(node), tuple(names))
