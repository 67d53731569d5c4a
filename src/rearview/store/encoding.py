"""Values to bytes and back, exactly: the tagged encoding of `docs/formats/values.md`.

NaN keeps its payload, -0.0 its sign, integers any size, text its lone surrogates. What has no tag raises `Unstorable`:
nothing is ever stored as something else. Subclasses are stored as their base type, and only where the two are equal: a
date type with nanoseconds, or a dict whose keys would fall together, is refused. Decoding runs no code, allocates no
more than the bytes at hand explain, and raises `Damaged` on anything malformed.
"""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any

from rearview.errors import Damaged, Unstorable
from rearview.model import ArraySummary
from rearview.store import moments

MAX_DEPTH = 64
MAX_BYTES = 1 << 30
"""Larger values do not fit one write call, and belong into an array."""
MAX_ITEMS = 10_000_000
"""A few lists that hold each other many times over would otherwise grow without end."""

_F64 = struct.Struct("<d")
_I64 = struct.Struct("<q")
_U32 = struct.Struct("<I")
_C128 = struct.Struct("<dd")
_DELTA = struct.Struct("<iII")

_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1

_PLAIN_KEYS = frozenset({str, int, float, bool, bytes, type(None)})

_SUMMARY_FIELDS = (
    "kind", "dtype", "shape", "minimum", "maximum", "mean", "nan_count", "histogram", "object_key", "size_bytes", "details",
)  # fmt: skip


def encode(value: object) -> bytes:
    """The bytes of a value.

    >>> encode(1.5)
    b'f\\x00\\x00\\x00\\x00\\x00\\x00\\xf8?'
    >>> decode(encode({"a": [1, None, 10**30]}))
    {'a': [1, None, 1000000000000000000000000000000]}
    """
    if type(value) is float:  # most records
        return b"f" + _F64.pack(value)
    writer = _Writer()
    try:
        writer.add(value, 0)
    except RecursionError:
        raise Unstorable(f"{type_name(value)} is nested too deep for the stack that is left; flatten it") from None
    return b"".join(writer.out)


def type_name(value: object) -> str:
    """`module.Class` of a value, the way messages name it."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class _Writer:
    """The pieces of one value, and how much they are."""

    __slots__ = ("open", "out", "size_bytes")

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.size_bytes = 0
        self.open: set[int] = set()
        """Containers that are being written: meeting one again is a cycle."""

    def data(self, tag: bytes, data: bytes) -> None:
        self.size_bytes += len(data)
        if self.size_bytes > MAX_BYTES:
            raise Unstorable(f"a value of more than {MAX_BYTES} bytes; log it as an array, or write a file and log its name")
        self.out.append(tag + _U32.pack(len(data)))
        self.out.append(data)

    def text(self, tag: bytes, text: str) -> None:
        self.data(tag, str.encode(text, "utf-8", "surrogatepass"))

    def add(self, value: object, depth: int) -> None:  # one branch per tag
        if value is None:
            self.out.append(b"n")
        elif value is True:
            self.out.append(b"T")
        elif value is False:
            self.out.append(b"F")
        elif isinstance(value, float):
            self.out.append(b"f" + _F64.pack(value))
        elif isinstance(value, int):
            self.integer(int.__index__(value))  # the number itself, whatever a subclass makes of int()
        elif isinstance(value, str):
            self.text(b"s", value)
        elif isinstance(value, (bytes, bytearray)):
            self.data(b"b", value if type(value) is bytes else bytes(memoryview(value)))
        elif isinstance(value, complex):
            self.out.append(b"c" + _C128.pack(value.real, value.imag))
        elif isinstance(value, (dt.date, dt.time, dt.timedelta)):
            self.when(value)
        elif isinstance(value, (list, tuple, dict)):
            self.container(value, depth)
        elif isinstance(value, ArraySummary):
            self.out.append(b"o")
            self.container([getattr(value, name) for name in _SUMMARY_FIELDS], depth + 1)
        else:
            raise Unstorable(type_name(value))

    def integer(self, number: int) -> None:
        if _I64_MIN <= number <= _I64_MAX:
            self.out.append(b"i" + _I64.pack(number))
        else:
            self.data(b"I", number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True))

    def container(self, value: list[Any] | tuple[Any, ...] | dict[Any, Any], depth: int) -> None:
        items = list(value.items() if isinstance(value, dict) else value)  # a copy: another thread may go on appending
        if depth >= MAX_DEPTH:
            raise Unstorable(f"a {type_name(value)} nested more than {MAX_DEPTH} deep; flatten it")
        if len(self.out) + len(items) > MAX_ITEMS:
            raise Unstorable(f"a {type_name(value)} with more than {MAX_ITEMS} parts; log it as an array")
        if id(value) in self.open:
            raise Unstorable(f"a {type_name(value)} that contains itself; log the parts")
        self.open.add(id(value))
        tag = b"m" if isinstance(value, dict) else b"l" if isinstance(value, list) else b"u"
        self.out.append(tag + _U32.pack(len(items)))
        if isinstance(value, dict):
            self.pairs(items, depth, type_name(value))
        else:
            for item in items:
                self.add(item, depth + 1)
        self.open.discard(id(value))

    def pairs(self, items: list[tuple[Any, Any]], depth: int, name: str) -> None:
        special: list[bytes] = []
        for key, item in items:
            before = len(self.out)
            self.add(key, depth + 1)
            if type(key) not in _PLAIN_KEYS:
                special.append(b"".join(self.out[before:]))
            self.add(item, depth + 1)
        if special:
            # a key of a subclass may differ from another key that has the same bytes
            plain = [key for key, _ in items if type(key) in _PLAIN_KEYS]
            if len({*plain, *(decode(key) for key in special)}) != len(items):
                raise Unstorable(f"a {name} with keys that are equal once they are plain values; log it with text keys")

    def when(self, value: dt.date | dt.time | dt.timedelta) -> None:
        try:
            plain = moments.plain(value)
            same = type(plain) is type(value) or bool(plain == value)
            written, zone = (plain.isoformat(), moments.zone_key(plain)) if not isinstance(plain, dt.timedelta) else ("", "")
        except Exception as problem:  # a tzinfo or a subclass is the user's code
            raise Unstorable(f"{type_name(value)} is not a date that can be kept: {problem}") from problem
        if not same:
            raise Unstorable(f"{type_name(value)} holds more than a plain date or duration does; log its text or a whole number")
        if isinstance(plain, dt.timedelta):
            self.out.append(b"d" + _DELTA.pack(plain.days, plain.seconds, plain.microseconds))
        elif isinstance(plain, (dt.datetime, dt.time)):
            self.moment(plain, written, zone)
        else:
            self.text(b"D", written)

    def moment(self, value: dt.datetime | dt.time, written: str, zone: str) -> None:
        if not moments.comes_back(value, written, zone):
            raise Unstorable(f"a {type_name(value)} whose time zone ({type_name(value.tzinfo)}) cannot be kept; convert it to UTC")
        self.out.append((b"M" if isinstance(value, dt.datetime) else b"t") + (b"\x01" if value.fold else b"\x00"))
        self.text(b"s", written)
        self.text(b"s", zone)


def decode(data: bytes) -> Any:
    """The value of bytes made by `encode`; `Damaged` if they were not."""
    try:
        value, end = _decode(data, 0, 0)
    except (struct.error, IndexError, ValueError, OverflowError, TypeError, RecursionError) as problem:
        raise Damaged(f"a stored value cannot be read: {problem}; run `rearview check`") from problem
    if end != len(data):
        raise Damaged(f"a stored value has {len(data) - end} bytes too many; run `rearview check`")
    return value


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:  # noqa: PLR0911, PLR0912 (one branch per tag)
    tag = data[at : at + 1]
    at += 1
    if tag == b"f":
        return _F64.unpack_from(data, at)[0], at + 8
    if tag == b"i":
        return _I64.unpack_from(data, at)[0], at + 8
    if tag == b"s":
        return _decode_text(data, at)
    if tag == b"n":
        return None, at
    if tag == b"T":
        return True, at
    if tag == b"F":
        return False, at
    if tag in (b"l", b"u", b"m"):
        return _decode_container(data, at, depth, tag)
    if tag == b"c":
        return complex(*_C128.unpack_from(data, at)), at + 16
    if tag == b"d":
        return dt.timedelta(*_DELTA.unpack_from(data, at)), at + _DELTA.size
    if tag in (b"M", b"t"):
        return _decode_moment(data, at, tag)
    if tag == b"o":
        fields, at = _decode(data, at, depth + 1)
        return _summary(fields), at
    if tag == b"D":
        text, at = _decode_text(data, at)
        day = dt.date.fromisoformat(text)
        if day.isoformat() != text:
            raise ValueError("a date in another form")
        return day, at
    if tag not in (b"b", b"I"):
        raise ValueError(f"unknown tag {tag!r}")
    raw, at = _take(data, at)
    return (raw if tag == b"b" else int.from_bytes(raw, "little", signed=True)), at


def _take(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _U32.unpack_from(data, at)
    end = at + 4 + size
    if end > len(data):
        raise ValueError("too short")
    return data[at + 4 : end], end


def _decode_text(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _take(data, at)
    return raw.decode("utf-8", "surrogatepass"), at


def _decode_container(data: bytes, at: int, depth: int, tag: bytes) -> tuple[Any, int]:
    (count,) = _U32.unpack_from(data, at)
    at += 4
    if depth >= MAX_DEPTH:
        raise ValueError("nested too deep")
    wanted = count * 2 if tag == b"m" else count
    if wanted > len(data) - at:  # each item takes a byte at least
        raise ValueError("too short")
    items: list[Any] = []
    for _ in range(wanted):
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    if tag == b"l":
        return items, at
    if tag == b"u":
        return tuple(items), at
    pairs = dict(zip(items[::2], items[1::2], strict=True))
    if len(pairs) != count:
        raise ValueError("a key twice")
    return pairs, at


def _decode_moment(data: bytes, at: int, tag: bytes) -> tuple[Any, int]:
    fold = data[at]
    if data[at + 1 : at + 2] != b"s":
        raise ValueError("a date without text")
    text, at = _decode_text(data, at + 2)
    if data[at : at + 1] != b"s":
        raise ValueError("a date without a zone")
    zone, at = _decode_text(data, at + 1)
    return moments.read(text, zone, fold, is_datetime=tag == b"M"), at


def _summary(fields: Any) -> ArraySummary:
    """Checked field by field: what is shown and loaded later trusts these types."""
    if not isinstance(fields, list) or len(fields) != len(_SUMMARY_FIELDS):
        raise ValueError("not a summary")
    summary = ArraySummary(*fields)
    texts = (summary.kind, summary.dtype, summary.object_key)
    numbers = (summary.minimum, summary.maximum, summary.mean)
    good = (
        all(isinstance(text, str) for text in texts)
        and all(number is None or type(number) in (int, float) for number in numbers)
        and isinstance(summary.shape, tuple)
        and isinstance(summary.histogram, tuple)
        and isinstance(summary.details, dict)
        and all(type(count) is int and count >= 0 for count in (*summary.shape, *summary.histogram, summary.nan_count, summary.size_bytes))
    )
    if not good:
        raise ValueError("not a summary")
    return summary
