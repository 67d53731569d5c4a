"""Memory seen through NumPy and through torch at once: a tensor made from part of an array is a view of that array's memory.

Each library knows only its own allocation. After the walk, an allocation that lies inside another is described as a part of it.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import sys
from collections.abc import Hashable, Iterable
from typing import Any

from rearview.state.regions import Region
from rearview.state.take.walk import Walk

_MEMORY_AT = {"tensor": 2, "quantized": 2, "nparray": 2}
_OFFSET_AT = {"tensor": 6, "quantized": 4, "nparray": 6}


_Range = tuple[int, int, int]
"""Where an allocation begins, its size below zero (of those that begin together the longer comes first), its node."""


def merge(walk: Walk) -> None:
    """Describe memory that lies inside other memory by that."""
    if walk.region is not None and _lies_apart(walk, walk.region):
        return
    inside = _inside(walk)
    if not inside:
        return
    walk.region = None  # what is described otherwise is not what other states have
    for number, (kind, payload) in enumerate(walk.nodes):
        at = _MEMORY_AT.get(kind)
        found = inside.get(payload[at]) if at is not None else None
        if at is None or found is None:
            continue
        outer, distance = found
        size = 1 if kind == "nparray" else _itemsize(walk, payload[1])
        if distance % size:
            continue
        changed = list(payload)
        changed[at] = outer
        changed[_OFFSET_AT[kind]] = walk.slot(walk.nodes[payload[_OFFSET_AT[kind]]][1] + distance // size)
        walk.nodes[number] = (kind, tuple(changed))
    _drop_unused(walk, inside)


def _ranges(memory: Iterable[tuple[Hashable, int]]) -> list[_Range]:
    return sorted((key[1], -key[2], number) for key, number in memory if isinstance(key, tuple) and key[0] == "cpu")


def _lies_apart(walk: Walk, region: Region) -> bool:
    """Whether nothing overlaps, by what is known of what was taken over."""
    known = region.once("ranges", lambda: _apart(_ranges(itertools.islice(walk.buffer_nodes.items(), region.memory))))
    others = _apart(_ranges(itertools.islice(walk.buffer_nodes.items(), region.memory, None)))
    if known is None or others is None:
        return False
    begins, ends = known
    for begin, end in zip(*others, strict=True):
        at = bisect.bisect_right(begins, begin)
        if (at and ends[at - 1] > begin) or (at < len(begins) and begins[at] < end):
            return False
    return True


def _apart(ranges: list[_Range]) -> tuple[list[int], list[int]] | None:
    """Where they begin and where they end; None if some overlap."""
    begins, ends = [begin for begin, _, _ in ranges], [begin - negative for begin, negative, _ in ranges]
    return (begins, ends) if all(map(operator.le, ends, begins[1:])) else None


def _inside(walk: Walk) -> dict[int, tuple[int, int]]:
    """Node of memory to the node of what it lies in, and how far from its beginning."""
    found: dict[int, tuple[int, int]] = {}
    group: list[tuple[int, int, int]] = []
    high = 0
    for begin, negative, number in [*_ranges(walk.buffer_nodes.items()), (1 << 64, 0, -1)]:
        if begin >= high:
            if len(group) > 1:
                found |= _parts(walk, group, high)
            group = []
        group.append((begin, begin - negative, number))
        high = max(high, begin - negative)
    return found


def _parts(walk: Walk, group: list[tuple[int, int, int]], high: int) -> dict[int, tuple[int, int]]:
    """Memory that overlaps: in the one that has it all, or in all of it together."""
    low, end, outer = group[0]
    if end >= high:
        return {number: (outer, begin - low) for begin, _, number in group[1:]}
    owners = [_owner(walk, number) for _, _, number in group]
    whole = walk.buffer(("cpu", low, high - low), high - low, owners, low)
    return {number: (whole, begin - low) for begin, _, number in group}


def _owner(walk: Walk, number: int) -> object:
    kind, index = walk.nodes[number]
    return walk.buffers[index].owner if kind == "buffer" else None


def _itemsize(walk: Walk, layout: int) -> int:
    torch: Any = sys.modules["torch"]
    dtype = getattr(torch, walk.nodes[walk.nodes[layout][1][0]][1])
    return int(dtype.itemsize)


def _drop_unused(walk: Walk, inside: dict[int, tuple[int, int]]) -> None:
    """Nothing of it needs to be kept: the bytes are in the outer memory."""
    used = {payload[_MEMORY_AT[kind]] for kind, payload in walk.nodes if kind in _MEMORY_AT}
    for number in inside:
        kind, index = walk.nodes[number]
        if number not in used and kind == "buffer":
            buffer = walk.buffers[index]
            buffer.nbytes = walk.tree.buffers[index] = 0
            buffer.key = ("part", buffer.key)
