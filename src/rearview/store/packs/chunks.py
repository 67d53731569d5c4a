"""What a chunk is: a piece of a buffer, named by the hash of its bytes. Pure.

A buffer is cut every `CHUNK_BYTES`; its last chunk is shorter. The digest of a buffer is taken over the digests of its
chunks, so two buffers have one digest exactly when they have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rearview.errors import Damaged

CHUNK_BYTES = 1 << 20
DIGEST_BYTES = 16


class ChunkRef(NamedTuple):
    """A chunk by name."""

    digest: bytes
    size: int


def digest(view: memoryview | bytes) -> bytes:
    """xxh3-128 of bytes.

    By way of the object: it gives other threads the interpreter while it runs in every release of the library, the
    function of the same name only in late ones. 1 MiB takes 0.1 ms.
    """
    import xxhash

    return xxhash.xxh3_128(view).digest()


def buffer_digest(refs: Iterable[ChunkRef]) -> str:
    """The digest of a whole buffer, in hexadecimal digits."""
    return digest(b"".join(ref.digest for ref in refs)).hex()


def refs_of(size_bytes: int, digests: Sequence[str]) -> list[ChunkRef]:
    """The chunks of a buffer of that size from their hexadecimal names; `Damaged` if these are not so many names."""
    count = -(-size_bytes // CHUNK_BYTES)
    if len(digests) != count:
        raise Damaged(f"a buffer of {size_bytes} bytes has {count} chunks, and {len(digests)} are named")
    refs = []
    for k, text in enumerate(digests):
        raw = bytes.fromhex(text) if len(text) == 2 * DIGEST_BYTES else b""
        if len(raw) != DIGEST_BYTES:
            raise Damaged(f"{text!r} is not the name of a chunk")
        refs.append(ChunkRef(raw, min(CHUNK_BYTES, size_bytes - k * CHUNK_BYTES)))
    return refs
