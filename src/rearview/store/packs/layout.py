"""Where chunks go in new packs, and from which memory they are written: pure arithmetic over addresses and sizes.

What lies in memory one behind the other from a page on, and is not tiny, is written straight from there, in blocks of many
chunks; its offset in the pack is a page's. Everything else is copied through a small buffer and lies close together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rearview.store.direct import PAGE, up
from rearview.store.packs.index import Entry

PACK_BYTES = 256 << 20
"""About the size of a pack: large enough for the disk, small enough to be dropped whole one day."""
STRAIGHT_BYTES = 64 << 10
"""Shorter stretches are copied: that costs less than a write of their own and the rest of a page."""


Piece = tuple[bytes, memoryview, int]
"""A new chunk: its digest, the memory it is in, and the address of that; 0 if unknown. A plain tuple: there are thousands of them."""


@dataclass(slots=True)
class Stretch:
    """Pieces that lie one behind the other in memory, from a page on."""

    pieces: list[Piece]
    size: int

    @property
    def address(self) -> int:
        """Of its first byte."""
        return self.pieces[0][2]


@dataclass(slots=True)
class PackPlan:
    """One pack to be written: the stretches first, each at a page, then everything else."""

    constant: bool
    stretches: list[Stretch] = field(default_factory=list)
    rest: list[Piece] = field(default_factory=list)

    @property
    def rest_offset(self) -> int:
        """Where the copied pieces begin."""
        return sum(up(stretch.size) for stretch in self.stretches)

    @property
    def size_bytes(self) -> int:
        """Of the file: whole pages."""
        return self.rest_offset + up(sum(view.nbytes for _, view, _ in self.rest))

    def entries(self) -> Iterator[Entry]:
        """What the index will list."""
        start = 0
        for stretch in self.stretches:
            at = start
            for digest, view, _ in stretch.pieces:
                size = view.nbytes
                yield digest, at, size
                at += size
            start += up(stretch.size)
        at = start
        for digest, view, _ in self.rest:
            size = view.nbytes
            yield digest, at, size
            at += size


def plan(pieces: Sequence[Piece], *, constant: bool, pack_bytes: int = PACK_BYTES) -> list[PackPlan]:
    """The packs for these pieces, in order."""
    packs: list[PackPlan] = []
    for group in _groups(pieces, pack_bytes):
        pack = PackPlan(constant)
        for stretch in _stretches(group):
            if stretch.address % PAGE == 0 and stretch.address and stretch.size >= STRAIGHT_BYTES:
                pack.stretches.append(stretch)
            else:
                pack.rest += stretch.pieces
        packs.append(pack)
    return packs


def _groups(pieces: Sequence[Piece], pack_bytes: int) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        if group and size + piece[1].nbytes > pack_bytes:
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece[1].nbytes
    if group:
        yield group


def _stretches(pieces: Sequence[Piece]) -> Iterator[Stretch]:
    stretch: Stretch | None = None
    end = 0
    for piece in pieces:
        _, view, address = piece
        size = view.nbytes
        if stretch is not None and address and address == end:
            stretch.pieces.append(piece)
            stretch.size += size
        else:
            if stretch is not None:
                yield stretch
            stretch = Stretch([piece], size)
        end = address + size
    if stretch is not None:
        yield stretch
