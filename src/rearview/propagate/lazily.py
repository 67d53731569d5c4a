"""A property that is computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class lazily(Generic[_T]):
    """A property that is computed once; `functools` has one that takes a lock each time, which is felt here."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, owner: Any, kind: object = None) -> _T:
        value = owner.__dict__[self._name] = self._compute(owner)
        return value
