"""Functions, classes and methods that are not those which had their names when the loops began: a `def` run again, a method patched.

What a name stands for says nothing about these (`bindings`): the name is the same. A function is kept by what it is, if its code is
somewhere in the source; a class is not, and is named as missing. Must not know how a state is put back.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rearview.state import scope
from rearview.state.put.names import is_in
from rearview.state.take.attributes import DICT_OF
from rearview.state.take.objects import found, named
from rearview.state.take.walk import Lost
from rearview.state.tree import MADE, RootKey

_NO_CODE = frozenset((str, int, float, bool, type(None), tuple, list, dict, types.GetSetDescriptorType))

_MADE = (type, types.FunctionType)

Codes = Callable[[], Sequence[types.CodeType]]
"""The code in which functions are looked for that have to be made again."""


class Began:
    """What stood under its own name when the loops began, by module; of a module imported later, when it was first seen."""

    def __init__(self, modules: scope.Modules, before: Began | None = None) -> None:
        self._had = {name: _own(name, vars(module)) for name, module in modules}
        self._in_source: dict[types.CodeType, bool] = {}
        self._made: list[tuple[str, str, object, object]] = []
        """Module, name, what is there and what was: made in loops that are over."""
        for module, name, now, had in before._made if before is not None else ():
            if self._had.get(module, {}).get(name) is now:  # no code outside of those loops makes it again
                self._had[module][name] = had

    def since(self, modules: scope.Modules, codes: Codes) -> dict[RootKey, object]:
        """What is another one now, as roots: functions as they are, a `Lost` for what no state can hold."""
        others: dict[RootKey, object] = {}
        for module, loaded in modules:
            now = _own(module, vars(loaded))
            had = self._had.setdefault(module, now)
            for name, value in now.items():
                if had.get(name) is not value:
                    others[MADE, module, name] = self._kept(value, codes)
            for name in had:
                if "." in name and name not in now and (value := _as_its_class_made_it(module, name)) is not None:
                    others[MADE, module, name] = self._kept(value, codes)
        return others

    def ended(self, modules: scope.Modules) -> None:
        """The loops are over. What they made is still to be kept by loops that come later."""
        now = {module: _own(module, vars(loaded)) for module, loaded in modules}
        pairs = [(module, name, value) for module, own in now.items() for name, value in own.items()]
        self._made = [
            (module, name, value, had) for module, name, value in pairs
            if (had := self._had.get(module, now[module]).get(name)) is not value
        ]  # fmt: skip

    def _kept(self, value: Any, codes: Codes) -> object:
        if not isinstance(value, types.FunctionType):
            return Lost(value, "it was made after the loops began, and only functions can be made again")
        code = value.__code__
        if code not in self._in_source:
            module = str(value.__globals__.get("__name__"))
            self._in_source[code] = is_in(code, codes(), module, also_live=module not in self._had)  # there it may be this very one
        return value if self._in_source[code] else Lost(value, "it was made after the loops began, of code that is not in the source")


def _own(module: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Functions and classes that a module holds under the names they were made with, and methods that no class statement made."""
    own = {
        name: value for name, value in list(namespace.items())
        if isinstance(value, _MADE) and value.__qualname__ == name and value.__module__ == module
    }  # fmt: skip
    for owner, name, value in patched(module, namespace):
        if not (isinstance(value, types.FunctionType) and named(value)):
            own[f"{owner.__qualname__}.{name}"] = value
    return own


def is_own(module: str | int, name: str, value: Any) -> bool:
    """Whether a function or class is what a module made under that name."""
    return bool(value.__module__ == module and value.__qualname__ == name)


def patched(module: str, namespace: Mapping[str, Any]) -> Iterator[tuple[type, str, Any]]:
    """Methods of the module's classes that are not what the class statement made, `Net.step = faster`: class, name, what is there."""
    for owner in list(namespace.values()):
        if isinstance(owner, type) and owner.__module__ == module:
            called = owner.__qualname__ + "."
            for name, value in list(DICT_OF(owner).items()):
                kind = type(value)
                if kind is types.FunctionType:  # most of them
                    if value.__qualname__ != called + name:
                        yield owner, name, value
                elif kind not in _NO_CODE:
                    function = getattr(value, "__func__", value)
                    if isinstance(function, types.FunctionType) and function.__qualname__ != called + name:
                        yield owner, name, value


def _as_its_class_made_it(module: str, name: str) -> types.FunctionType | None:
    """A method under its full name, if it is the one of its class statement."""
    owner, _, attribute = name.rpartition(".")
    value = vars(at).get(attribute) if isinstance(at := found(module, owner), type) else None
    return value if isinstance(value, types.FunctionType) and value.__qualname__ == name else None


def bind(frames: Sequence[types.FrameType], values: Mapping[RootKey, object]) -> None:
    """Give names the functions that a restored state has for them."""
    for key, value in values.items():
        if key[0] != MADE or isinstance(value, Lost):
            continue
        owner, _, attribute = str(key[2]).rpartition(".")
        if owner:
            at = found(str(key[1]), owner)
            if isinstance(at, type):
                type.__setattr__(at, attribute, value)
        else:
            scope.bind_global(frames, str(key[1]), attribute, value)
