"""Classes: by their names; of one that the program made inside a function also what it holds, for no name leads to it. Of one that torch
made for parametrized tensors what it is made of (`state/parametrized`).

That is its data, and the methods that close over something or remember something. The class itself is never made again, but for
those of torch: it is recognised at the live objects.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from rearview.state import parametrized
from rearview.state.take import owners
from rearview.state.take.attributes import DICT_OF
from rearview.state.take.objects import named, stands_before
from rearview.state.take.walk import Taker, Walk
from rearview.state.tree import Node

_OURS = __name__.partition(".")[0]
_PLAIN = (int, float, str, bool, bytes, complex, type(None), type)
_CODE = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, staticmethod, classmethod, property,
)  # fmt: skip
_OF_PYTHON = ("_abc_impl", "_member_map_", "_member_names_", "_value2member_map_")
BASE = "__mro__"
_PROPERTY: dict[str, Callable[[property, Any], property]] = {
    "fget": property.getter, "fset": property.setter, "fdel": property.deleter,
}  # fmt: skip


def take_class(walk: Walk, value: type) -> Node:
    """A class."""
    return ("ref", walk.slots((value.__module__, value.__qualname__, *(part for pair in held_by(value) for part in pair))))


def held_by(value: type) -> Iterator[tuple[str, Any]]:
    """What a class holds that no name leads to, by name; bases of the same kind as `__mro__` and their place."""
    if parametrized.is_one(value):
        yield f"{BASE}1", value.__mro__[1]
        yield parametrized.TENSORS, parametrized.tensors(value)
        return
    if "<locals>" not in value.__qualname__ or not owners.is_the_users(value.__module__):
        return
    for name, held in list(DICT_OF(value).items()):
        if is_data(name, held):
            yield name, held
        for label, function in _functions(name, held):
            if remembers(function):
                yield label, function
    for place, base in enumerate(value.__mro__[1:], 1):
        if "<locals>" in base.__qualname__ and owners.is_the_users(base.__module__):
            yield f"{BASE}{place}", base


def _functions(name: str, held: Any) -> Iterator[tuple[str, types.FunctionType]]:
    if isinstance(held, property):
        parts = [(f"{name}.{part}", getattr(held, part)) for part in _PROPERTY]
    else:
        parts = [(name, held.__func__ if isinstance(held, (staticmethod, classmethod)) else held)]
    yield from ((label, part) for label, part in parts if isinstance(part, types.FunctionType))


def put(owner: type, label: str, value: Any) -> None:
    """Give a class something that it held."""
    name, _, part = label.partition(".")
    have = DICT_OF(owner).get(name)
    if part and isinstance(have, property):
        if getattr(have, part) is not value:
            type.__setattr__(owner, name, _PROPERTY[part](have, value))
    elif isinstance(have, (staticmethod, classmethod)) and isinstance(value, types.FunctionType):
        if have.__func__ is not value:
            type.__setattr__(owner, name, type(have)(value))
    elif have is not value:
        type.__setattr__(owner, name, value)


def remembers(function: types.FunctionType) -> bool:
    """Whether a function is more than its code: it closes over something, or has attributes, or defaults that can change."""
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    closes_over = [name for name in function.__code__.co_freevars if name != "__class__"]
    return bool(closes_over or function.__dict__ or any(type(one) not in _PLAIN for one in defaults))


def is_data(name: str, value: Any) -> bool:
    """Whether an attribute of a class is data: no code, no member of an enum, nothing of Python's own. Descriptors of the user's are."""
    if (name.startswith("__") and name.endswith("__")) or name in _OF_PYTHON:
        return False
    if isinstance(value, _CODE) or has_a_name(value):
        return False
    if hasattr(type(value), "__get__") and not owners.is_the_users(type(value).__module__):
        return False
    return not (hasattr(value, "_name_") and hasattr(value, "_value_"))  # members of an enum


def has_a_name(value: Any) -> bool:
    """Modules, what can be imported by name, and what is rearview's."""
    kind = type(value)
    if kind is types.ModuleType or issubclass(kind, types.ModuleType):
        return True
    module = value.__module__ if isinstance(value, (type, types.FunctionType)) else kind.__module__
    if isinstance(module, str) and module.partition(".")[0] == _OURS and not module.startswith(f"{_OURS}.testing"):
        return not stands_before(value)
    return isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and named(value) is not None


def takers() -> dict[type, Taker]:
    """Who takes exactly these types."""
    return {type: take_class}


def decide(kind: type) -> Taker | None:
    """Classes of classes."""
    return take_class if issubclass(kind, type) else None
