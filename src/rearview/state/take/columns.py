"""The comparison of `again`, for a whole table at once: thousands of modules and tensors column by column, by C code.

Compiled from a table and the objects that were just compared with it one by one. Live values lie in one long list, in which each step
finds its containers and to which it adds what they hold; at the end every object must stand for one node and every node for one object.
What there is little of is left to `again`. Nothing of the program is held but its texts, numbers and classes.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rearview.state.buffers import LiveBuffer
from rearview.state.take.again import Again, Differs
from rearview.state.take.attributes import own_dict, slot_members
from rearview.state.take.kept import Mark
from rearview.state.tree import NONE, RootKey

_namespace = operator.attrgetter("__dict__")
_BUILT_IN: tuple[type, ...] = (list, tuple, set, frozenset)
Step = Callable[[Again, list[Any]], None]


def _picker(places: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """What gets several items of a list."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda live: [live[place] for place in places]


def _require(holds: bool) -> None:
    if not holds:
        raise Differs


class Program:
    """A table, compiled."""

    def __init__(self, again: Again, marks: Sequence[Mark], roots: Mapping[RootKey, object]) -> None:
        self._keys = [mark.key for mark in marks]
        self._paired = marks[-1].paired
        self._steps: list[Step] = []
        self._rest: list[tuple[int, int]] = []
        """Nodes that are looked at one by one, and where their objects lie."""
        self._claimed = bytearray(len(again.nodes))
        live = [roots[key] for key in self._keys]
        self._objects: list[tuple[int, int]] = []
        atoms: list[int] = []
        found: dict[int, int] = {}
        wave: list[int] = []

        def meet(first: int, numbers: Iterable[int]) -> None:
            for place, number in enumerate(numbers, start=first):
                if type(live[place]) in again.interned:
                    atoms.append(place)
                    continue
                self._objects.append((place, number))
                if number not in found:
                    found[number] = place
                    self._claimed[number] = 1
                    if number not in again.fixed:
                        wave.append(number)

        meet(0, [mark.number for mark in marks])
        while wave:
            groups: dict[Any, list[int]] = {}
            for number in wave:
                groups.setdefault(_group(again, number, live[found[number]]), []).append(number)
            wave.clear()
            for (kind, *_), members in groups.items():
                places = [found[number] for number in members]
                if kind not in _STEPS:
                    self._rest += zip(members, places, strict=True)
                    continue
                step, children = _STEPS[kind](again, members, [live[place] for place in places], _picker(places))
                begin = len(live)
                step(again, live) if kind != "tensor" else live.extend(_added(again, members, live, places))
                self._steps.append(step)
                meet(begin, children)
        self._count = len(found)
        self._places, self._numbers = _picker([place for place, _ in self._objects]), [number for _, number in self._objects]
        self._atoms, self._held = _picker(atoms), [live[place] for place in atoms]

    def run(self, again: Again, roots: Mapping[RootKey, object]) -> bool:
        """Whether the roots are what the table says; the walk has what it needs then."""
        try:
            live = [roots[key] for key in self._keys]
            again.keep.append(live)
            for step in self._steps:
                step(again, live)
            ids = list(map(id, self._places(live)))
            memo = dict(zip(ids, self._numbers, strict=True))
            _require(len(memo) == self._count and list(map(memo.__getitem__, ids)) == self._numbers)
            atoms = self._atoms(live)
            if not all(map(operator.is_, atoms, self._held)):  # other objects, perhaps of the same value
                _require(list(map(type, atoms)) == list(map(type, self._held)) and [*atoms] == self._held)
            again.follow(memo, self._claimed, [(number, live[place]) for number, place in self._rest])
        except Exception:  # noqa: BLE001 (it differs, or raises when it is looked at)
            return False
        complete = not (again.missing or again.pickled or None in again.found)
        return complete and len(again.memo) == self._paired and again.is_one_to_one()


def _group(again: Again, number: int, value: Any) -> tuple[Any, ...]:
    """What is compared together."""
    kind, payload = again.nodes[number]
    if kind == "float":
        return ("float",)
    if kind == "obj" and len(payload) == 2 and type(own_dict(value)) is dict and _plain(type(value)):
        return ("obj",)
    if kind == "attrs":
        return ("attrs", payload[0], *value)
    if kind == "dict" and type(value) is dict and payload[0] == NONE:
        return ("named" if all(type(key) is str for key in value) else "dict",)
    if type(value) in _BUILT_IN and kind == type(value).__name__ and payload[0] == NONE:
        return ("items",)
    if kind == "tensor" and number in again.kept.facts and again.nodes[payload[2]][0] == "buffer" and value.is_cpu:
        return ("tensor", type(value))
    return ("rest",)


def _plain(kind: type) -> bool:
    reads: Any = kind.__getattribute__
    return reads is object.__getattribute__ and not slot_members(kind)


def _objects(again: Again, members: list[int], _values: list[Any], pick: Any) -> tuple[Step, list[int]]:
    def step(_again: Again, live: list[Any]) -> None:
        values = pick(live)
        kinds = list(map(type, values))
        _require(all(map(_plain, set(kinds))))
        live += kinds
        live += map(_namespace, values)

    payloads = [again.nodes[number][1] for number in members]
    return step, [payload[0] for payload in payloads] + [payload[1] for payload in payloads]


def _attributes(again: Again, members: list[int], values: list[Any], pick: Any) -> tuple[Step, list[int]]:
    payloads = [again.nodes[number][1] for number in members]
    names = [[*values[0]]] * len(members)
    wanted = [again.nodes[number][1] for number in payloads[0][1::2]]
    get = operator.itemgetter(*wanted) if len(wanted) > 1 else lambda value: [value[name] for name in wanted]

    def step(_again: Again, live: list[Any]) -> None:
        values = pick(live)
        _require(set(map(type, values)) == {dict} and list(map(list, values)) == names)
        live += itertools.chain.from_iterable(map(get, values))

    return step, [child for payload in payloads for child in payload[2::2]]


def _named(again: Again, members: list[int], values: list[Any], pick: Any) -> tuple[Step, list[int]]:
    keys = [list(value) for value in values]

    def step(_again: Again, live: list[Any]) -> None:
        values = pick(live)
        _require(set(map(type, values)) == {dict} and list(map(list, values)) == keys)
        live += itertools.chain.from_iterable(map(dict.values, values))

    return step, [child for number in members for child in again.nodes[number][1][3::2]]


def _dicts(again: Again, members: list[int], values: list[Any], pick: Any) -> tuple[Step, list[int]]:
    lengths = [len(value) for value in values]

    def step(_again: Again, live: list[Any]) -> None:
        values = pick(live)
        _require(set(map(type, values)) == {dict} and list(map(len, values)) == lengths)
        live += list(itertools.chain.from_iterable(values))
        live += itertools.chain.from_iterable(map(dict.values, values))

    payloads = [again.nodes[number][1] for number in members]
    return step, [child for first in (2, 3) for payload in payloads for child in payload[first::2]]


def _items(again: Again, members: list[int], values: list[Any], pick: Any) -> tuple[Step, list[int]]:
    kinds, lengths = [type(value) for value in values], [len(value) for value in values]

    def step(_again: Again, live: list[Any]) -> None:
        values = pick(live)
        _require(list(map(type, values)) == kinds and list(map(len, values)) == lengths)
        live += itertools.chain.from_iterable(values)

    return step, [child for number in members for child in again.nodes[number][1][2:]]


def _floats(_again: Again, members: list[int], _values: list[Any], pick: Any) -> tuple[Step, list[int]]:
    def step(again: Again, live: list[Any]) -> None:
        nodes, values = again.nodes, pick(live)
        _require(set(map(type, values)) == {float})
        for number, value in zip(members, values, strict=True):
            if nodes[number][1] is not value:
                nodes[number] = ("float", value)

    return step, []


Column = Callable[[Any], Any]
_FACTS: list[Column] = [operator.attrgetter(name) for name in ("dtype", "device", "layout", "requires_grad", "is_leaf", "is_cpu")]
_METHODS: list[Column] = [operator.methodcaller(name) for name in ("size", "stride", "storage_offset", "is_conj", "is_neg")]
_grad, _version, _storage = operator.attrgetter("grad"), operator.attrgetter("_version"), operator.methodcaller("untyped_storage")
_address, _size = operator.methodcaller("data_ptr"), operator.methodcaller("nbytes")


def _columns(values: Sequence[Any]) -> list[list[Any]]:
    return [list(map(fact, values)) for fact in (*_FACTS, *_METHODS)]


def _tensors(again: Again, members: list[int], values: list[Any], pick: Any) -> tuple[Step, list[int]]:
    payloads = [again.nodes[number][1] for number in members]
    numbers = [payload[2] for payload in payloads]
    indexes = [again.nodes[number][1] for number in numbers]
    sizes = [again.kept.sizes[index] for index in indexes]
    hints = [_found(again, index).constant_hint for index in indexes]
    columns, kind, own_class = _columns(values), type(values[0]), payloads[0][0]

    def step(again: Again, live: list[Any]) -> None:
        values = pick(live)
        _require(set(map(type, values)) == {kind} and _columns(values) == columns and not any(map(_namespace, values)))
        live += [kind] if own_class != NONE else []
        live += map(_grad, values)
        storages = list(map(_storage, values))
        _require(list(map(_size, storages)) == sizes)
        _hold(again, zip(map(_address, storages), sizes, storages, numbers, indexes, hints, map(_version, values), strict=True))

    return step, [*([own_class] if own_class != NONE else []), *(payload[4] for payload in payloads)]


def _found(again: Again, index: int) -> LiveBuffer:
    buffer = again.found[index]
    assert buffer is not None
    return buffer


def _hold(again: Again, rows: Iterable[tuple[Any, ...]]) -> None:
    """Live memory of tensors, each node of it for one allocation."""
    places, known, found, held = again.places, again.buffer_nodes, again.found, again.held_memory
    for address, size, storage, number, index, hint, version in rows:
        key = ("cpu", address, size)
        if key in known:
            _require(known[key] == number)
            buffer = _found(again, index)
            buffer.version = max(buffer.version or 0, version)
            continue
        _require(number not in held)
        held.add(number)
        known[key] = number
        buffer = found[index] = LiveBuffer(key, size, storage, address, lambda at=number: places.of(at), storage)  # type: ignore[misc]
        buffer.version = version
        buffer.constant_hint = hint


def _added(again: Again, members: list[int], live: list[Any], places: list[int]) -> list[Any]:
    """What the step for tensors adds, without holding their memory."""
    values = [live[place] for place in places]
    return [*([type(values[0])] if again.nodes[members[0]][1][0] != NONE else []), *map(_grad, values)]


_STEPS: dict[str, Callable[[Again, list[int], list[Any], Any], tuple[Step, list[int]]]] = {
    "obj": _objects,
    "attrs": _attributes,
    "named": _named,
    "dict": _dicts,
    "items": _items,
    "float": _floats,
    "tensor": _tensors,
}
