"""Values to bytes and back, exactly: the tagged encoding of `docs/formats/values.md`.

NaN keeps its payload, -0.0 its sign, integers any size, text its lone surrogates. What has no tag raises `Unstorable`:
nothing is ever stored as something else. Decoding runs no code and raises `Damaged` on anything malformed.
"""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any

from rearview.errors import Damaged, Unstorable
from rearview.model import ArraySummary

MAX_DEPTH = 64

_F64 = struct.Struct("<d")
_I64 = struct.Struct("<q")
_U32 = struct.Struct("<I")
_C128 = struct.Struct("<dd")
_DELTA = struct.Struct("<iII")

_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1


def encode(value: object) -> bytes:
    """The bytes of a value.

    >>> encode(1.5)
    b'f\\x00\\x00\\x00\\x00\\x00\\x00\\xf8?'
    >>> decode(encode({"a": [1, None, 10**30]}))
    {'a': [1, None, 1000000000000000000000000000000]}
    """
    out: list[bytes] = []
    _encode(value, out, 0)
    return b"".join(out)


def _text(tag: bytes, text: str, out: list[bytes]) -> None:
    data = text.encode("utf-8", "surrogatepass")
    out.append(tag + _U32.pack(len(data)))
    out.append(data)


def _encode(value: object, out: list[bytes], depth: int) -> None:  # noqa: PLR0912 (one branch per tag)
    if depth > MAX_DEPTH:
        raise Unstorable(f"nested more than {MAX_DEPTH} deep")
    if value is None:
        out.append(b"n")
    elif value is True:
        out.append(b"T")
    elif value is False:
        out.append(b"F")
    elif isinstance(value, float):
        out.append(b"f" + _F64.pack(value))
    elif isinstance(value, int):
        number = int(value)
        if _I64_MIN <= number <= _I64_MAX:
            out.append(b"i" + _I64.pack(number))
        else:
            data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
            out.append(b"I" + _U32.pack(len(data)) + data)
    elif isinstance(value, str):
        _text(b"s", value, out)
    elif isinstance(value, (bytes, bytearray)):
        out.append(b"b" + _U32.pack(len(value)))
        out.append(bytes(value))
    elif isinstance(value, complex):
        out.append(b"c" + _C128.pack(value.real, value.imag))
    elif isinstance(value, (dt.date, dt.time)):
        _encode_when(value, out)
    elif isinstance(value, dt.timedelta):
        out.append(b"d" + _DELTA.pack(value.days, value.seconds, value.microseconds))
    elif isinstance(value, (list, tuple)):
        out.append((b"l" if isinstance(value, list) else b"u") + _U32.pack(len(value)))
        for item in value:
            _encode(item, out, depth + 1)
    elif isinstance(value, dict):
        out.append(b"m" + _U32.pack(len(value)))
        for key, item in value.items():
            _encode(key, out, depth + 1)
            _encode(item, out, depth + 1)
    elif isinstance(value, ArraySummary):
        out.append(b"o")
        _encode([getattr(value, name) for name in _SUMMARY_FIELDS], out, depth + 1)
    else:
        raise Unstorable(f"{type(value).__module__}.{type(value).__qualname__}")


_SUMMARY_FIELDS = (
    "kind", "dtype", "shape", "minimum", "maximum", "mean", "nan_count", "histogram", "object_key", "size_bytes", "details",
)  # fmt: skip


def _encode_when(value: dt.date | dt.time, out: list[bytes]) -> None:
    if isinstance(value, (dt.datetime, dt.time)):
        zone = getattr(value.tzinfo, "key", None)
        naive = value.isoformat()
        out.append(b"M" if isinstance(value, dt.datetime) else b"t")
        out.append(b"\x01" if value.fold else b"\x00")
        _text(b"s", naive, out)
        _text(b"s", zone if isinstance(zone, str) else "", out)
    else:
        _text(b"D", value.isoformat(), out)


def decode(data: bytes) -> Any:
    """The value of bytes made by `encode`; `Damaged` if they were not."""
    try:
        value, end = _decode(data, 0, 0)
    except (struct.error, IndexError, ValueError, OverflowError, TypeError, RecursionError) as problem:
        raise Damaged(f"a stored value cannot be read: {problem}") from problem
    if end != len(data):
        raise Damaged(f"a stored value has {len(data) - end} bytes too many")
    return value


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise ValueError("too short")
    return data[at:end], end


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:  # noqa: PLR0911, PLR0912 (one branch per tag)
    if depth > MAX_DEPTH + 2:
        raise ValueError("nested too deep")
    tag = data[at : at + 1]
    at += 1
    if tag == b"f":
        return _F64.unpack_from(data, at)[0], at + 8
    if tag == b"i":
        return _I64.unpack_from(data, at)[0], at + 8
    if tag == b"n":
        return None, at
    if tag == b"T":
        return True, at
    if tag == b"F":
        return False, at
    if tag == b"c":
        return complex(*_C128.unpack_from(data, at)), at + 16
    if tag == b"d":
        days, seconds, micros = _DELTA.unpack_from(data, at)
        return dt.timedelta(days, seconds, micros), at + _DELTA.size
    if tag in (b"M", b"t"):
        return _decode_when(data, at, tag)
    if tag == b"o":
        fields, at = _decode(data, at, depth + 1)
        if not isinstance(fields, list) or len(fields) != len(_SUMMARY_FIELDS):
            raise ValueError("not a summary")
        return ArraySummary(*fields), at
    if tag not in (b"s", b"b", b"I", b"D", b"l", b"u", b"m"):
        raise ValueError(f"unknown tag {tag!r}")
    (count,) = _U32.unpack_from(data, at)
    at += 4
    if tag in (b"l", b"u", b"m"):
        return _decode_container(data, at, depth, tag, count)
    raw, at = _take(data, at, count)
    if tag == b"s":
        return raw.decode("utf-8", "surrogatepass"), at
    if tag == b"b":
        return raw, at
    if tag == b"I":
        return int.from_bytes(raw, "little", signed=True), at
    return dt.date.fromisoformat(raw.decode()), at


def _decode_container(data: bytes, at: int, depth: int, tag: bytes, count: int) -> tuple[Any, int]:
    if count > len(data) - at:
        raise ValueError("too short")
    items: list[Any] = []
    for _ in range(count * 2 if tag == b"m" else count):
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    if tag == b"l":
        return items, at
    if tag == b"u":
        return tuple(items), at
    return dict(zip(items[::2], items[1::2], strict=True)), at


def _decode_when(data: bytes, at: int, tag: bytes) -> tuple[Any, int]:
    fold = data[at]
    text, at = _decode(data, at + 1, 0)
    zone, at = _decode(data, at, 0)
    value = dt.datetime.fromisoformat(text) if tag == b"M" else dt.time.fromisoformat(text)
    if zone:
        value = value.replace(tzinfo=_zone(zone) or value.tzinfo)
    return value.replace(fold=fold), at


def _zone(key: str) -> dt.tzinfo | None:
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(key)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None  # the offset in the text still tells the instant
