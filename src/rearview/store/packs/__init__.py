"""Chunks of checkpoints in packs: which are there, how new ones are put, how they are read (`docs/formats/checkpoints.md`)."""

from rearview.store.packs.chunks import CHUNK_BYTES, ChunkRef, Names, buffer_digest, names_of, refs_of
from rearview.store.packs.hashing import digest
from rearview.store.packs.known import Known, Place
from rearview.store.packs.packer import Packer, Written
from rearview.store.packs.reading import ChunkReader, PackReader, read_buffer, read_into

__all__ = [
    "CHUNK_BYTES",
    "ChunkReader",
    "ChunkRef",
    "Known",
    "Names",
    "PackReader",
    "Packer",
    "Place",
    "Written",
    "buffer_digest",
    "digest",
    "names_of",
    "read_buffer",
    "read_into",
    "refs_of",
]
