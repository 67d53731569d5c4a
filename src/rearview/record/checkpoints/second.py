"""The second part of a checkpoint against the first, a moment before: which memory is still what was copied then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rearview.record.checkpoints import staging
from rearview.record.checkpoints.jobs import Job
from rearview.store.packs.hashing import held_digest

COMPARED_WHOLE = 64 << 20
"""So much is compared byte by byte with the first part of a checkpoint: a few milliseconds."""
_SAMPLED = 1 << 20
"""Smaller buffers are compared byte by byte whatever there is: that takes no longer than a sample of them."""


def as_in_first(first: Job, buffers: Sequence[Any]) -> dict[int, int]:
    """Which buffers are what they were a moment ago, at the end of the nested block, and their numbers there: torch counted no write, and
    the copy agrees.

    Small ones are compared byte by byte, others up to a bound. Else a sample from each page: a write that torch does not count (`p.data`)
    is an update of everything, as a rule. What nobody counts is looked at anew.
    """
    numbers = {buffer.key: k for k, buffer in enumerate(first.captured.buffers)}
    found: dict[int, int] = {}
    name = held_digest()
    compared: list[int] = []
    pairs: list[staging.Piece] = []
    whole = COMPARED_WHOLE
    for k, buffer in enumerate(buffers):
        if buffer.private:
            continue
        size, version = buffer.nbytes, buffer.version
        whole -= size
        at = numbers.get(buffer.key)
        if at is None or version is None:
            continue
        before = first.captured.buffers[at]
        if before.nbytes != size or before.version != version:
            continue
        chunk, address = first.chunks.get(at), first.addresses.get(at)
        if chunk is not None and name is not None:  # half of the memory is looked at that a comparison with the copy takes
            if buffer.address and name(buffer.address, size) == chunk[0]:
                found[k] = at
        elif address is not None and size < _SAMPLED:
            if buffer.address:
                found[k] = at
                compared.append(k)
                pairs.append((buffer.address, address, size))
        elif _is_as_before(first, at, buffer, whole=whole >= 0):
            found[k] = at
    for place in staging.unequal(pairs):
        del found[compared[place]]
    return found


def _is_as_before(first: Job, at: int, buffer: Any, *, whole: bool) -> bool:
    staged = first.staged.get(at)
    if staged is None:
        return at in first.expected or at in first.same_as
    if buffer.address == 0 or first.held_since is not None:  # for want of memory there is no copy: it would be compared with itself
        return False
    return staging.same(buffer, staged) if whole or buffer.nbytes < _SAMPLED else staging.alike(buffer, staged)
