"""Which buffers can have changed since they were last kept: hints that save the copy, each of them proved.

Knows digests and counters, no files and no framework. Memory that the kernel watches is known to be what it was, or is copied. Elsewhere a
wrong hint costs one checkpoint: it is found by the hash of the live memory, the checkpoint is given up, and that memory is copied from then
on.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from rearview.record.checkpoints.watched import Watch
from rearview.store.packs import Names

_WORTH_A_HINT = 64 << 10


class Buffer(Protocol):
    """Live memory, as `state` describes it."""

    nbytes: int
    key: Hashable
    version: int | None
    constant_hint: bool
    address: int


@dataclass(slots=True)
class Seen:
    """What is known of one stretch of memory."""

    nbytes: int
    names: Names
    """Of its chunks."""
    version: int | None
    unchanged: int = 0
    """Checkpoints in a row at which it had the bytes it had before."""
    distrusted: bool = False
    """It was taken for unchanged once and was not."""
    watch: Watch | None = None
    """Since before it was found to hold these chunks."""
    restless: bool = False
    """It was copied, and written before the second part of the checkpoint."""


class Changes:
    """The memory of the program as the checkpoints before saw it."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, Seen] = {}

    def expected(self, buffer: Buffer) -> Names | None:
        """What the buffer is expected to hold still; None if it is to be copied.

        Torch counts writes, so an unchanged count says something about memory that nothing trains, and about memory that was found
        unchanged before. Where nobody counts, only having been unchanged does. A small buffer is copied sooner than proved, and so is one
        of another device: there it cannot be read.
        """
        if buffer.nbytes < _WORTH_A_HINT or not buffer.address:
            return None
        seen = self._seen.get(buffer.key)
        if seen is None or seen.nbytes != buffer.nbytes or seen.distrusted or seen.version != buffer.version:
            return None
        if seen.unchanged or (buffer.constant_hint and buffer.version is not None):
            return seen.names
        return None

    def is_new_and_constant(self, buffer: Buffer) -> bool:
        """Whether a buffer is copied now, and probably never again: watched from now on, it need not be the next time."""
        return buffer.constant_hint and buffer.key not in self._seen and buffer.nbytes >= _WORTH_A_HINT and buffer.address != 0

    def watch(self, buffer: Buffer) -> Watch | None:
        """By which it is known whether the buffer holds what it is expected to."""
        seen = self._seen.get(buffer.key)
        return None if seen is None or seen.watch is None or seen.watch.place != (buffer.address, buffer.nbytes) else seen.watch

    def kept(self, buffer: Buffer, names: Names, watch: Watch | None = None) -> None:
        """The buffer holds these chunks; `watch`: it has been watched since before that was found. Not to be told of the second part of a
        checkpoint: a moment later proves nothing."""
        seen = self._seen.get(buffer.key)
        if seen is None or seen.nbytes != buffer.nbytes:
            self._seen[buffer.key] = Seen(buffer.nbytes, names, buffer.version, watch=watch)
            return
        seen.unchanged = seen.unchanged + 1 if seen.names == names else 0
        seen.names = names
        seen.version = buffer.version
        seen.watch = watch

    def rests(self, buffer: Buffer) -> bool:
        """Whether nobody is known to write to the buffer between the two parts of a checkpoint."""
        seen = self._seen.get(buffer.key)
        return seen is None or not seen.restless

    def was_written(self, buffer: Buffer) -> None:
        """It was copied, and written between the two parts of a checkpoint, as the kernel says."""
        seen = self._seen.get(buffer.key)
        if seen is not None:
            seen.restless = True

    def was_wrong(self, buffer: Buffer) -> None:
        """It was expected not to have changed, and has."""
        seen = self._seen.get(buffer.key)
        if seen is not None:
            seen.distrusted = True

    def forget(self, buffer: Buffer) -> None:
        """What it held is no longer in the store."""
        self._seen.pop(buffer.key, None)
