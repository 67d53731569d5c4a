"""The value objects passed between packages. They know nothing of files, git, SQL or the user's program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NewType

RunId = NewType("RunId", str)
"""`r` and twelve characters of a lower-case base32 alphabet."""

VersionId = NewType("VersionId", str)
"""`v` and the commit id in the store's own repository."""

ProcessNumber = NewType("ProcessNumber", str)
"""Rank, then the place of each fork below it: `0`, `1`, `0.2`, `0.s1` (spawned). Same program, same numbers."""

MAIN_PROCESS = ProcessNumber("0")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process for good: a pid alone is reused, and does not survive a reboot."""

    host: str
    boot_id: str
    pid: int
    started: float
    """Start time in clock ticks since boot on Linux, else seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class ArraySummary:
    """What the table shows of a value that is kept whole elsewhere: an array, tensor, picture or figure."""

    kind: str
    """`numpy`, `torch`, `tensorflow`, `jax`, `pil` or `figure`."""
    dtype: str
    shape: tuple[int, ...]
    minimum: float | None
    maximum: float | None
    mean: float | None
    nan_count: int
    histogram: tuple[int, ...]
    """Counts in equal bins from minimum to maximum, over the finite elements."""
    object_key: str
    """The content address of the bytes."""
    size_bytes: int
    details: dict[str, Any] = field(default_factory=dict)
    """What else is needed to bring the original back (a picture's mode, a palette)."""
