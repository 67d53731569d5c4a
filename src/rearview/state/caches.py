"""What functions of the project remember by `functools.cache` and `lru_cache`: an answer that is drawn or read is not had again by asking.

One without a limit keeps its answers in a dict, which is state like any other. One with a limit keeps them where nothing can be put back:
if it remembers more than when the loops began, that is named as missing. Libraries' caches are their own.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from rearview.state.take.attributes import DICT_OF
from rearview.state.take.walk import Lost
from rearview.state.tree import RootKey

KIND = "cache"
UNKEPT = "live"
"""The kind of node that stands for one whose answers cannot be put back."""
_CACHED = type(functools.lru_cache(lambda: None))
_MAY_BE = frozenset((_CACHED, staticmethod, classmethod))
_WHY = "what it remembered in the loops is not kept (a cache with a limit, or with keywords in its keys)"


class Caches:
    """The caches of the project's modules, and how often each had been filled when the loops began."""

    def __init__(self, modules: list[tuple[str, ModuleType]]) -> None:
        self._filled = {key: value.cache_info().misses for key, value in _of(modules)}

    def roots(self, modules: list[tuple[str, ModuleType]]) -> dict[RootKey, object]:
        """The answers as they are now, by name; a `Lost` for those that cannot be put back."""
        found: dict[RootKey, object] = {}
        for key, value in _of(modules):
            answers = _answers(value)
            if answers is not None:
                found[key] = answers
            elif value.cache_info().currsize and value.cache_info().misses != self._filled.get(key, 0):
                found[key] = Lost(value, _WHY)
        return found


def _of(modules: list[tuple[str, ModuleType]]) -> Iterator[tuple[RootKey, Any]]:
    """The cached functions and methods that modules made."""
    for module, loaded in modules:
        for name, value in list(vars(loaded).items()):
            if isinstance(value, _CACHED):
                if getattr(value, "__module__", None) == module:
                    yield (KIND, module, name), value
            elif isinstance(value, type) and value.__module__ == module:
                for attribute, held in list(DICT_OF(value).items()):
                    if type(held) in _MAY_BE:
                        function = getattr(held, "__func__", held)
                        if isinstance(function, _CACHED):
                            yield (KIND, module, f"{value.__qualname__}.{attribute}"), function


def _answers(value: Any) -> dict[Any, Any] | None:
    """The dict in which a cache without a limit keeps its answers; None if there is none that could be filled again."""
    if value.cache_parameters()["maxsize"] is not None:
        return None
    found = [held for held in gc.get_referents(value) if type(held) is dict and held is not vars(value)]
    if len(found) != 1 or len(found[0]) != value.cache_info().currsize:
        return None
    return None if any(_has_keywords(key) for key in found[0]) else found[0]


def _has_keywords(key: Any) -> bool:
    """Whether a key has the mark before its keywords: an object that every process has another one of."""
    return type(key) is tuple and any(type(part) is object for part in key)
