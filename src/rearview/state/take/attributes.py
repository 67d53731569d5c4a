"""What an object holds beside its content: its `__dict__` and its slots, read without asking any property of its class."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterable
from typing import Any

from rearview.state.take.walk import Taker, Uncapturable, Walk
from rearview.state.tree import NONE, NOTHING, Node

DICT_OF = type.__dict__["__dict__"].__get__  # a class's own namespace, whatever its metaclass says

UNSET = object()
_of_object = object.__getattribute__


def slot_members(kind: type) -> list[tuple[str, Any]]:
    """The slots of a class and its bases, by the name the class knows them by (mangled where it is private)."""
    members: dict[str, Any] = {}
    for base in kind.__mro__:
        namespace = DICT_OF(base)
        if "__slots__" in namespace:
            for name, member in namespace.items():
                if isinstance(member, types.MemberDescriptorType):
                    members.setdefault(name, member)
    return sorted(members.items())


def plain_layout(kind: type) -> bool:
    """Whether `__dict__` and slots are all that objects of a class consist of (nothing hidden in C)."""
    expected = object.__basicsize__ + 8 * len(slot_members(kind))
    expected += 8 * (kind.__dictoffset__ > 0) + 8 * (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= expected


def own_dict(value: Any) -> dict[str, Any] | None:
    """An object's `__dict__`, if it has one."""
    if type(value).__dictoffset__ == 0:
        return None
    try:
        found = _of_object(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def attributes_of(value: Any) -> list[tuple[str, Any]]:
    """What an object holds, by name; UNSET for an empty slot."""
    found: list[tuple[str, Any]] = [(str(name), held) for name, held in (own_dict(value) or {}).items()]
    for name, member in slot_members(type(value)):
        try:
            found.append((name, member.__get__(value, type(value))))
        except AttributeError:
            found.append((name, UNSET))
    return found


def take_attrs(leave: tuple[str, ...] = ()) -> Taker:
    """The taker of an object's `__dict__`; `leave` names what is not ours to keep (hooks)."""
    left = frozenset(leave)

    def take(walk: Walk, value: dict[str, Any]) -> Node:
        if type(value) is not dict:
            raise Uncapturable("a __dict__ that is not a dict")
        if walk.omit is None:
            names = tuple(value)
            shape = walk.cache.get((left, names))
            if shape is None:
                shape = walk.cache[left, names] = _shape(walk, names, leave)
            if shape and all(map(operator.is_, names, shape[0])):
                _, payload, values = shape
                payload = payload.copy()
                payload[2::2] = walk.slots(values(value))
                return ("attrs", tuple(payload))
        items = walk.without(list(value.items()), ".{}".format)
        head = walk.slot(leave) if left else NONE
        return ("attrs", (head, *walk.slots([part for item in items if item[0] not in left for part in item])))

    return take


_Shape = tuple[tuple[str, ...], list[int], Callable[[dict[str, Any]], Iterable[Any]]]
"""Names, the payload without the values, and what gives these out."""


def _shape(walk: Walk, names: tuple[Any, ...], leave: tuple[str, ...]) -> _Shape | tuple[()]:
    """What all objects with attributes of these names have in common; nothing if it is not worth it."""
    kept = [name for name in names if name not in leave]
    if len(kept) < 2 or any(type(name) is not str for name in names):
        return ()
    numbers = walk.slots(kept)
    payload = [walk.slot(leave) if leave else NONE, *(part for number in numbers for part in (number, NONE))]
    return names, payload, operator.itemgetter(*kept)


_TAKE_ATTRS = take_attrs()


def attributes(walk: Walk, value: Any, taker: Taker = _TAKE_ATTRS) -> list[int]:
    """The payload of an object's attributes: the node of its `__dict__`, then names and values of its slots."""
    kind = type(value)
    members = walk.members.get(kind)
    if members is None:
        members = walk.members[kind] = slot_members(kind)
    namespace = own_dict(value)
    if not members and type(namespace) is dict and namespace is not value:  # most objects
        return [walk.taken_now(namespace, taker)]
    if namespace is None:
        payload = [NONE]
    elif namespace is value or type(namespace) is not dict:
        payload = [walk.slot(namespace)]
    else:
        payload = [walk.taken_now(namespace, taker)]
    for name, member in members:
        payload.append(walk.slot(name))
        try:
            held = member.__get__(value, kind)
        except AttributeError:
            payload.append(NOTHING)
        else:
            payload.append(walk.slot(held))
    return payload
