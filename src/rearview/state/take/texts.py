"""Functions that were made of text (`eval`, `exec`): no file has their code, and code is never in a state.

Those of the code before the loops are made again by it. One that a loop made cannot be made again, and is named.
"""

from __future__ import annotations

import types

from rearview.state.take.walk import Missing, Walk

WHY = "a function made of text while the loop ran: no file has its code"
_MET = "functions of text"
_CELLS = "<ipython-input"
"""A notebook's cells are kept as the source of its version."""


def note(walk: Walk, code: types.CodeType, digest: str) -> None:
    """A function is being taken whose name does not lead to it."""
    if code.co_filename.startswith("<") and not code.co_filename.startswith(_CELLS):
        walk.cache.setdefault(_MET, []).append((walk.at, digest))


class Texts:
    """Which of them there were before the loops."""

    def __init__(self) -> None:
        self._before: frozenset[str] | None = None

    def look(self, walk: Walk) -> None:
        """Everything was walked: keep what there is, the first time; name what came since."""
        met = walk.cache.get(_MET, [])
        if self._before is None:
            self._before = frozenset(digest for _, digest in met)
        walk.missing += [Missing(walk.where(number), "function", WHY) for number, digest in met if digest not in self._before]
