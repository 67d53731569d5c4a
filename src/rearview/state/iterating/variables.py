"""The variables of a suspended generator, as far as they are plain data, and back into a live one.

A variable that is plain is assigned; what can be changed in place (a list, an array, a generator of random numbers) is written to
where it is, because somebody else may hold it. An argument that the code never assigns is the caller's object, restored with the
program's other objects. Anything else is *open*: it is not known here.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rearview.state.loading import plain
from rearview.state.loading.holdings import SCALARS, Place, Values, change_in_place, copied
from rearview.state.loading.holdings import write as write_place

IN_PLACE = frozenset(("loader", "index", "range", "count", "left", "generator", "called"))
"""Kinds of iterators that are put back in place: whoever holds one goes on with it."""

MOST_BYTES = 1 << 18
_MOST_ITEMS = 20_000
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType)
_FRAMEWORK = (*_NAMED, str, type(None), types.CodeType, types.FrameType, types.CellType)


@dataclass
class Variables:
    """What is known of the variables that matter."""

    plain: dict[str, Any] = field(default_factory=dict)
    held: Values = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    """Data that is too large to be kept here, but can be compared."""
    open: list[str] = field(default_factory=list)


def classify(code: types.CodeType, variables: Mapping[str, Any]) -> Variables:
    """Sort out the variables of a function."""
    found = Variables()
    for name, value in variables.items():
        if hasattr(type(value), "__next__"):
            continue  # told where it is by itself
        kind = change_in_place(value, MOST_BYTES)
        kept = copied(Place(name, kind, value, None)) if kind in ("list", "array", "tensor", "generator") else None
        if kept is not None:
            found.held[name] = kept
        elif value is None:
            found.plain[name] = None
        elif (type(value) in SCALARS or _is_small(value)) and (copy := plain.copy(value)) is not None:
            found.plain[name] = copy
        elif not isinstance(value, _NAMED) and name not in _given(code):
            digest = _digest(value)
            if digest:
                found.digests[name] = digest
            else:
                found.open.append(name)
    return found


def _is_small(value: object) -> bool:
    return isinstance(value, (tuple, dict, list)) and len(value) <= _MOST_ITEMS


@functools.lru_cache(maxsize=256)
def _given(code: types.CodeType) -> frozenset[str]:
    """Arguments, and variables of functions around it, that the code never assigns."""
    names = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *code.co_freevars}
    for instruction in dis.get_instructions(code):
        if "STORE_FAST" in instruction.opname or "STORE_DEREF" in instruction.opname:
            stored = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            names.difference_update(stored)
    return frozenset(names)


def _digest(value: Any) -> str:
    """A digest of an array or tensor in main memory; "" for anything else."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape") or getattr(getattr(value, "device", None), "type", "cpu") != "cpu":
        return ""
    try:
        return plain.digest((str(value.dtype), list(value.shape), repr(value.tolist()))) if value.nbytes <= 1 << 22 else ""
    except (TypeError, RuntimeError, ValueError, AttributeError):
        return ""


def hidden(held: list[Any], known: list[Any], names: frozenset[str]) -> list[Any]:
    """What a generator holds beside its variables: values of expressions and statements it is in the middle of.

    Iterators, and what leaves a `with` statement, are told or made again by themselves; the frame, its names and a dict of its
    variables (`locals()`) are no values.
    """
    count: dict[int, int] = {}
    for thing in known:
        count[id(thing)] = count.get(id(thing), 0) + 1
    rest = []
    for thing in held:
        if count.get(id(thing), 0):
            count[id(thing)] -= 1
        elif not (isinstance(thing, _FRAMEWORK) or hasattr(type(thing), "__next__") or (type(thing) is dict and names.issuperset(thing))):
            rest.append(thing)
    return rest


def write(live: Mapping[str, Any], held: Values) -> dict[str, Any]:
    """Write what was held to where it is now; what has to be assigned instead."""
    assigned: dict[str, Any] = {}
    for name, value in held.items():
        thing = live.get(name)
        kind = change_in_place(thing, sys.maxsize)
        if kind is not None and write_place(Place(name, kind, thing, None), value):
            continue
        if value[0] in ("ints", "items"):
            fresh: list[Any] = []
            write_place(Place(name, "list", fresh, None), value)
            assigned[name] = fresh
    return assigned
