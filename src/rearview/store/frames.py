"""The frame: length, sequence number, checksum, payload. Pure: bytes in, facts out (`docs/formats/journal.md`).

A reader stops at a bad *tail* (a write cut short: normal) and reports a bad *middle* (damage), going on behind it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rearview.errors import Damaged
from rearview.store.encoding import decode, encode

MAGIC = b"RVJRNL1\n"
"""First bytes of every journal part; the digit is the format version."""

HEADER = struct.Struct("<III")
"""checksum over everything behind it, length of the body, sequence number within the part."""

TAIL = struct.Struct("<II")
"""The part of the header that the checksum covers: length and sequence number."""

CRC = struct.Struct("<I")

# Kinds of frame: the first byte of the body.
RECORD = 1
NAME = 2
BLOCK = 3
VALUE = 4
LEAVE = 5
FACT = 6
CLOSE = 7

RECORD_HEAD = struct.Struct("<BBIIQIQ")
"""kind, flags, name id, block id, iteration, ordinal, microseconds since the writer began; then the encoded value."""
NAME_HEAD = struct.Struct("<BI")
"""kind, name id; then the UTF-8 text (surrogates passed)."""
BLOCK_HEAD = struct.Struct("<BIIQIIBqq")
"""kind, block id, parent block id, parent iteration, name id, occurrence, affine?, first value, step."""
VALUE_HEAD = struct.Struct("<BIQ")
"""kind, block id, iteration; then the encoded value."""
LEAVE_HEAD = struct.Struct("<BIQBQ")
"""kind, block id, iterations begun, how it ended, microseconds since the writer began."""

ROOT_BLOCK = 0

VOLATILE = 1
IS_ARG = 2
ARG_GIVEN = 4

ENDINGS = ("left", "exhausted", "break", "return", "exception")
"""How a block ended. `left`: by break, return or exception, which of them is not known."""


def frame(sequence: int, body: bytes) -> bytes:
    """One frame, ready for one write call."""
    rest = TAIL.pack(len(body), sequence) + body
    return CRC.pack(zlib.crc32(rest)) + rest


def fact_body(kind: str, **facts: object) -> bytes:
    """The body of a FACT frame: everything that is rare, as an encoded dict."""
    return bytes((FACT,)) + encode({"fact": kind, **facts})


def read_fact(body: bytes) -> dict[str, Any]:
    """The dict of a FACT frame."""
    value = decode(body[1:])
    if not isinstance(value, dict) or not isinstance(value.get("fact"), str):
        raise Damaged("a fact without a name")
    return value


@dataclass(slots=True)
class Reading:
    """What a pass over the bytes of one part found besides its frames."""

    good_bytes: int = 0
    """Offset behind the last good frame."""
    torn_bytes: int = 0
    """Bytes of an unfinished last write: normal after a kill."""
    closed: bool = False
    """The writer closed this part: nothing will be added."""
    damage: list[str] = field(default_factory=list)
    """Bad middles, each as a sentence."""


def walk(data: bytes, reading: Reading, start: int = 0, expected: int = 0) -> Iterator[tuple[int, bytes]]:
    """Each good frame as (sequence number, body). `reading` is filled on the way.

    `start` and `expected` go on where an earlier pass stopped: offset and sequence number.
    """
    size = len(data)
    at = start
    if at == 0:
        if data[: len(MAGIC)] != MAGIC:
            if MAGIC.startswith(data):
                reading.torn_bytes = size
            else:
                reading.damage.append(f"does not begin as a journal of this format ({data[:8]!r})")
            return
        at = len(MAGIC)
    reading.good_bytes = at
    unpack, crc32, head = HEADER.unpack_from, zlib.crc32, HEADER.size
    while at + head < size:
        checksum, length, sequence = unpack(data, at)
        end = at + head + length
        if end <= size and length and sequence == expected and crc32(data[at + 4 : end]) == checksum:
            body = data[at + head : end]
            if body[0] == CLOSE:
                reading.closed = True
            else:
                yield sequence, body
            expected += 1
            at = end
            reading.good_bytes = at
            continue
        found = _resume(data, at, expected)
        if found is None:
            break
        reading.damage.append(f"{found - at} bytes at offset {at} are damaged")
        at = found
        expected = unpack(data, at)[2]
    reading.torn_bytes = size - at
    if reading.torn_bytes and reading.closed:
        reading.damage.append(f"{reading.torn_bytes} bytes follow the end of a closed journal")


def _resume(data: bytes, at: int, expected: int) -> int | None:
    """Where the next good frame begins behind a bad one; None if the rest is a torn tail.

    A value may itself look like frames (somebody logs a journal), so the first bytes that check out are not good enough:
    first the length of the bad frame is believed, then the frame from which everything follows to the end.
    """
    behind: int = at + HEADER.size + HEADER.unpack_from(data, at)[1]
    if _good(data, behind, expected + 1, exactly=True):
        return behind
    size = len(data)
    fallback: int | None = None
    while at + HEADER.size < size:
        if _good(data, at, expected):
            end, whole = _follow(data, at)
            if whole:
                return at
            fallback = at if fallback is None else fallback
            at = end
        else:
            at += 1
    return fallback


def _good(data: bytes, at: int, expected: int, *, exactly: bool = False) -> bool:
    if at + HEADER.size >= len(data):
        return False
    checksum, length, sequence = HEADER.unpack_from(data, at)
    end = at + HEADER.size + length
    right = sequence == expected if exactly else sequence >= expected
    return bool(right and length and end <= len(data) and zlib.crc32(data[at + 4 : end]) == checksum)


def _follow(data: bytes, at: int) -> tuple[int, bool]:
    """Where the frames from here on end, and whether that is the end of the data (or a torn tail)."""
    sequence = HEADER.unpack_from(data, at)[2]
    while _good(data, at, sequence, exactly=True):
        at += HEADER.size + HEADER.unpack_from(data, at)[1]
        sequence += 1
    rest = len(data) - at
    torn = rest <= HEADER.size or (HEADER.unpack_from(data, at)[1] > rest and HEADER.unpack_from(data, at)[2] == sequence)
    return at, torn
