"""Plain data: whether something is that, a copy of it, and a short name for it."""

from __future__ import annotations

from typing import Any

import xxhash

from rearview.errors import Unstorable
from rearview.store import encoding


def storable(value: Any) -> Any:
    """The value, if it can be kept as plain data, else None."""
    try:
        encoding.encode(value)
    except Unstorable:
        return None
    return value


def copy(value: Any) -> Any:
    """A deep copy of plain data; None if it is anything else, or would come back as another type."""
    try:
        copied = encoding.decode(encoding.encode(value))
    except Unstorable:
        return None
    return copied if _same_types(value, copied) else None


def _same_types(value: Any, copied: Any) -> bool:
    if type(value) is not type(copied):
        return False
    if isinstance(value, dict):
        return all(map(_same_types, value.keys(), copied.keys())) and all(map(_same_types, value.values(), copied.values()))
    return not isinstance(value, (list, tuple)) or all(map(_same_types, value, copied))


def digest(value: Any) -> str:
    """A short name for plain data."""
    return xxhash.xxh3_128_hexdigest(encoding.encode(value))
