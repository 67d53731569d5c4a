"""Any value as text, for columns and files that hold text only: the same text that CSV has (`docs/reference/cli.md`).

Text stays as it is, numbers and moments are written plainly, everything else is JSON. Nothing is shortened. Pure.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from rearview.model import ArraySummary

_PRINTABLE_BITS = 10_000
"""Python refuses to print an int of more than 4300 digits, and takes long for it; hexadecimal is neither."""


def as_text(value: object) -> str:
    """A value as CSV shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return digits(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(plain(value))
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return json.dumps(plain(value))


def digits(value: int) -> str:
    """An int of any size."""
    return str(value) if value.bit_length() < _PRINTABLE_BITS else hex(value)


def microseconds(value: dt.timedelta) -> int:
    """The whole of a duration."""
    return (value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds


def plain(value: Any, huge: Callable[[int], object] = hex) -> Any:
    """A value in JSON's own types; `docs/reference/cli.md` has the table. `huge` makes something of an int that Python would not print."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if value.bit_length() < _PRINTABLE_BITS else huge(value)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [plain(item, huge) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [plain(item, huge) for item in value]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: plain(item, huge) for key, item in value.items()}
        return {"$dict": [[plain(key, huge), plain(item, huge)] for key, item in value.items()]}
    return _tagged(value)


def _tagged(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dt.datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, dt.date):
        return {"$date": value.isoformat()}
    if isinstance(value, dt.time):
        return {"$time": value.isoformat()}
    if isinstance(value, dt.timedelta):
        return {"$timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, complex):
        return {"$complex": [plain(value.real), plain(value.imag)]}
    if isinstance(value, ArraySummary):
        return f"{value.kind} {value.dtype} {'x'.join(map(str, value.shape))}"
    return {"$cell": value.as_json()} if hasattr(value, "as_json") else str(value)
