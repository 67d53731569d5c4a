"""What a chunk is: a piece of a buffer, named by the hash of its bytes. Pure.

A buffer is cut every `CHUNK_BYTES`; its last chunk is shorter. The digest of a buffer is taken over the digests of its
chunks, so two buffers have one digest exactly when they have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rearview.errors import Damaged
from rearview.store.packs.hashing import digest

CHUNK_BYTES = 1 << 20
DIGEST_BYTES = 16


Names = tuple[bytes, ...]
"""The chunks of a buffer by name, in their order; how large each is follows from the buffer's size. Plain tuples of bytes: a program has
thousands of them while it trains, and its garbage collector would look through objects again and again."""


class ChunkRef(NamedTuple):
    """A chunk by name, with its size."""

    digest: bytes
    size: int


def buffer_digest(names: Iterable[bytes]) -> str:
    """The digest of a whole buffer, in hexadecimal digits."""
    return digest(b"".join(names)).hex()


def names_of(view: memoryview | bytes) -> Names:
    """The chunks of a buffer."""
    return tuple(digest(view[start : start + CHUNK_BYTES]) for start in range(0, len(view), CHUNK_BYTES))


def refs_of(size_bytes: int, names: Sequence[bytes]) -> list[ChunkRef]:
    """The chunks of a buffer of that size; `Damaged` if these are not so many names."""
    count = -(-size_bytes // CHUNK_BYTES)
    if len(names) != count:
        raise Damaged(f"a buffer of {size_bytes} bytes has {count} chunks, and {len(names)} are named")
    return [ChunkRef(name, min(CHUNK_BYTES, size_bytes - k * CHUNK_BYTES)) for k, name in enumerate(names)]


def parsed(texts: Iterable[str]) -> Names:
    """Chunks by their names in hexadecimal digits; `Damaged` if one is no name."""
    return tuple(map(_parsed, texts))


def _parsed(text: str) -> bytes:
    raw = bytes.fromhex(text) if len(text) == 2 * DIGEST_BYTES else b""
    if len(raw) != DIGEST_BYTES:
        raise Damaged(f"{text!r} is not the name of a chunk")
    return raw
