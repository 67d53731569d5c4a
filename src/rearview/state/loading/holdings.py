"""What an object of the program holds that iterating over it may change: generators, plain numbers and texts, small containers.

A sampler shuffles its list in place, a dataset counts its calls, a transform has a generator of its own. Each such thing has a
*place*, a text like `.transform.rng`, found by walking attributes, small containers, closures and partials from a root. The
same walk in another process finds the same places, so that values can be carried from one to the other. Bounded in every
direction, runs no code of the program (no property, no `__getattr__`). Knows no loader and no worker.
"""

from __future__ import annotations

import functools
import random
import sys
import types
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rearview.state import streams

SCALARS = (int, float, bool, str, bytes, type(None), complex)
MAX_OBJECTS = 256
MAX_DEPTH = 6
MAX_TEXT = 4096
MAX_WALKED = 32
"""Containers with more items are not searched for objects."""
MAX_COPIED = 16 << 20
"""Bytes of a list of numbers or an array; larger ones are not looked into."""

_WHOLE = ("generator", "array", "tensor")
_NOT_WALKED = (type, types.ModuleType, types.CodeType, types.FrameType, types.BuiltinFunctionType, types.GeneratorType)

_NOT_STATE = frozenset("rearview multiprocessing threading queue asyncio concurrent subprocess logging io _io _thread weakref".split())
"""Packages whose objects are not what a dataset or sampler is made of."""

Values = dict[str, Any]
"""Place -> what is there, plain: ("=", scalar), ("number", dtype, bytes) for one of NumPy's, ("generator", state), ("ints", bytes),
("items", [...]), ("array", dtype, bytes), ("tensor", dtype, bytes)."""


class Place:
    """Something that may change, and where it is."""

    __slots__ = ("holder", "key", "kind", "name")

    def __init__(self, name: str, kind: str, holder: Any, key: Any) -> None:
        self.name = name
        self.kind = kind
        """scalar, generator, list, array, tensor; container and object (its attributes), of which only the size is looked at."""
        self.holder = holder
        """The attributes or the container that a scalar is in; for what is changed in place, the thing itself."""
        self.key = key


def places(root: object, stop: tuple[object, ...] = (), most: int = MAX_COPIED) -> Iterator[Place]:
    """Everything that may change below an object, not through the objects of `stop`, nor in lists and arrays that are larger."""
    seen = {id(item) for item in stop}
    waiting: deque[tuple[str, object, int]] = deque([("", root, 0)])
    objects = 0
    while waiting and objects < MAX_OBJECTS:
        name, value, depth = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = change_in_place(value, most)
        if kind is not None:
            yield Place(name, kind, value, None)
        if kind in _WHOLE or depth > MAX_DEPTH:
            continue
        objects += 1
        attributes = _dict_of(value)
        if attributes is not None:
            yield Place(name, "object", attributes, None)
        for step, item, holder, key in _below(value):
            if _is_scalar(item):
                if holder is not None and (not isinstance(item, (str, bytes)) or len(item) <= MAX_TEXT):
                    yield Place(name + step, "scalar", holder, key)
            elif _is_walked(item):
                waiting.append((name + step, item, depth + 1))


def _is_walked(item: object) -> bool:
    """Not iterators: where they are is told otherwise, and what is under way in them is not to be written to."""
    kind = type(item)
    return not (isinstance(item, _NOT_WALKED) or hasattr(kind, "__next__") or kind.__module__.partition(".")[0] in _NOT_STATE)


def _is_scalar(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return type(value) in SCALARS or (numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject)


def change_in_place(value: object, most: int) -> str | None:
    """How a thing can change: generator, array, tensor, list, container; None if it cannot, or is too large."""
    if isinstance(value, random.Random):
        return None if isinstance(value, random.SystemRandom) else "generator"
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value).__module__.startswith("numpy"):
        if isinstance(value, numpy.ndarray):
            large = value.nbytes > most or isinstance(value, numpy.memmap)
            return None if large or value.dtype.hasobject else "array"
        numpy_random = sys.modules.get("numpy.random")
        drawing = () if numpy_random is None else (numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)
        return "generator" if isinstance(value, drawing) else None
    torch = sys.modules.get("torch")
    if torch is not None:
        if isinstance(value, torch.Generator):
            return "generator"
        if isinstance(value, torch.Tensor):
            small = value.layout is torch.strided and value.device.type == "cpu" and value.nbytes <= most
            return "tensor" if small and type(value) is torch.Tensor else None
    if type(value) in (list, deque):
        return "list" if 8 * len(value) <= most else "container"  # type: ignore[arg-type]
    return "container" if isinstance(value, (list, deque, dict, set, bytearray)) else None


def _below(value: object) -> Iterator[tuple[str, Any, Any, Any]]:
    """(step of the name, item, holder that can be written to, key) of what an object holds."""
    if isinstance(value, dict):
        if len(value) <= MAX_WALKED:
            yield from ((f"[{key!r}]", item, value, key) for key, item in list(value.items()) if type(key) in SCALARS)
        return
    if isinstance(value, (list, tuple, deque)):
        if len(value) <= MAX_WALKED:  # its own scalars are taken with the list
            yield from ((f"[{number}]", item, None, None) for number, item in enumerate(list(value)))
        return
    if isinstance(value, types.MethodType):
        yield ".__self__", value.__self__, None, None
    elif isinstance(value, functools.partial):
        yield from ((f".args[{number}]", item, None, None) for number, item in enumerate((value.func, *value.args)))
        yield from ((f".keywords[{key!r}]", item, None, None) for key, item in value.keywords.items())
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                yield f".<{name}>", cell.cell_contents, _Cell(cell), None
            except ValueError:
                continue  # not filled yet
    elif not _is_tensor_like(value):
        yield from _attributes(value)


def _dict_of(value: object) -> dict[str, Any] | None:
    if isinstance(value, (*_NOT_WALKED, types.FunctionType, types.MethodType)):
        return None
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if isinstance(attributes, dict) else None


def _attributes(value: object) -> Iterator[tuple[str, Any, Any, Any]]:
    attributes = _dict_of(value) or {}
    yield from ((f".{key}", item, attributes, key) for key, item in list(attributes.items()))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots):
            member = kind.__dict__.get(slot)
            if isinstance(member, types.MemberDescriptorType):
                try:
                    yield f".{slot}", member.__get__(value), _Slot(value, member), None
                except AttributeError:
                    continue


class _Cell:
    """A closure's cell, written to like attributes."""

    def __init__(self, cell: types.CellType) -> None:
        self.cell = cell

    def __getitem__(self, _: object) -> Any:
        return self.cell.cell_contents

    def __setitem__(self, _: object, value: Any) -> None:
        self.cell.cell_contents = value


class _Slot:
    """A slot of an object, written to like attributes."""

    def __init__(self, owner: object, member: Any) -> None:
        self.owner = owner
        self.member = member

    def __getitem__(self, _: object) -> Any:
        return self.member.__get__(self.owner)

    def __setitem__(self, _: object, value: Any) -> None:
        self.member.__set__(self.owner, value)


def _is_tensor_like(value: object) -> bool:
    return hasattr(type(value), "dtype") and hasattr(type(value), "shape")


# Values


def take(root: object, stop: tuple[object, ...] = (), most: int = MAX_COPIED) -> Values:
    """A copy of everything that may change below an object, to be compared and kept later."""
    return {place.name: value for place in places(root, stop, most) if (value := copied(place)) is not None}


def glance(root: object) -> Values:
    """The same for an object that may be large, a dataset: scalars and generators, and how long its containers are."""
    seen: Values = {}
    for place in places(root):
        if place.kind in ("scalar", "generator"):
            seen[place.name] = copied(place)
        elif place.kind in ("list", "container"):
            seen[place.name] = ("size", len(place.holder))
    return seen


def copied(place: Place) -> Any:
    """What is at a place now, as a value of its own; None if it is nothing plain."""
    thing = place.holder
    if place.kind == "scalar":
        value = thing[place.key]
        return ("=", value) if type(value) in SCALARS else ("number", value.dtype.str, value.tobytes())
    if place.kind in ("object", "container"):
        return None
    if place.kind == "generator":
        return "generator", streams.generator_state(thing)
    if place.kind == "array":
        return "array", thing.dtype.str, thing.tobytes()
    if place.kind == "tensor":
        return _tensor(thing)
    return _items(thing)


def _tensor(thing: Any) -> Any:
    flat = thing.detach().contiguous()
    return "tensor", str(flat.dtype), streams.tensor_bytes(flat.view(-1).view(sys.modules["torch"].uint8)) if flat.numel() else b""


def _items(thing: Any) -> Any:
    items = list(thing)
    kinds = set(map(type, items))
    if kinds == {int}:
        try:
            return "ints", array("q", items).tobytes()
        except OverflowError:
            pass
    return ("items", items) if kinds.issubset(SCALARS) else None


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Values, Values]:
    """(before, after) of the places that are in both and differ."""
    differ = [name for name, value in before.items() if name in after and after[name] != value]
    return {name: before[name] for name in differ}, {name: after[name] for name in differ}


def put_back(root: object, values: Mapping[str, Any], stop: tuple[object, ...] = (), most: int = MAX_COPIED) -> list[str]:
    """Write values to their places, in place; the names of those that were not found."""
    if not values:
        return []
    left = dict(values)
    for place in list(places(root, stop, most)):
        if place.name in left and write(place, left[place.name]):
            del left[place.name]
    return sorted(left)


def write(place: Place, value: Any) -> bool:
    """Write a value to its place; False if something else is there."""
    thing, kind = place.holder, value[0]
    if kind in ("=", "number") and place.kind == "scalar":
        thing[place.key] = value[1] if kind == "=" else sys.modules["numpy"].frombuffer(value[2], dtype=value[1])[0]
    elif kind == "generator" and place.kind == "generator":
        return streams.set_generator_state(thing, value[1])
    elif kind in ("ints", "items") and place.kind == "list":
        items = array("q", value[1]).tolist() if kind == "ints" else value[1]
        if isinstance(thing, deque):
            thing.clear()
            thing.extend(items)
        else:
            thing[:] = items
    elif kind == place.kind and kind in _MEMORY:
        return _MEMORY[kind](thing, value)
    else:
        return False
    return True


def _write_array(thing: Any, value: Any) -> bool:
    if thing.dtype.str != value[1] or thing.nbytes != len(value[2]) or not thing.flags.writeable:
        return False
    thing[...] = sys.modules["numpy"].frombuffer(value[2], dtype=value[1]).reshape(thing.shape)
    return True


def _write_tensor(thing: Any, value: Any) -> bool:
    if str(thing.dtype) != value[1] or thing.nbytes != len(value[2]):
        return False
    torch = sys.modules["torch"]
    if value[2]:
        with torch.no_grad():
            thing.copy_(torch.frombuffer(bytearray(value[2]), dtype=thing.dtype).view(thing.shape))
    return True


_MEMORY: dict[str, Callable[[Any, Any], bool]] = {"array": _write_array, "tensor": _write_tensor}
