"""What the table shows of an array: smallest, largest, mean, count of NaN and a small histogram.

Knows how to read numbers chunk by chunk with NumPy or torch, whichever the array came from; imports neither. Chunks stay
below the size at which torch starts its thread pool, so that a summary leaves no threads behind and never holds a
float64 copy of everything. NaN is left out of all figures but its own count; infinities count as smallest, largest and
in the mean, and are left out of the histogram. Complex numbers are summed up by their magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

BINS = 16
_CHUNK = 32_000


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one array. None where there is nothing to compare: no numbers, or none that is not NaN."""

    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    nan_count: int = 0
    histogram: tuple[int, ...] = ()


class _Numbers(Protocol):
    size: int

    def floats(self, start: int, end: int) -> Any:
        """A chunk as float64 of the library."""

    def whole(self, start: int, end: int) -> tuple[int, int] | None:
        """Smallest and largest of a chunk of integers, exactly; None for other numbers."""

    def places(self, scaled: Any) -> Any:
        """Floats in [0, BINS] as bin numbers."""

    library: Any


class _NumpyNumbers:
    def __init__(self, np: Any, flat: Any) -> None:
        self.library, self.flat, self.size = np, flat, int(flat.size)
        self.is_complex = flat.dtype.kind == "c"
        self.is_whole = flat.dtype.kind in "biu"

    def floats(self, start: int, end: int) -> Any:
        chunk = self.flat[start:end]
        return abs(chunk.astype(self.library.complex128)) if self.is_complex else chunk.astype(self.library.float64)

    def whole(self, start: int, end: int) -> tuple[int, int] | None:
        if not self.is_whole:
            return None
        chunk = self.flat[start:end]
        return int(chunk.min()), int(chunk.max())

    def places(self, scaled: Any) -> Any:
        return scaled.astype(self.library.int64).clip(max=BINS - 1)


class _TorchNumbers:
    def __init__(self, torch: Any, flat: Any) -> None:
        self.library, self.flat, self.size = torch, flat, int(flat.numel())
        self.is_complex = bool(flat.dtype.is_complex)
        self.is_whole = not self.is_complex and not flat.dtype.is_floating_point

    def floats(self, start: int, end: int) -> Any:
        torch, chunk = self.library, self.flat[start:end]
        if not self.is_complex:
            return chunk.to(torch.float64)
        half = {torch.complex32: torch.float16, torch.complex64: torch.float32}.get(chunk.dtype, torch.float64)
        pairs = chunk.view(half).reshape(-1, 2).to(torch.float64)
        return torch.hypot(pairs[:, 0], pairs[:, 1])

    def whole(self, start: int, end: int) -> tuple[int, int] | None:
        if not self.is_whole:
            return None
        torch, chunk = self.library, self.flat[start:end]
        if chunk.dtype == torch.uint64:  # torch cannot compare these: with the top bit flipped they sort as int64
            turned = chunk.view(torch.int64) ^ -(2**63)
            return int(turned.min()) + 2**63, int(turned.max()) + 2**63
        chunk = chunk.to(torch.int64)
        return int(chunk.min()), int(chunk.max())

    def places(self, scaled: Any) -> Any:
        return scaled.to(self.library.int64).clamp(max=BINS - 1)


def of_numpy(np: Any, array: Any) -> Figures:
    """The figures of a contiguous NumPy array, whatever its dtype."""
    kind, flat = array.dtype.kind, array.reshape(-1)
    if kind in "Mm":
        return Figures(nan_count=int(np.isnat(flat).sum()))
    if kind not in "biufc" and not is_extension(array.dtype):
        return Figures()
    with np.errstate(all="ignore"):
        return _figures(_NumpyNumbers(np, flat))


def is_extension(dtype: Any) -> bool:
    """Is it one of the small floats or integers that `ml_dtypes` adds to NumPy (bfloat16, float8, int4)?"""
    return getattr(dtype.type, "__module__", "") == "ml_dtypes"


def of_torch(torch: Any, tensor: Any) -> Figures:
    """The figures of a contiguous dense CPU tensor without history."""
    try:
        return _figures(_TorchNumbers(torch, tensor.reshape(-1)))
    except (NotImplementedError, RuntimeError):
        return Figures()  # packed bits and four-bit numbers: torch itself cannot read them


def of_counts(counts: Sequence[int]) -> Figures:
    """The figures of whole numbers from 0, given how often each occurs."""
    present = [value for value, count in enumerate(counts) if count]
    if not present:
        return Figures()
    low, high = present[0], present[-1]
    bins = [0] * BINS
    for value in present:
        bins[min((value - low) * BINS // max(high - low, 1), BINS - 1)] += counts[value]
    mean = sum(value * counts[value] for value in present) / sum(counts)
    return Figures(low, high, mean, 0, tuple(bins))


def _figures(numbers: _Numbers) -> Figures:
    isnan, isfinite = numbers.library.isnan, numbers.library.isfinite
    low, high, total, count = math.inf, -math.inf, 0.0, 0
    finite_low, finite_high = math.inf, -math.inf
    ends: list[int] = []
    for start in range(0, numbers.size, _CHUNK):
        end = min(start + _CHUNK, numbers.size)
        chunk = numbers.floats(start, end)
        chunk_sum = float(chunk.sum())
        if math.isnan(chunk_sum):  # a NaN, or infinities of both signs
            chunk = chunk[~isnan(chunk)]
            chunk_sum = float(chunk.sum())
        if not len(chunk):
            continue
        count += len(chunk)
        total += chunk_sum
        chunk_low, chunk_high = float(chunk.min()), float(chunk.max())
        low, high = min(low, chunk_low), max(high, chunk_high)
        if math.isinf(chunk_low) or math.isinf(chunk_high):
            chunk = chunk[isfinite(chunk)]
            chunk_low, chunk_high = (float(chunk.min()), float(chunk.max())) if len(chunk) else (math.inf, -math.inf)
        finite_low, finite_high = min(finite_low, chunk_low), max(finite_high, chunk_high)
        ends.extend(numbers.whole(start, end) or ())
    if not count:
        return Figures(nan_count=numbers.size)
    mean = total / count
    if not math.isfinite(mean) and math.isfinite(low) and math.isfinite(high):
        mean = _mean_of_huge(numbers, count)
    histogram = _histogram(numbers, finite_low, finite_high) if finite_low <= finite_high else ()
    return Figures(min(ends, default=low), max(ends, default=high), mean, numbers.size - count, histogram)


def _mean_of_huge(numbers: _Numbers, count: int) -> float:
    """The mean where the sum itself is beyond the largest float."""
    mean = 0.0
    for start in range(0, numbers.size, _CHUNK):
        chunk = numbers.floats(start, min(start + _CHUNK, numbers.size)) / count
        mean += float(chunk[~numbers.library.isnan(chunk)].sum())
    return mean


def _histogram(numbers: _Numbers, low: float, high: float) -> tuple[int, ...]:
    bincount, isfinite = numbers.library.bincount, numbers.library.isfinite
    bins = [0] * BINS
    width = high - low
    shrink = 1.0
    if math.isinf(width):
        shrink = 0.25
        low, width = low * shrink, high * shrink - low * shrink
    for start in range(0, numbers.size, _CHUNK):
        chunk = numbers.floats(start, min(start + _CHUNK, numbers.size))
        if not math.isfinite(float(chunk.sum())):
            chunk = chunk[isfinite(chunk)]
        if shrink != 1.0:
            chunk = chunk * shrink
        scaled = (chunk - low) / width * BINS if width else chunk * 0.0
        for place, found in enumerate(bincount(numbers.places(scaled), minlength=BINS).tolist()):
            bins[place] += found
    return tuple(bins)
