"""The index of a pack: which chunks lie where in it. Bytes in, facts out, and the names of the files.

`objects/packs/<id>.pack` holds chunks one behind the other; `<id>.index` lists them and is published after it: a pack
without an index is garbage. While gc looks at a pack its index is called `<id>.condemned`: it can be read from, but
nothing new may rely on it. `<id>.damaged` names chunks that were found damaged (`damaged`; `docs/formats/checkpoints.md`).
"""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rearview.errors import Damaged
from rearview.store.layout import Store
from rearview.store.packs.chunks import CHUNK_BYTES, DIGEST_BYTES
from rearview.store.packs.hashing import digest

MAGIC = b"RVPACK1\n"
_HEAD = struct.Struct("<8s16sQII")
"""Magic, id of the pack, its size in bytes, flags, number of entries."""
_ENTRY = struct.Struct("<16sQI")
"""Digest, offset, size."""
_CONSTANT = 1
"""Flag: chunks that nobody expects to change."""
PACK = ".pack"
INDEX = ".index"
CONDEMNED = ".condemned"
DAMAGED = ".damaged"
_ID = re.compile(r"[0-9a-f]{32}")

Entry = tuple[bytes, int, int]
"""Digest, offset, size."""


@dataclass(frozen=True, slots=True)
class PackIndex:
    """What one index says."""

    pack: str
    """The id: 32 hexadecimal digits drawn at random, so that a pack's name never comes again."""
    size_bytes: int
    constant: bool
    raw: bytes
    """The entries as they lie on disk: compact while many indexes are in memory."""

    def __len__(self) -> int:
        return len(self.raw) // _ENTRY.size

    def __iter__(self) -> Iterator[Entry]:
        return _ENTRY.iter_unpack(self.raw)

    @property
    def chunk_bytes(self) -> int:
        """Of all chunks together."""
        return sum(size for _, _, size in self)

    def encode(self) -> bytes:
        """As bytes of a file, with its checksum at the end."""
        head = _HEAD.pack(MAGIC, bytes.fromhex(self.pack), self.size_bytes, _CONSTANT if self.constant else 0, len(self))
        return head + self.raw + digest(head + self.raw)


def make(pack: str, size_bytes: int, entries: Iterable[Entry], *, constant: bool) -> PackIndex:
    """An index of these entries."""
    return PackIndex(pack, size_bytes, constant, b"".join(itertools.starmap(_ENTRY.pack, entries)))


def decode(data: bytes, pack: str) -> PackIndex:
    """The index of a file; `Damaged` if its bytes are not those of this pack's index."""
    if len(data) < _HEAD.size + DIGEST_BYTES or digest(data[:-DIGEST_BYTES]) != data[-DIGEST_BYTES:]:
        raise Damaged(f"the index of pack {pack} is damaged: its checksum does not fit; restore {pack}{INDEX} from a copy")
    magic, identity, size_bytes, flags, count = _HEAD.unpack_from(data)
    raw = data[_HEAD.size : -DIGEST_BYTES]
    if magic != MAGIC or identity.hex() != pack or len(raw) != count * _ENTRY.size:
        raise Damaged(f"the index of pack {pack} is another pack's, or of another format; restore {pack}{INDEX} from a copy")
    index = PackIndex(pack, size_bytes, bool(flags & _CONSTANT), raw)
    if any(size > CHUNK_BYTES or offset + size > size_bytes for _, offset, size in index):
        raise Damaged(f"the index of pack {pack} names bytes that the pack does not have; restore {pack}{INDEX} from a copy")
    return index


def new_id() -> str:
    """A name for a pack that nobody has."""
    return os.urandom(16).hex()


def folder_of(store: Store) -> Path:
    """Where packs are."""
    return store.objects / "packs"


def pack_path(store: Store, pack: str) -> Path:
    """Where the bytes of a pack are."""
    return folder_of(store) / (pack + PACK)


def index_path(store: Store, pack: str) -> Path:
    """Where the index of a pack is."""
    return folder_of(store) / (pack + INDEX)


def condemned_path(store: Store, pack: str) -> Path:
    """Where the index of a pack is while gc looks at it."""
    return folder_of(store) / (pack + CONDEMNED)


def damaged_path(store: Store, pack: str) -> Path:
    """Where it stands which chunks of a pack were found damaged."""
    return folder_of(store) / (pack + DAMAGED)


def named(name: str) -> tuple[str, str] | None:
    """(pack, suffix) of a file in the folder of packs, or None if it is none of these."""
    pack, dot, kind = name.partition(".")
    return (pack, dot + kind) if _ID.fullmatch(pack) and dot + kind in (PACK, INDEX, CONDEMNED, DAMAGED) else None


def read(path: Path) -> PackIndex:
    """The index in a file, verified."""
    return decode(path.read_bytes(), path.name.partition(".")[0])


def peek(path: Path) -> tuple[bool, int]:
    """(is it of constant chunks, how many are there) by the first bytes of an index, unverified."""
    try:
        with open(path, "rb") as file:
            _, _, _, flags, count = _HEAD.unpack(file.read(_HEAD.size))
    except (OSError, struct.error):
        return False, 0
    return bool(flags & _CONSTANT), count
