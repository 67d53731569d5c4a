"""How ranks take the same decision for the same iteration without a collective of ours: rank 0 says beforehand, the others look.

Before an iteration begins, rank 0 decides whether its end will be kept, and says so by an empty file in the run's folder. A rank that comes
to that end has exchanged gradients with rank 0 inside the iteration, so the word was there before. Ranks that exchange nothing may
miss it: then their part is missing, and there is no checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rearview.model import RunId
from rearview.store import atomic, objects
from rearview.store.layout import Store


class Agreement:
    """The decisions of one attempt, as one rank takes part in them."""

    def __init__(self, store: Store, run: RunId, attempt: int, rank: int) -> None:
        self._folder = store.run(run) / "agreed"
        self._attempt = attempt
        self._leads = rank == 0

    def say(self, path: object, decide: Callable[[], bool]) -> None:
        """Rank 0, before an iteration begins: whether its end is to be kept."""
        if self._leads and decide():
            atomic.claim(self._mark(path))

    def agreed(self, path: object) -> bool:
        """At the end of an iteration: whether it is to be kept."""
        return self._mark(path).exists()

    def _mark(self, path: object) -> Path:
        name = objects.key_of(repr((self._attempt, path)).encode()).removeprefix(objects.PREFIX)
        return self._folder / name
