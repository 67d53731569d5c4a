"""The variables of running functions, read and written from inside a call they made.

Reading leaves no trace: up to Python 3.12 `frame.f_locals` of a function is one dict that the program may hold (`locals()`), so it is not
asked there. Writing works at module level, in functions, through closures' cells and in class bodies, on 3.11 to 3.13.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Mapping, Sequence
from types import CellType, FrameType
from typing import Any

_SNAPSHOT = sys.version_info < (3, 13)
"""f_locals of a function is a copy that has to be written back."""
_POINTER = ctypes.sizeof(ctypes.c_void_p)


def frames_between(inner: FrameType, outer: FrameType) -> list[FrameType]:
    """From `outer` inwards to `inner`, both included; `inner` alone if it was not called from `outer`."""
    chain: list[FrameType] = []
    frame: FrameType | None = inner
    while frame is not None:
        chain.append(frame)
        if frame is outer:
            return chain[::-1]
        frame = frame.f_back
    return [inner]


def is_module(frame: FrameType) -> bool:
    """Whether a frame is that of a module (or of a cell of a notebook): its variables are global."""
    return not _optimized(frame) and frame.f_locals is frame.f_globals


def _optimized(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)


def variables(frame: FrameType) -> dict[str, Any]:
    """What is bound in a frame: variables, also those in cells. Of a module, what is neither dunder nor a module itself."""
    if not _optimized(frame):
        module = type(sys)
        return {
            name: value
            for name, value in list(frame.f_locals.items())
            if isinstance(name, str) and not (name.startswith("__") and name.endswith("__")) and not isinstance(value, module)
        }
    found = dict(frame.f_locals) if not _SNAPSHOT else _read(frame)
    return {name: value for name, value in found.items() if name[0] not in ".@"}  # no names that source could have


def assign(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Bind variables of a frame. Names that its code does not have are left out (a variable of another version of it)."""
    if not _optimized(frame):
        frame.f_locals.update(values)
        return
    code = frame.f_code
    known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    fitting = {name: value for name, value in values.items() if name in known}
    if not fitting:
        return
    if not _SNAPSHOT:
        frame.f_locals.update(fitting)
        return
    had_none = _has_no_dict(frame)
    namespace = frame.f_locals
    namespace.update(fitting)
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    if had_none:
        namespace.clear()  # nobody else has this dict; it would keep every object alive


CAN_UNBIND = sys.version_info < (3, 12)
"""Whether variables of running functions can be deleted from outside. In 3.12 they become None instead, from 3.13 on they stay."""


def unbind(frame: FrameType, names: Sequence[str]) -> None:
    """Delete variables of a frame, where it has them; those of a function stay where they cannot be deleted."""
    if not _optimized(frame):
        for name in names:
            frame.f_locals.pop(name, None)
        return
    if not CAN_UNBIND:
        return
    had_none = _has_no_dict(frame)
    namespace = frame.f_locals
    for name in names:
        namespace.pop(name, None)
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(1))  # what is not there is cleared
    if had_none:
        namespace.clear()


# Reading without f_locals, up to 3.12


def _read(frame: FrameType) -> dict[str, Any]:
    if sys.version_info >= (3, 12):
        return _read_by_name(frame)
    return _read_slots(frame)


def _names(frame: FrameType) -> list[str]:
    code = frame.f_code
    return list(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))


def _read_by_name(frame: FrameType) -> dict[str, Any]:
    get = ctypes.pythonapi.PyFrame_GetVarString
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.py_object
    found: dict[str, Any] = {}
    for name in _names(frame):
        try:
            found[name] = get(frame, name.encode())
        except NameError:
            continue  # not bound
    return found


class _Head(ctypes.Structure):
    """PyFrameObject of 3.11, as far as it is needed."""

    _fields_ = (("refcount", ctypes.c_ssize_t), ("kind", ctypes.c_void_p), ("back", ctypes.c_void_p), ("inner", ctypes.c_void_p))


class _Inner(ctypes.Structure):
    """_PyInterpreterFrame of 3.11, up to the variables."""

    _fields_ = (
        ("function", ctypes.c_void_p), ("globals", ctypes.c_void_p), ("builtins", ctypes.c_void_p), ("locals", ctypes.c_void_p),
        ("code", ctypes.c_void_p), ("frame", ctypes.c_void_p), ("previous", ctypes.c_void_p), ("instruction", ctypes.c_void_p),
        ("stacktop", ctypes.c_int), ("is_entry", ctypes.c_bool), ("owner", ctypes.c_char),
    )  # fmt: skip


def _inner(frame: FrameType) -> tuple[int, _Inner]:
    head = _Head.from_address(id(frame))
    return head.inner, _Inner.from_address(head.inner)


def _has_no_dict(frame: FrameType) -> bool:
    """Whether nothing has asked for `locals()` of a running function, but for an earlier call of ours, which left an empty dict."""
    if sys.version_info >= (3, 12):
        return _count_of_locals(frame) <= 3
    _, inner = _inner(frame)
    return not inner.locals or not ctypes.cast(inner.locals, ctypes.py_object).value


def _count_of_locals(frame: FrameType) -> int:
    namespace = frame.f_locals
    return sys.getrefcount(namespace)


def _read_slots(frame: FrameType) -> dict[str, Any]:
    """The variables of a function of 3.11, from where the interpreter keeps them."""
    address, inner = _inner(frame)
    code = frame.f_code
    if inner.code != id(code):
        return dict(frame.f_locals)  # not the interpreter this was written for
    first = address + _Inner.owner.offset + 1
    first += -first % _POINTER
    names = _names(frame)
    cells = {*code.co_cellvars, *code.co_freevars}
    found: dict[str, Any] = {}
    for at, name in enumerate(names):
        pointer = ctypes.c_void_p.from_address(first + at * _POINTER).value
        if not pointer:
            continue
        value: Any = ctypes.cast(pointer, ctypes.py_object).value
        if name in cells and isinstance(value, CellType):
            try:
                found[name] = value.cell_contents
            except ValueError:
                continue  # not bound
        else:
            found[name] = value
    return found
