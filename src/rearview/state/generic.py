"""Generic functions (`functools.singledispatch`): what is registered with one is all that it is.

Its attributes are functions that close over the registry, a view of that, and a cache of what was looked up.
"""

from __future__ import annotations

import gc
import types
from typing import Any

REGISTRY = "registry"
_OWN = frozenset(("register", "dispatch", REGISTRY, "_clear_cache", "__wrapped__"))


def registered(function: types.FunctionType) -> dict[type, Any] | None:
    """The registry of a generic function, to be read and written; None for any other, and for one that the program hung more on."""
    if function.__dict__.keys() != _OWN:
        return None
    view = function.__dict__[REGISTRY]
    held = gc.get_referents(view) if type(view) is types.MappingProxyType else []
    return held[0] if len(held) == 1 and type(held[0]) is dict else None


def forget_lookups(function: types.FunctionType) -> None:
    """What is registered was put back: what was looked up before no longer holds."""
    function.__dict__["_clear_cache"]()
