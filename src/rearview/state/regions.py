"""Nodes that several states have in common, because they were taken over from one to the next (`take/again`).

What follows from them alone is found once. In each of these states they have the same numbers, refer to the same memory and hang below
each other alike; what may be another is the bytes of memory, gradients, and what objects hold that were taken anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The nodes from `first` to before `last`."""

    first: int
    last: int
    memory: int
    """So many allocations are theirs: the first ones of the state."""
    buffers: int
    """So many of these are buffers."""
    _known: dict[str, Any] = field(default_factory=dict)

    def once(self, what: str, find: Callable[[], Found]) -> Found:
        """What was found before, or is found now. Nobody changes it."""
        if what not in self._known:
            self._known[what] = find()
        found: Found = self._known[what]
        return found
