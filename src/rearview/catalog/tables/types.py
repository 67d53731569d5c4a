"""The types a recorded value can have, and how each lies in a segment's columns.

A value is spread over (type, f, i, s, raw): numbers and clean text in typed columns for SQL; whatever those cannot hold
exactly (a NaN with a payload, an integer beyond 64 bits, text with NUL or lone surrogates, containers, arrays) also in
`raw`, in the store's own encoding. Where `raw` is set it is the value; `s` beside it is only a rendering for SQL.
Knows nothing of files or SQL statements.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from typing import Any

from rearview.catalog.tables.texts import as_text, digits
from rearview.model import ArraySummary
from rearview.store.encoding import decode

NONE, BOOL, INT, FLOAT, TEXT, BYTES, DATE, DATETIME, TIME, DURATION, COMPLEX, LIST, TUPLE, DICT, ARRAY = range(15)

TYPE_NAMES = (
    "none", "bool", "int", "float", "text", "bytes", "date", "datetime", "time", "duration", "complex", "list", "tuple", "dict", "array",
)  # fmt: skip

_TAGS = {
    ord("n"): NONE, ord("T"): BOOL, ord("F"): BOOL, ord("i"): INT, ord("I"): INT, ord("f"): FLOAT, ord("c"): COMPLEX, ord("s"): TEXT,
    ord("b"): BYTES, ord("D"): DATE, ord("M"): DATETIME, ord("t"): TIME, ord("d"): DURATION, ord("l"): LIST, ord("u"): TUPLE,
    ord("m"): DICT, ord("o"): ARRAY,
}  # fmt: skip

_F64 = struct.Struct("<d")
_I64 = struct.Struct("<q")
_PLAIN_NAN = _F64.pack(float("nan"))
_LONGEST_RENDERING = 10_000

Spread = tuple[int, str, str, str | None, bytes | None]
"""type, float as text, int as text, text, raw. Empty text means null in the numeric columns."""


def spread(encoded: bytes) -> Spread:
    """The columns of an encoded value. Raises `Damaged` if it cannot be decoded."""
    tag = encoded[:1]
    if tag == b"f" and len(encoded) == 9:
        return spread_float(encoded[1:])
    if tag == b"i" and len(encoded) == 9:
        return INT, "", str(_I64.unpack_from(encoded, 1)[0]), None, None
    value = decode(encoded)
    code = _TAGS[encoded[0]]
    if code == NONE:
        return NONE, "", "", None, None
    if code == BOOL:
        return BOOL, "", "1" if value else "0", None, None
    if code == INT:
        return INT, repr(_near_float(value)), "", digits(value), encoded
    if code == TEXT and _clean(value):
        return TEXT, "", "", value, None
    return code, "", "", shown(value), encoded


def spread_float(data: bytes) -> Spread:
    """The columns of the eight bytes of a float."""
    value = _F64.unpack(data)[0]
    if value != value:
        return FLOAT, "nan", "", None, None if data == _PLAIN_NAN else b"f" + data
    return FLOAT, repr(value), "", None, None


def _near_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _clean(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean_text(text: str) -> str:
    """Text as SQL can hold it: NUL and lone surrogates as escapes."""
    return text if _clean(text) else text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def shown(value: object) -> str:
    """A rendering of any value for SQL and exports that hold text only."""
    if isinstance(value, ArraySummary):
        text = f"{value.kind} {value.dtype} {'x'.join(map(str, value.shape)) or 'scalar'}"
    elif isinstance(value, str):
        text = value
    elif isinstance(value, (dt.date, dt.time)):
        text = value.isoformat()
    elif isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, int) and not isinstance(value, bool):
        text = digits(value)
    elif isinstance(value, (list, tuple, dict)):
        text = as_text(value)
    else:
        text = str(value)
    return clean_text(text[:_LONGEST_RENDERING])


def gather(code: int | None, f: float | None, i: int | None, s: str | None, raw: bytes | None) -> Any:
    """The value of a row's columns; the reverse of `spread`."""
    if raw is not None:
        return decode(bytes(raw))
    if code is None or code == NONE:
        return None
    if code == FLOAT:
        return f
    if code == INT:
        return i
    if code == BOOL:
        return bool(i)
    return s


def type_name(codes: Sequence[int]) -> str:
    """What a column of these types is called: one word, or `mixed`; None is null, not a type."""
    kinds = [code for code in codes if code != NONE]
    if not kinds:
        return "none"
    return TYPE_NAMES[kinds[0]] if len(kinds) == 1 else "mixed"


def mixture(counts: dict[int, int]) -> str | None:
    """`float (98), int (2)` for a column of several types."""
    kinds = {code: count for code, count in counts.items() if code != NONE and count}
    if len(kinds) < 2:
        return None
    ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{TYPE_NAMES[code]} ({count})" for code, count in ordered)
