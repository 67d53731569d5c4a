"""Whether a backward pass through a tensor is still to come. A tensor is kept as a value, so such a pass cannot be repeated later.

torch lets go of what it saved for a backward pass when that pass is done, and says so when it is asked: a tensor whose history has
let go of anything is just a value to the program too. Nor is a pass to come through an attribute of a module that a hook of torch's
computes anew before each call. Knows torch's graph by its public attributes; changes nothing.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

from rearview.state.take.attributes import own_dict

PENDING = "its history, which a backward pass may still need"
"""What a state lacks that holds such a tensor."""

MOST = 4
"""So many are named in one state; the next ones are no longer looked at."""
_NODES = 200
"""Looked at in one graph, at most: what is done is found after a few."""

_SAVED: dict[type, tuple[str, ...]] = {}
"""By type of node: the attributes with tensors that it saved."""


_COMPUTING = (
    ("prune", "BasePruningMethod", "_tensor_name"), ("weight_norm", "WeightNorm", "name"), ("spectral_norm", "SpectralNorm", "name"),
)  # fmt: skip
"""Hooks of torch that set an attribute of a module before each call: module of `torch.nn.utils`, class, and where it has that name."""


def note_computed(known: dict[Hashable, Any], module: Any) -> None:
    """Remember a module some of whose attributes are computed before each call."""
    hooks = (own_dict(module) or {}).get("_forward_pre_hooks")
    names = list(_computed(hooks)) if hooks else []
    if names:
        known[_COMPUTING, id(module)] = weakref.ref(module), names


def is_computed(known: dict[Hashable, Any], tensor: Any) -> bool:
    """Whether a tensor is such an attribute."""
    noted = [value for key, value in known.items() if isinstance(key, tuple) and key[0] is _COMPUTING]
    return any((own_dict(ref()) or {}).get(name) is tensor for ref, names in noted if ref() is not None for name in names)


def _computed(hooks: dict[int, Any]) -> Iterator[str]:
    for library, kind, held in _COMPUTING:
        one = getattr(sys.modules.get(f"torch.nn.utils.{library}"), kind, None)
        if one is not None:
            found = (hook for hook in list(hooks.values()) if isinstance(hook, one) and type(hook).__call__ is one.__call__)
            yield from (getattr(hook, held) for hook in found)


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
