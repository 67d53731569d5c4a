"""What the user logs, as something the store can keep exactly.

Knows the user's libraries by their protocols and by what the program has already loaded; imports none of them. Numbers
of any library become Python numbers, arrays and pictures are handed to `keep` and leave a summary, containers are walked.
A value is kept as it is or refused with `Unstorable`; it is never changed, and looking at it leaves no trace in the
training. Knows nothing of journals, loops or the session.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from typing import Any

from rearview.errors import RearviewError, Unstorable
from rearview.model import ArraySummary
from rearview.record.values import arrays, pictures
from rearview.record.values.arrays import Whole
from rearview.store.encoding import MAX_DEPTH, MAX_ITEMS, type_name

Keep = Callable[[bytes], str]

_PLAIN = frozenset(
    {type(None), bool, int, float, complex, str, bytes, bytearray, dt.date, dt.datetime, dt.time, dt.timedelta, ArraySummary}
)
_BASES = (int, float, complex, str, bytes, dt.date, dt.time, dt.timedelta)


def storable(value: object, keep: Keep) -> object:
    """The value as `store.encoding` takes it. `keep` stores bytes and returns their object key.

    >>> storable({"loss": 0.25, "step": 3}, keep=lambda data: "xxh3-")
    {'loss': 0.25, 'step': 3}
    """
    if type(value) in _PLAIN:
        return value
    try:
        return _Walk(keep).visit(value, 0)
    except RecursionError:
        raise Unstorable(f"{type_name(value)} is nested too deep for the stack that is left; flatten it") from None


def without_dimensions(value: Any) -> object:
    """A number of any library as a plain one; anything else, and what cannot be read, as it is.

    A loss is a tensor more often than a float: this lets it take the recorder's short way.
    """
    if type(value) in _PLAIN or not hasattr(type(value), "shape"):
        return value
    try:
        if tuple(value.shape) == ():
            found = _read(value)
            return found if type(found) in _PLAIN else value
    except Exception:  # noqa: BLE001 (`storable` meets the same again and says what is wrong)
        pass
    return value


class _Walk:
    """One pass over a value and everything in it."""

    __slots__ = ("items", "keep", "open")

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.items = 0
        self.open: set[int] = set()
        """Containers that are being walked: meeting one again is a cycle."""

    def visit(self, value: Any, depth: int) -> object:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, (list, tuple, dict)):
            return self.container(value, depth)
        try:
            found = _read(value)
        except RearviewError:
            raise
        except Exception as problem:  # what a library raises for a value it cannot give out is its own affair
            raise _unreadable(value, problem) from problem
        if not isinstance(found, Whole):
            return found
        figures, key = found.figures, self.keep(found.data)
        return ArraySummary(
            found.kind, found.dtype, found.shape, figures.minimum, figures.maximum, figures.mean, figures.nan_count,
            figures.histogram, key, len(found.data), found.details,
        )  # fmt: skip

    def container(self, value: Any, depth: int) -> object:
        try:
            items = list(value.items() if isinstance(value, dict) else value)  # a copy: another thread may go on appending
        except Exception as problem:  # a subclass is the user's code
            raise _unreadable(value, problem) from problem
        self.items += len(items)
        if depth >= MAX_DEPTH:
            raise Unstorable(f"a {type_name(value)} nested more than {MAX_DEPTH} deep; flatten it")
        if self.items > MAX_ITEMS:
            raise Unstorable(f"a {type_name(value)} with more than {MAX_ITEMS} parts; log it as an array")
        if id(value) in self.open:
            raise Unstorable(f"a {type_name(value)} that contains itself; log the parts")
        self.open.add(id(value))
        result: object
        if isinstance(value, dict):
            result = self.pairs(items, depth, type_name(value))
        else:
            walked = [item if type(item) in _PLAIN else self.visit(item, depth + 1) for item in items]
            result = walked if isinstance(value, list) else tuple(walked)
        self.open.discard(id(value))
        return result

    def pairs(self, items: list[tuple[Any, Any]], depth: int, name: str) -> dict[Any, object]:
        result: dict[Any, object] = {}
        keys = _Walk(_no_key)
        for key, item in items:
            result[keys.visit(key, depth + 1)] = self.visit(item, depth + 1)
        if len(result) != len(items):
            raise Unstorable(f"a {name} with keys that are equal once they are plain values; log it with text keys")
        return result


def _no_key(data: bytes) -> str:
    raise Unstorable(f"a dict with an array of {len(data)} bytes in a key; use text or numbers as keys")


def _unreadable(value: object, problem: Exception) -> Unstorable:
    said = (str(problem).strip().splitlines() or [""])[0][:200]
    return Unstorable(f"{type_name(value)} could not be read: {type(problem).__name__}: {said}")


def _loaded(module: str, name: str) -> Any:
    """A class of a library, or `()` (nothing is an instance of it) if the program has not loaded the library."""
    return getattr(sys.modules.get(module), name, ())


def _read(value: Any) -> object:  # one branch per library
    """A plain value, or a `Whole`."""
    if isinstance(value, _loaded("numpy", "generic")):
        return _numpy_scalar(sys.modules["numpy"], value)
    if isinstance(value, _BASES):
        return value
    if isinstance(value, _loaded("torch", "Tensor")):
        arrays.refuse_wrapper(sys.modules["torch"], value)
        return arrays.from_torch(sys.modules["torch"], value) if value.is_nested or value.dim() else _number(value, value.item())
    if isinstance(value, _loaded("numpy", "ndarray")):
        return _numpy_array(sys.modules["numpy"], value)
    if isinstance(value, _loaded("PIL.Image", "Image")):
        return pictures.from_pil(value)
    if isinstance(value, _loaded("matplotlib.figure", "Figure")):
        return pictures.from_figure(value)
    if _is_number_like(value):
        return _number(value, value.item() if callable(getattr(value, "item", None)) else value.numpy())
    if isinstance(value, _loaded("jax", "Array")):
        return arrays.from_jax(sys.modules["jax"], sys.modules["numpy"], value)
    if isinstance(value, (_loaded("tensorflow", "Tensor"), _loaded("tensorflow", "Variable"))):
        return arrays.from_tensorflow(sys.modules["numpy"], value)
    raise Unstorable(type_name(value))


def _is_number_like(value: Any) -> bool:
    """Does it act as an array without dimensions, whatever library it is from?"""
    kind = type(value)
    if not (hasattr(kind, "shape") and hasattr(kind, "dtype") and (hasattr(kind, "item") or hasattr(kind, "numpy"))):
        return False
    return tuple(value.shape) == ()


def _number(value: Any, given: Any) -> object:
    """What a library's own conversion gave, if that is a plain value."""
    if isinstance(given, _loaded("numpy", "generic")):
        given = _numpy_scalar(sys.modules["numpy"], given)
    elif isinstance(given, _loaded("numpy", "ndarray")) and given.ndim == 0:
        given = _numpy_array(sys.modules["numpy"], given)
    if type(given) in _PLAIN:
        return given
    raise Unstorable(f"{type_name(value)} gives {type_name(given)}, which is not a plain number or text; log float(...) of it")


def _numpy_array(np: Any, array: Any) -> object:
    if array.ndim == 0 and type(array) in (np.ndarray, np.memmap):
        if array.dtype.hasobject:
            raise Unstorable("a NumPy array of Python objects cannot be kept; log the object or a list")
        return _numpy_scalar(np, array[()])
    return arrays.from_numpy(np, array)


def _numpy_scalar(np: Any, scalar: Any) -> object:
    """A NumPy scalar as the Python value that equals it, else kept whole."""
    if isinstance(scalar, np.datetime64 | np.timedelta64):
        return _numpy_date(np, scalar)
    if isinstance(scalar, np.longdouble | np.clongdouble):
        plain: Any = complex(scalar) if isinstance(scalar, np.clongdouble) else float(scalar)
        if plain == scalar or (np.isnan(scalar) and not isinstance(scalar, np.clongdouble)):
            return plain
    elif not isinstance(scalar, np.void):
        plain = scalar.item()
        if type(plain) in _PLAIN:
            return plain
    if isinstance(scalar, np.void | np.longdouble | np.clongdouble):
        whole = arrays.from_numpy(np, np.asarray(scalar))
        whole.details["class"] = "scalar"
        return whole
    raise Unstorable(f"{type_name(scalar)} gives no plain number; log float(...) of it")


def _numpy_date(np: Any, scalar: Any) -> object:
    """A date or duration, if it is one to the microsecond; NumPy has finer and longer ones."""
    unit = np.datetime_data(scalar.dtype)[0]
    plain = scalar.item()
    if unit in ("ns", "ps", "fs", "as") and not np.isnat(scalar):
        coarse = scalar.astype("M8[us]" if isinstance(scalar, np.datetime64) else "m8[us]")
        plain = coarse.item() if coarse.astype(scalar.dtype) == scalar else None
    if isinstance(plain, (dt.date, dt.timedelta)):
        return plain
    raise Unstorable(f"{scalar!r} is not a date or duration in whole microseconds; log its text or astype('int64') of it")
