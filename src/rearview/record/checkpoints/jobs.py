"""One part of a checkpoint on its way to the disk: what of it was copied, what it is expected to be, what became of it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rearview.record.checkpoints.watched import Watch
from rearview.state import visible
from rearview.store.manifests import Manifest
from rearview.store.packs import Names
from rearview.store.packs.known import Stamp
from rearview.store.packs.layout import Piece

Files = Callable[[Callable[[bytes], str]], list[Any]]
"""The output files of the program for the manifest, given who keeps bytes."""


Spans = Mapping[int, visible.Range]


@dataclass(slots=True)
class Job:
    """One part of a checkpoint on its way to the disk."""

    manifest: Manifest
    captured: Any
    first: Job | None
    period: Any
    """The period that is told what it cost."""
    files: Files
    is_second: bool
    staged: dict[int, memoryview] = field(default_factory=dict)
    """Buffer number -> its copy."""
    chunks: dict[int, Piece] = field(default_factory=dict)
    """Buffer number -> its copy as the one chunk that it is, of those that were hashed when they were copied."""
    addresses: dict[int, int] = field(default_factory=dict)
    """Buffer number -> where its copy is, of those that lie in memory of ours."""
    expected: dict[int, Names] = field(default_factory=dict)
    """Buffer number -> the chunks it is expected to hold; its live memory is hashed, unless it is watched."""
    watches: dict[int, Watch] = field(default_factory=dict)
    """Buffer number -> by what it is watched, of those that are expected to hold something."""
    unwritten: set[int] = field(default_factory=set)
    """Those of which the kernel says that they hold it still."""
    watched: list[int] = field(default_factory=list)
    """Copied buffers that are watched until the second part is taken."""
    same_as: dict[int, int] = field(default_factory=dict)
    """Buffers that are what the first part kept of them -> their numbers in that."""
    taken_at: float = field(default_factory=time.monotonic)
    """Nothing of the program was looked at before."""
    proved_from: float = math.inf
    """What is expected is proved from then on."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What the policy looks at, as it was when the state was taken."""
    stall_s: float = 0.0
    held_since: float | None = None
    """The training waits for it since then, until it is written."""
    lost_s: float = 0.0
    problem: Exception | None = None
    names: list[Names] = field(default_factory=list)
    """The chunks of each buffer, once they are in the store."""
    packs: Mapping[str, Stamp | None] = field(default_factory=dict)
    """Where all of them are."""
    seen: dict[Any, tuple[visible.Range, bytes]] = field(default_factory=dict)
    """Buffer key -> which part of it tensors show, and the digest of that part, if it is not all of it."""
    done: threading.Event = field(default_factory=threading.Event)
    followed: threading.Event = field(default_factory=threading.Event)
    """The second part was taken, or nobody waits for it any more."""
    written: bool = False

    def drop_copies(self) -> None:
        """Nobody looks at the copies any more, nor at what they were compared with: their memory may become another's."""
        self.staged, self.chunks, self.addresses, self.first = {}, {}, {}, None


def let_go(job: Job) -> None:
    """The memory that was copied may be freed by the program. What is proved where it lies stays."""
    for k in job.staged:
        buffer = job.captured.buffers[k]
        if not buffer.private:
            buffer.release()
