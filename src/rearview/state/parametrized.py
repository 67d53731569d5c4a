"""Classes that torch makes for one module each, when its first tensor is parametrized: no name leads to them.

Such a class is its base, and a property for each parametrized tensor. It is made again by torch's own functions, where torch has them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

from rearview.state.take.attributes import DICT_OF

MODULE = "torch.nn.utils.parametrize"
PREFIX = "Parametrized"
TENSORS = "__parametrized__"
"""Stands, where a class says what it holds, before the names of the tensors."""


def is_one(kind: type) -> bool:
    """Whether torch made a class for a module with parametrized tensors."""
    if kind.__module__ != MODULE or not kind.__qualname__.startswith(PREFIX):
        return False
    return vars(sys.modules[MODULE]).get(kind.__qualname__) is not kind


def tensors(kind: type) -> tuple[str, ...]:
    """What is computed when it is asked for."""
    own = DICT_OF(kind).items()
    return tuple(sorted(name for name, held in own if isinstance(held, property) and getattr(held.fget, "__module__", None) == MODULE))


def make(base: type, begin: Any) -> type | None:
    """Such a class for modules of another one; None where torch makes none so. `begin` makes an object of a class, without its code."""
    torch_has = getattr(sys.modules.get(MODULE), "_inject_new_class", None)
    if torch_has is None:
        return None
    one = begin(base)
    torch_has(one)
    return type(one)


def give(kind: Any, names: Collection[str], begin: Any) -> None:
    """Have a class compute just these tensors."""
    have = tensors(kind)
    for name in have:
        if name not in names:
            type.__delattr__(kind, name)
    for name in names:
        if name not in have:
            vars(sys.modules[MODULE])["_inject_property"](begin(kind), name)
