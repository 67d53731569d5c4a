"""What the table shows for a value that is kept whole, and how the value comes back.

Knows how arrays, tensors and pictures are laid out in their objects (`docs/reference/values.md`). Shows the summary
without touching the object; imports a framework only in `load`. The summary is data from a file: whatever does not fit
the verified bytes raises `Damaged`, and nothing is ever unpickled or run.
"""

from __future__ import annotations

import html
import math
from typing import Any

from rearview.errors import Damaged, UsageError
from rearview.model import ArraySummary
from rearview.store import objects
from rearview.store.layout import Store

_LEVELS = "▁▂▃▄▅▆▇█"
_NOUNS = {"numpy": "array", "torch": "tensor", "tensorflow": "tf tensor", "jax": "jax array", "pil": "image", "figure": "figure"}
_MAX_SHOWN = 60


class Cell:
    """An array, tensor, picture or figure in a table: its summary now, the value itself from `load()`."""

    __slots__ = ("_store", "_summary")

    def __init__(self, store: Store, summary: ArraySummary) -> None:
        self._store = store
        self._summary = summary

    @property
    def kind(self) -> str:
        """`numpy`, `torch`, `tensorflow`, `jax`, `pil` or `figure`."""
        return self._summary.kind

    @property
    def dtype(self) -> str:
        """The element type, as its library calls it."""
        return self._summary.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first; a picture is height, width and, if several, bands."""
        return self._summary.shape

    @property
    def minimum(self) -> float | None:
        """The smallest element that is not NaN; of complex numbers, the smallest magnitude."""
        return self._summary.minimum

    @property
    def maximum(self) -> float | None:
        """The largest element that is not NaN."""
        return self._summary.maximum

    @property
    def mean(self) -> float | None:
        """The mean of the elements that are not NaN."""
        return self._summary.mean

    @property
    def nan_count(self) -> int:
        """How many elements are NaN (of dates: no date)."""
        return self._summary.nan_count

    @property
    def histogram(self) -> tuple[int, ...]:
        """Counts in equal bins from the smallest to the largest finite element."""
        return self._summary.histogram

    @property
    def size_bytes(self) -> int:
        """Bytes in the store."""
        return self._summary.size_bytes

    @property
    def object_key(self) -> str:
        """The content address of the bytes: equal bytes have equal keys."""
        return self._summary.object_key

    def load(self, as_: str | None = None) -> Any:
        """The value itself: its original type if the library can be imported, else NumPy. `as_="numpy"` asks for NumPy.

        Dtype, shape and every bit are those that were logged. Tensors come back on the CPU.
        """
        from rearview.catalog import loading

        if as_ not in (None, "numpy"):
            raise UsageError(f"load cannot give {as_!r}; use load() or load(as_='numpy')")
        data = objects.get(self._store, self.object_key)
        if len(data) != self.size_bytes:
            raise Damaged(f"object {self.object_key} has {len(data)} bytes, its record says {self.size_bytes}; run `rearview check`")
        try:
            return loading.load(self._summary, data, original=as_ is None)
        except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, RuntimeError, AttributeError) as problem:
            raise Damaged(f"object {self.object_key} does not fit its record ({problem}); run `rearview check`") from problem

    def as_json(self) -> dict[str, Any]:
        """The summary as plain JSON values; NaN and infinities as text, which JSON has no numbers for."""
        return {
            "kind": self.kind,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "minimum": _json_number(self.minimum),
            "maximum": _json_number(self.maximum),
            "mean": _json_number(self.mean),
            "nan_count": self.nan_count,
            "histogram": list(self.histogram),
            "size_bytes": self.size_bytes,
            "object": self.object_key,
        }

    def __repr__(self) -> str:
        words = [_NOUNS.get(self.kind, "value"), f"{_shorten(self.dtype)}[{', '.join(map(str, self.shape))}]"]
        if self.minimum is not None and self.mean is not None and self.maximum is not None:
            words += [f"min={_short(self.minimum)}", f"mean={_short(self.mean)}", f"max={_short(self.maximum)}"]
        if self.nan_count:
            words.append(f"nan={self.nan_count}")
        if self.histogram:
            words.append(sparkline(self.histogram))
        return " ".join(words)

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, Cell) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.object_key, self.kind, self.dtype, self.shape


def present(store: Store, value: Any) -> Any:
    """A decoded value as people see it: each summary in it, at any depth, becomes a `Cell`."""
    if isinstance(value, ArraySummary):
        return Cell(store, value)
    if isinstance(value, list):
        return [present(store, item) for item in value]
    if isinstance(value, tuple):
        return tuple(present(store, item) for item in value)
    if isinstance(value, dict):
        return {key: present(store, item) for key, item in value.items()}
    return value


def sparkline(counts: tuple[int, ...]) -> str:
    """Counts as block characters; only an empty bin is at the bottom.

    >>> sparkline((0, 1, 8, 4))
    '▁▂█▄'
    """
    most = max(counts, default=0)
    return "".join(_LEVELS[max(1, count * 8 // most - 1)] if count else _LEVELS[0] for count in counts)


def _shorten(text: str) -> str:
    """Text from a file, for one line of a terminal."""
    text = "".join(sign if sign.isprintable() else "?" for sign in text)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def _short(number: float) -> str:
    try:
        return f"{number:.4g}"
    except OverflowError:  # an integer beyond all floats
        return ">1e308" if number > 0 else "<-1e308"


def _json_number(number: float | None) -> float | str | None:
    if number is None or math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
