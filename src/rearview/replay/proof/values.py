"""Two logged values: the same bit for bit, or how far apart. Pure; imports no framework: of arrays it knows what their records say."""

from __future__ import annotations

import math

from rearview.errors import Damaged
from rearview.model import ArraySummary
from rearview.store.encoding import decode, encode

_SMALL = 1e-3
"""Next to the largest value of its name, a value counts as at least this much: a difference near zero means little."""


def same_value(before: bytes, after: bytes) -> bool:
    """Equal bit for bit: NaN payloads, the sign of zero, int or float. Of an array its bytes, dtype and shape count, not the summary."""
    if before == after:
        return True
    if b"xxh3-" not in before or b"xxh3-" not in after:
        return False
    return _key(decoded(before)) == _key(decoded(after))


def _key(value: object) -> object:
    if isinstance(value, ArraySummary):
        return "array", value.kind, value.dtype, value.shape, value.object_key
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_key(item) for item in value]
    if isinstance(value, dict):
        return "dict", [(_key(key), _key(item)) for key, item in value.items()]
    return encode(value)


def relative_difference(before: object, after: object, scale: float = 0.0) -> float:
    """How far apart two values are, next to their size; infinite where that cannot be said."""
    if isinstance(before, ArraySummary) and isinstance(after, ArraySummary) and (before.dtype, before.shape) == (after.dtype, after.shape):
        pairs = [(before.minimum, after.minimum), (before.maximum, after.maximum), (before.mean, after.mean)]
        size = max((finite(number) for pair in pairs for number in pair), default=0.0)
        return max(relative_difference(one, other, size / _SMALL) if one != other else 0.0 for one, other in pairs)
    if not _is_number(before) or not _is_number(after):
        return math.inf
    one, other = float(before), float(after)  # type: ignore[arg-type]
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    if not math.isfinite(one) or not math.isfinite(other):
        return math.inf
    return abs(one - other) / max(abs(one), abs(other), scale * _SMALL)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and (isinstance(value, float) or abs(value) < 1 << 1000)


def finite(value: object) -> float:
    """The size of a number; 0 for whatever has none."""
    return abs(float(value)) if _is_number(value) and math.isfinite(float(value)) else 0.0  # type: ignore[arg-type]


def decoded(value: bytes) -> object:
    """A value from a record; its bytes if they are not what was written."""
    try:
        return decode(value)
    except Damaged:
        return value


def shown(value: object) -> str:
    """A value for a sentence: exact, and short."""
    if isinstance(value, ArraySummary):
        return f"{value.kind} {value.dtype}[{', '.join(map(str, value.shape))}] {value.object_key[5:13]}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
