"""How long the iterations of a main block take, in batches: what a replay of them is reckoned to cost."""

from __future__ import annotations

import time
from typing import Any

from rearview.record.checkpoints.boundaries import chain
from rearview.record.loops import Node

_MOST = 256
_LONGEST_S = 2.0
"""A batch is noted after so many iterations or so much time: a killed run has most of them."""


class Timing:
    """Iterations of one block, one after the other."""

    def __init__(self, node: Node, block: int) -> None:
        self._node = node
        self._block = block
        self._first = node.iteration
        self._began = time.monotonic()
        self._wall = 0.0
        """When the first of them began."""
        self._total: list[float] = []
        self._nested: list[float] = []

    def goes_on(self, node: Node) -> bool:
        """Whether an iteration that has ended is the next one of this batch."""
        return node is self._node and node.iteration == self._first + len(self._total)

    def add(self, seconds: float, nested_s: float) -> bool:
        """One more; True if the batch is to be noted."""
        self._wall = self._wall or time.time() - seconds
        self._total.append(round(seconds, 6))
        self._nested.append(round(nested_s, 6))
        return len(self._total) >= _MOST or time.monotonic() - self._began > _LONGEST_S

    def facts(self) -> dict[str, Any]:
        """The fact `timing`: which block, from which iteration on, when, seconds of each and of the nested block in it."""
        path = [[one.name, one.occurrence, one.iteration] for one in chain(self._node)[1:-1]]
        path.append([self._node.name, self._node.occurrence, self._first])
        return {
            "block": self._block, "name": self._node.name, "path": path, "wall": self._wall,
            "first": self._first, "total": self._total, "nested": self._nested,
        }  # fmt: skip
