"""A series as one line of block characters. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEVELS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
"""A stretch in which no value was finite."""


def draw(values: Sequence[float | None], columns: int) -> str:
    """At most `columns` characters, each the mean of its stretch of the series; NaN and infinities show as `×`.

    >>> draw([0, 1, 2, 3, 4, 5, 6, 7], 8)
    '▁▂▃▄▅▆▇█'
    """
    if not values or columns <= 0:
        return ""
    means = [_mean(stretch) for stretch in _stretches(values, columns)]
    finite = [mean for mean in means if mean is not None]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(NOT_FINITE if mean is None else LEVELS[_level(mean, low, high)] for mean in means)


def _stretches(values: Sequence[float | None], columns: int) -> list[Sequence[float | None]]:
    n = len(values)
    if n <= columns:
        return [values[k : k + 1] for k in range(n)]
    return [values[k * n // columns : (k + 1) * n // columns] for k in range(columns)]


def _mean(stretch: Sequence[float | None]) -> float | None:
    finite = [value for value in stretch if value is not None and math.isfinite(value)]
    if not finite:
        return None
    # Divided first: the sum of two large floats may overflow. Rounding may still carry it a bit too far.
    mean = sum(value / len(finite) for value in finite)
    return min(max(mean, min(finite)), max(finite))


def _level(mean: float, low: float, high: float) -> int:
    if high == low:
        return len(LEVELS) // 2 - 1
    # Scaled before subtracting: high - low may overflow when the series spans nearly all floats.
    scale = max(abs(low), abs(high))
    share = (mean / scale - low / scale) / (high / scale - low / scale)
    return min(len(LEVELS) - 1, max(0, round(share * (len(LEVELS) - 1))))
