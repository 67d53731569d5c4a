"""What an object leaves out of what it gives out for being copied: its own code puts something else in its place, or nothing.

Resuming goes on with that, as the program would with a copy of the object. A question about such an attribute must not be answered so.
Libraries are trusted: what their objects leave out is made anew when it is asked for.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import Any

from rearview.state.take.attributes import UNSET, attributes_of

WHY = "left out of what it gives out for being copied"
_PLAIN = (int, float, str, bytes, bool, complex, type(None))
_PROTOCOL = ("__getstate__", "__reduce_ex__", "__reduce__")
_INSTALLED = ("/site-packages/", "/dist-packages/")


def names(value: Any, given: Iterable[Any]) -> list[str]:
    """The attributes of an object that are not in what it gave out: under their names, or one for one."""
    kind: Any = type(value)
    if _is_of_library(kind):
        return []
    parts = [part for one in given for part in (one if isinstance(one, (tuple, list)) else (one,))]
    by_name = {name: held for part in parts if isinstance(part, dict) for name, held in part.items()}
    left = []
    for name, held in attributes_of(value):
        if held is UNSET or (name in by_name and _same(by_name[name], held)):
            continue
        at = next((at for at, part in enumerate(parts) if _same(part, held)), None)
        if at is None:
            left.append(name)
        else:
            parts.pop(at)
    return left


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and type(one) in _PLAIN and bool(one == other or (one != one and other != other)))


@functools.cache
def _is_of_library(kind: Any) -> bool:
    """Whether the code by which objects of a class are copied is installed, or Python's own."""
    for base in kind.__mro__:
        if not vars(base).keys().isdisjoint(_PROTOCOL):
            top = base.__module__.partition(".")[0]
            file = str(getattr(sys.modules.get(base.__module__), "__file__", None) or "")
            return (top in sys.stdlib_module_names and top != "__main__") or any(part in file for part in _INSTALLED)
    return True
