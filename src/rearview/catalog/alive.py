"""Does a process still live? Binds the store's knowledge of processes to this host and this boot."""

from __future__ import annotations

from functools import partial

from rearview.catalog.status import Alive
from rearview.store import processes


def looker() -> Alive:
    """A function that tells whether a process lives, for this host and this boot."""
    return partial(processes.lives, here=(processes.host(), processes.boot_id()))
