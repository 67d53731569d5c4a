"""Functions, closures, methods, weak references, Python's random generators, open files.

A function that can be imported is kept by its name. Of any other function the code is never kept, only how to recognise it; kept
are what it closes over, its defaults and its attributes.
"""

from __future__ import annotations

import array
import ctypes
import functools
import hashlib
import io
import random
import re
import types
import weakref
from typing import Any

from rearview.state import compiled
from rearview.state.take import texts
from rearview.state.take.attributes import attributes
from rearview.state.take.objects import found, named
from rearview.state.take.walk import Taker, Uncapturable, Walk
from rearview.state.tree import NONE, NOTHING, Node
from rearview.store.encoding import type_name


def code_digest(code: types.CodeType) -> str:
    """A short name for what a function does, the same in every process that runs the same interpreter."""
    digest = hashlib.blake2b(digest_size=12)
    pending = [code]
    while pending:
        part = pending.pop()
        digest.update(part.co_code)
        digest.update(repr((part.co_name, part.co_names, part.co_varnames, part.co_freevars, part.co_cellvars, part.co_argcount)).encode())
        for const in part.co_consts:
            if isinstance(const, types.CodeType):
                pending.append(const)
            elif not isinstance(const, frozenset):  # its order differs from process to process
                digest.update(repr(const).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def take_function(walk: Walk, value: types.FunctionType) -> Node:
    """A function."""
    name = named(value)
    if name is not None:
        return ("ref", walk.slots(name))
    plain = compiled.original(value)
    return take_made(walk, value) if plain is None else _take_compiled(walk, value, plain)


def _take_compiled(walk: Walk, value: types.FunctionType, plain: Any) -> Node:
    """A function that torch compiled: the live one stays; where there is none, what it was compiled from is compiled again."""
    return ("live", (*walk.slots((type_name(value), "a function that torch compiled", compiled.maker(value))), walk.slot(plain)))


def take_made(walk: Walk, value: types.FunctionType) -> Node:
    """A function that its name does not lead to: it has none, or there was another one of that name when the loops began."""
    code = value.__code__
    digest = walk.cache.get(code)
    if digest is None:
        digest = walk.cache[code] = code_digest(code)
    texts.note(walk, code, digest)
    parts = (
        value.__globals__.get("__name__"), code.co_qualname, code.co_firstlineno, digest,
        value.__name__, value.__qualname__, value.__module__, value.__defaults__, value.__kwdefaults__, value.__dict__ or None,
    )  # fmt: skip
    return ("func", (*walk.slots(parts), *walk.slots(value.__closure__ or ())))


def take_cell(walk: Walk, value: types.CellType) -> Node:
    """What a closure holds."""
    try:
        content = value.cell_contents
    except ValueError:
        return ("cell", (NOTHING,))
    return ("cell", (walk.slot(content),))


def take_method(walk: Walk, value: types.MethodType) -> Node:
    """A method of an object."""
    return ("method", walk.slots((value.__func__, value.__self__)))


def take_builtin(walk: Walk, value: types.BuiltinFunctionType) -> Node:
    """A function written in C: by its name, or as a method of the object it belongs to."""
    name = named(value)
    if name is not None:
        return ("ref", walk.slots(name))
    owner: Any = value.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        module = value.__module__ or getattr(owner, "__name__", None)
        if found(str(module), value.__qualname__) is not value:
            raise Uncapturable(f"a function written in C that {module} does not show")
        return ("ref", walk.slots((module, value.__qualname__)))
    return ("bmethod", walk.slots((owner, value.__name__)))


def take_descriptor(walk: Walk, value: Any) -> Node:
    """A method of a type written in C, such as `str.lower`."""
    return ("ref", walk.slots((value.__objclass__.__module__, f"{value.__objclass__.__qualname__}.{value.__name__}")))


def take_weakref(walk: Walk, value: weakref.ref[Any]) -> Node:
    """A weak reference; a dead one stays dead."""
    target = value()
    callback: Any = value.__callback__
    if callback is not None:
        raise Uncapturable("a weak reference that calls a function")
    return ("weakref", (NOTHING if target is None else walk.slot(target),))


def take_weak_method(walk: Walk, value: Any) -> Node:
    """A method of an object that is held weakly; one whose object is gone stays without it."""
    told = dict(zip(value.__callback__.__code__.co_freevars, value.__callback__.__closure__, strict=True)) if value.__callback__ else {}
    if "callback" in told and told["callback"].cell_contents is not None:
        raise Uncapturable("a weak reference that calls a function")
    method = value()
    walk.keep.append(method)
    function, args = (gone_method, ()) if method is None else (weakref.WeakMethod, (method,))
    return ("reduce", walk.slots((type(value), function, args, None, None, None, None)))


def gone_method() -> Any:
    """What is left of a method whose object is gone."""
    return weakref.WeakMethod(_Nobody().method)


class _Nobody:
    def method(self) -> None:
        """Nothing."""


def take_proxy(walk: Walk, value: Any) -> Node:
    """A weak proxy, which answers every question as its object does."""
    target = _behind(value)
    if target is None:
        raise Uncapturable("a weak proxy of an object that is gone")
    return ("reduce", walk.slots((type(value), weakref.proxy, (target,), None, None, None, None)))


def _behind(proxy: Any) -> Any:
    """The object of a proxy, without asking it anything; None if it is gone."""
    function = ctypes.pythonapi.PyWeakref_GetObject
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.py_object]  # a reference that is not ours: only its address
    return ctypes.cast(function(ctypes.py_object(proxy)), ctypes.py_object).value


def take_weakly(walk: Walk, value: Any) -> Node:
    """A dict that holds its keys or values weakly: what it holds now, in its order."""
    return ("weakly", (walk.slot(type(value)), *walk.slots(part for pair in list(value.items()) for part in pair)))


def take_weak_set(walk: Walk, value: weakref.WeakSet[Any]) -> Node:
    """A set that holds its elements weakly. Their order is that of their addresses and means nothing."""
    return ("weakset", (walk.slot(type(value)), NONE, *walk.slots(list(value))))


def take_random(walk: Walk, value: random.Random) -> Node:
    """Python's random generator, without drawing from it."""
    version, numbers, gauss = value.getstate()
    packed = array.array("I", numbers).tobytes()
    return ("random", (walk.slot(type(value)), *walk.slots((version, packed, gauss)), *attributes(walk, value)))


def told_by(file: Any, name: str) -> str:
    """What a closed file says of itself; nothing, if it no longer does: one that compresses is asked in vain from Python 3.13 on."""
    try:
        return str(getattr(file, name, ""))
    except ValueError:
        return ""


def take_file(walk: Walk, value: Any) -> Node:
    """An open file: what it is and where it stands. The file itself is not kept here."""
    if value.closed:
        return ("file", (walk.slot(type(value)), *walk.slots((told_by(value, "name"), told_by(value, "mode"), None))))
    name, mode = getattr(value, "name", None), getattr(value, "mode", None)
    if not isinstance(name, str) or name.startswith("<") or not isinstance(mode, str) or not value.seekable():
        raise Uncapturable("an open file that has no place to return to")
    if any(letter in mode for letter in "wax+"):
        value.flush()
    position = value.tell()
    return ("file", (walk.slot(type(value)), *walk.slots((name, mode, position))))


_TAKERS: dict[type, Taker] = {
    types.FunctionType: take_function,
    types.CellType: take_cell,
    types.MethodType: take_method,
    types.BuiltinFunctionType: take_builtin,
    type(re.compile("").match): take_builtin,  # a class of its own for methods that want to know theirs
    types.MethodDescriptorType: take_descriptor,
    types.WrapperDescriptorType: take_descriptor,
    types.ClassMethodDescriptorType: take_descriptor,
    weakref.ref: take_weakref,
    weakref.WeakMethod: take_weak_method,
    weakref.ProxyType: take_proxy,
    weakref.CallableProxyType: take_proxy,
    weakref.WeakSet: take_weak_set,
    weakref.WeakKeyDictionary: take_weakly,
    weakref.WeakValueDictionary: take_weakly,
    random.Random: take_random,
    io.TextIOWrapper: take_file,
    io.BufferedReader: take_file,
    io.BufferedWriter: take_file,
    io.BufferedRandom: take_file,
    io.FileIO: take_file,
}


def takers() -> dict[type, Taker]:
    """Who takes exactly these types."""
    return _TAKERS


def decide(kind: type) -> Taker | None:
    """Who takes a class derived from one of them."""
    if issubclass(kind, random.SystemRandom):
        return None
    if issubclass(kind, random.Random) and kind.getstate is random.Random.getstate:
        return take_random
    return take_lru if kind is type(functools.lru_cache(lambda: None)) else None


def take_lru(walk: Walk, value: Any) -> Node:
    """A cached function by its name: its answers are kept beside it (`state/caches`)."""
    name = named(value)
    if name is None:
        raise Uncapturable("a cached function that is not at the top of its module")
    return ("ref", walk.slots(name))
