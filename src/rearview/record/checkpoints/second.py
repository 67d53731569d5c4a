"""The second part of a checkpoint against the first, a moment before: which memory is still what was copied then."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rearview.record.checkpoints import staging
from rearview.record.checkpoints.jobs import Job
from rearview.state.buffers import LiveBuffer
from rearview.state.capture import Captured
from rearview.store.packs.hashing import held_digest

LOOKED_AT = 64 << 20
"""So much of large buffers the kernel is to watch between the parts, or where it does not, is compared byte by byte with the first part: a
few milliseconds. All of a GB would take as long as the copy."""
_LARGE = 1 << 20
"""Smaller buffers are compared byte by byte whatever there is: that takes no longer than a sample of them, or than to watch them."""


def worth_watching(first: Job, rests: Callable[[LiveBuffer], bool], uncounted: Callable[[], bool]) -> list[int]:
    """Which of the buffers that were copied for the first part the kernel is to watch until the second: large ones.

    To watch a buffer costs nearly as much as to copy it. So where there are more than are watched in a few milliseconds, and the program's
    source has no write that torch does not count, the largest are left to samples (`as_in_first`), what optimizers remember first.
    """
    buffers = first.captured.buffers
    copied = [k for k in first.addresses if k not in first.watches]
    large = [k for k in copied if buffers[k].address and buffers[k].nbytes >= _LARGE and rests(buffers[k])]
    left_out = _too_much({k: buffers[k].nbytes for k in large}, LOOKED_AT, first.captured, uncounted)
    return [k for k in large if k not in left_out]


def where_they_were(first: Job, captured: Captured) -> set[int]:
    """Which of the watched buffers of the first part are still at their places. That of others was given back: it is not to be touched."""
    now = {buffer.key: (buffer.address, buffer.nbytes) for buffer in captured.buffers}
    then = [(k, first.captured.buffers[k]) for k in (*first.watched, *first.watches)]
    return {k for k, buffer in then if now.get(buffer.key) == (buffer.address, buffer.nbytes)}


def _too_much(sizes: Mapping[int, int], most: int, captured: Captured, uncounted: Callable[[], bool]) -> set[int]:
    """Which buffers are left to samples, where there is more than so many bytes: the largest, what optimizers remember before others."""
    if sum(sizes.values()) <= most or uncounted():
        return set()
    theirs, left, found = captured.remembered_by_optimizers(sizes), most, set[int]()
    for k in sorted(sizes, key=lambda k: (k in theirs, sizes[k])):
        left -= sizes[k]
        if left < 0:
            found.add(k)
    return found


def as_in_first(
    first: Job, captured: Captured, unwritten: Mapping[int, bool], rests: Callable[[LiveBuffer], bool], uncounted: Callable[[], bool]
) -> dict[int, int]:
    """Which buffers are what they were a moment ago, at the end of the nested block, and their numbers there. Of some the kernel knows
    (`unwritten`, by the numbers); of the others torch counted no write, and the copy agrees.

    They are compared byte by byte (small ones by hash), for there are writes that torch does not count (`p.data`). Where there is more
    of large ones than can be looked at in a few milliseconds, and the program's source has no such write (`uncounted`), some are compared
    by a sample from each page, what optimizers remember first: they write all of it at once, and so does what libraries do in this way.
    What is known to be written between the parts (not `rests`), and what nobody counts, is looked at anew.
    """
    numbers = {buffer.key: k for k, buffer in enumerate(first.captured.buffers)}
    found: dict[int, int] = {}
    small: list[tuple[int, staging.Piece]] = []
    large: list[tuple[int, staging.Piece]] = []
    name = held_digest()
    for k, buffer in enumerate(captured.buffers):
        if buffer.private:
            continue
        size, version = buffer.nbytes, buffer.version
        at = numbers.get(buffer.key)
        if at is None:
            continue
        before = first.captured.buffers[at]
        if before.nbytes != size or before.version != version:  # writes of a device are counted, and not seen by the kernel
            continue
        is_unwritten = unwritten.get(at)
        if is_unwritten is not None:
            if is_unwritten and before.address == buffer.address:
                found[k] = at
            continue
        if version is None or (size >= _LARGE and not rests(buffer)):
            continue
        chunk, address = first.chunks.get(at), first.addresses.get(at)
        if chunk is not None and name is not None:  # half of the memory is looked at that a comparison with the copy takes
            if buffer.address and name(buffer.address, size) == chunk[0]:
                found[k] = at
        elif address is not None and buffer.address:
            found[k] = at
            (small if size < _LARGE else large).append((k, (buffer.address, address, size)))
        elif at not in first.staged and (at in first.expected or at in first.same_as):  # what is staged without a copy is itself
            found[k] = at
    for k in _others(small, large, first, captured, found, uncounted):
        del found[k]
    return found


def _others(
    small: list[tuple[int, staging.Piece]], large: list[tuple[int, staging.Piece]], first: Job, captured: Captured, found: dict[int, int],
    uncounted: Callable[[], bool],
) -> list[int]:  # fmt: skip
    """Which of these buffers hold something else than their copies."""
    sampled = _too_much({k: size for k, (_, _, size) in large}, 0 if first.watched else LOOKED_AT, captured, uncounted)
    whole = [one for one in large if one[0] not in sampled]
    return [
        *(small[place][0] for place in staging.unequal([piece for _, piece in small])),
        *(whole[place][0] for place in staging.unequal_large([piece for _, piece in whole])),
        *(k for k in sampled if not staging.alike(captured.buffers[k], first.staged[found[k]])),
    ]
