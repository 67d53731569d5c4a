"""Hooks that loops had registered or removed, going back to what they belong to."""

from __future__ import annotations

import sys
from typing import Any


def put_back(taken: Any) -> list[Any]:
    """Give objects the hooks that a restored state has for them (`take/hooks`), and new hooks other numbers. Gives these objects.

    The dicts are those of the state: the handles that were restored with it refer to them.
    """
    number, owners = taken
    handle: Any = sys.modules["torch.utils.hooks"].RemovableHandle
    handle.next_id = max(handle.next_id, number)
    tensor = sys.modules["torch"].Tensor
    found = [(owner, hooks) for owner, hooks in owners if owner is not None and hooks is not None]
    for owner, hooks in found:
        for name, held in hooks.items():
            if not isinstance(owner, tensor):
                vars(owner)[name] = held
            elif getattr(owner, name) is not held:
                setattr(owner, name, held)
    return [owner for owner, _ in found]
