"""The walk over objects that were walked before: whether they still are what a table of nodes says, without making it anew.

Each object is paired with the node it had, from the roots on. What a container holds is compared at once, by identity; where that
differs, one by one. Numbers and memory may be others than before: they are put into the table. Anything else that differs ends the
comparison, and whoever asked walks in earnest. Nothing of the program is held beyond one walk.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from rearview.state.buffers import LiveBuffer
from rearview.state.take import walk as walking
from rearview.state.take.attributes import own_dict, slot_members
from rearview.state.take.kept import Kept, Mark, Quick
from rearview.state.take.objects import take_reduced, take_state
from rearview.state.take.tensors import storage_buffer, take_tensor
from rearview.state.take.walk import Taker, Walk
from rearview.state.tree import NONE, Node

UNSTEADY = frozenset(("adapted", "getset", "reduce", "live", "file", "text"))
"""Kinds that are taken by asking the object, which is done once, or that would hold much of the program's memory."""
_ASK_THE_OBJECT = (take_reduced, take_state)
_MEMORY_AT = {"tensor": 2, "quantized": 2, "nparray": 2}


class Differs(Exception):
    """A live object is not what the table says."""


class Again(Walk):
    """A walk in step with a table."""

    def __init__(self, walk: Walk, kept: Kept, objects: list[tuple[tuple[str, str], Any]]) -> None:
        # Everything is that walk's, or the table's.
        self.kept = kept
        self.nodes = list(kept.nodes)
        self.parents = kept.parents
        self.tree = walk.tree
        self.places = walk.places
        self.interned = kept.interned
        self.cache = dict(kept.cache)
        self.memo = {}
        self.keep = walk.keep
        self.pending = []
        self.at = 0
        self.found: list[LiveBuffer | None] = [None] * len(kept.sizes)
        self.buffers = self.found  # type: ignore[assignment]
        self.buffer_nodes = {}
        self.missing = []
        self.pickled = []
        self.omit = None
        self.members, self.at_work = walk.members, walk.at_work
        self.families, self.adapters, self.takers = walk.families, walk.adapters, walk.takers
        self.new_memory = False
        self._todo: list[tuple[int, Any]] = []
        self._claimed = bytearray(len(kept.nodes))
        self.held_memory: set[int] = set()
        self.fixed = frozenset(kept.names.values())
        for name, value in objects:
            self.memo[id(value)] = kept.names[name]
            self.keep.append(value)

    def check(self, mark: Mark, value: object) -> bool:
        """Whether a root and everything that it reaches is as it was. What was found of one that is not is forgotten."""
        sizes = [(table, len(table)) for table in (self.memo, self.buffer_nodes)]
        if self._is_as_it_was(mark, value):
            return True
        for table, size in sizes:  # new objects were taken for nodes that they are not, as a number for None
            for key in [*table][size:]:
                del table[key]
        return False

    def _is_as_it_was(self, mark: Mark, value: object) -> bool:
        try:
            self.pair(mark.number, value)
            self._check_all()
        except Exception:  # noqa: BLE001 (it differs, or raises when it is looked at: the walk in earnest will say so)
            self._todo.clear()
            return False
        if self.missing or self.pickled or None in self.found[: mark.buffers]:
            return False
        mark.paired = mark.paired or len(self.memo)
        return len(self.memo) == mark.paired  # fewer: one object stands for two

    def follow(self, memo: dict[int, int], claimed: bytearray, rest: list[tuple[int, Any]]) -> None:
        """Go on where most was compared already."""
        if any(memo.get(identity, number) != number for identity, number in self.memo.items()):
            raise Differs
        self.memo.update(memo)
        self._claimed[:] = claimed
        for number in self.held_memory:
            self._claimed[number] = 1
        self._todo += rest
        self._check_all()

    def _check_all(self) -> None:
        todo, nodes = self._todo, self.nodes
        while todo:
            number, held = todo.pop()
            self.at = number
            kind = nodes[number][0]
            checker = _CHECKERS.get(kind)
            if checker is not None:
                checker(self, number, held)
            elif kind in UNSTEADY:
                raise Differs
            else:
                self.retake(number, held)

    def is_one_to_one(self) -> bool:
        """Whether no node stands for two objects."""
        return len(set(self.memo.values())) == len(self.memo)

    def holds(self, quick: Quick | None, parts: Sequence[Any]) -> bool:
        """Whether a container holds the very things it held; these are looked at then."""
        if quick is None or quick.ids != tuple(map(id, parts)):
            return False
        for at, _, kind in quick.empty:
            if parts[at] or type(parts[at]) is not kind:
                return False
        claimed, todo, memo = self._claimed, self._todo, self.memo
        self.keep.append(parts)
        for identity, child in quick.links.items():
            if memo.setdefault(identity, child) != child:
                raise Differs
        for at, child in quick.inner:
            if not claimed[child]:
                claimed[child] = 1
                todo.append((child, parts[at]))
        for _, child, _ in quick.empty:
            claimed[child] = 1
        return True

    def pair(self, number: int, value: Any) -> None:
        """This object is to be what the table has under that number; the same one everywhere."""
        table = self.interned.get(type(value))
        if table is not None:
            if table.get(value) != number:
                raise Differs
            return
        identity = id(value)
        known = self.memo.get(identity)
        if known is None:
            if self._claimed[number]:
                raise Differs
            self._claimed[number] = 1
            self.memo[identity] = number
            self.keep.append(value)
            self._todo.append((number, value))
        elif known != number:
            raise Differs

    def retake(self, number: int, value: Any) -> None:
        """Take an object as a walk would, and compare."""
        taker = self.takers.get(type(value))
        if taker is None:
            taker = self.takers[type(value)] = self._decide(type(value))
        if taker in _ASK_THE_OBJECT or taker.__module__ == walking.__name__ or taker(self, value) != self.nodes[number]:
            raise Differs

    # What takers ask for

    def slot(self, value: Any) -> int:
        """The number of a value that is known."""
        table = self.interned.get(type(value))
        number = self.memo.get(id(value)) if table is None else table.get(value)
        if number is None:
            number = self.kept.memo.get(id(value)) if table is None else None
            if number is None:
                raise Differs
            self.pair(number, value)
        return number

    def slots(self, values: Iterable[Any]) -> list[int]:
        """The numbers of values that are known."""
        return [self.slot(value) for value in values]

    def slot_as(self, value: Any, _taker: Taker) -> int:
        """Like `slot`: what it is taken for is in the table."""
        return self.slot(value)

    def add(self, node: Node) -> int:
        """Nothing is added."""
        raise Differs

    def buffer(self, *_args: Any, **_named: Any) -> int:
        """Memory is only found where it was."""
        raise Differs

    def memory(self, key: Hashable, nbytes: int, owner: object, address: int, storage: Any = None) -> tuple[int, LiveBuffer | None]:
        """The memory of the object at hand, which must be as large and shared by the same objects as before."""
        kind, payload = self.nodes[self.at]
        number = payload[_MEMORY_AT[kind]]
        known = self.buffer_nodes.get(key)
        what, index = self.nodes[number]
        if known is not None:
            if known != number:
                raise Differs
            self.new_memory = False
            return number, self.found[index] if what == "buffer" else None
        if self._claimed[number]:
            raise Differs
        self._claimed[number] = 1
        self.buffer_nodes[key] = number
        if what == "small":
            if len(index) != nbytes or (nbytes and not address):
                raise Differs
            self.keep.append(owner)
            if nbytes:
                self.nodes[number] = ("small", ctypes.string_at(address, nbytes))
            return number, None
        if self.kept.sizes[index] != nbytes:
            raise Differs
        places = self.places
        made = self.found[index] = LiveBuffer(key, nbytes, owner, address, lambda: places.of(number), storage=storage)
        self.new_memory = True
        return number, made


# One checker for each kind that there is much of


def _float(again: Again, number: int, value: Any) -> None:
    node = again.nodes[number]
    if node[1] is not value:
        if type(value) is not float:
            raise Differs
        again.nodes[number] = ("float", value)


def _tensor(again: Again, number: int, value: Any) -> None:
    payload = again.nodes[number][1]
    facts = again.kept.facts.get(number)
    if facts is not None and type(value) is facts[0]:
        if facts == _facts(value) and not object.__getattribute__(value, "__dict__"):
            if payload[0] != NONE and again.memo.get(id(facts[0])) != payload[0]:
                again.pair(payload[0], facts[0])
            grad = value.grad
            if grad is not None or payload[4] != NONE:
                again.pair(payload[4], grad)  # a new one with every backward pass
            if storage_buffer(again, value) == payload[2]:
                return
        raise Differs
    if again.takers.get(type(value)) is not take_tensor:
        raise Differs
    if payload[4] != NONE and value.is_leaf and value.grad is not None:
        again.pair(payload[4], value.grad)
    again.retake(number, value)
    if value.is_leaf and payload[5] == NONE and not object.__getattribute__(value, "__dict__"):
        again.kept.facts[number] = _facts(value)


def _facts(tensor: Any) -> tuple[Any, ...]:
    """Everything that the node of a plain tensor is made of."""
    return (
        type(tensor),
        tensor.dtype,
        tensor.device,
        tensor.layout,
        tensor.size(),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.is_conj(),
        tensor.is_neg(),
    )


def _object(again: Again, number: int, value: Any) -> None:
    payload = again.nodes[number][1]
    kind = type(value)
    members = again.members.get(kind)
    if members is None:
        members = again.members[kind] = slot_members(kind)
    namespace = own_dict(value)
    if members or len(payload) > 2 or type(namespace) is not dict or payload[1] == NONE:
        again.retake(number, value)
        return
    if again.memo.get(id(kind)) != payload[0]:
        again.pair(payload[0], kind)
    again.pair(payload[1], namespace)


def _attributes(again: Again, number: int, value: Any) -> None:
    """An object's attributes. Those left out are not touched: a module has a dozen of them, all in memory that is seldom used."""
    if type(value) is not dict:
        raise Differs
    quick = again.kept.quick.get(number)
    if quick is not None and quick.names == [*value] and again.holds(quick, quick.wanted(value)):
        return
    payload = again.nodes[number][1]
    left = {again.nodes[child][1] for child in again.nodes[payload[0]][1][2:]} if payload[0] != NONE else ()
    wanted = [name for name in value if name not in left]
    if len(payload) != 1 + 2 * len(wanted) or [again.interned[str].get(name) for name in wanted] != payload[1::2]:
        raise Differs
    quick = _each(again, number, [value[name] for name in wanted], payload[2::2])
    if len(wanted) > 1:
        quick.names, quick.wanted = [*value], operator.itemgetter(*wanted)


def _dict(again: Again, number: int, value: Any) -> None:
    payload = again.nodes[number][1]
    if type(value) is not dict or payload[0] != NONE:
        again.retake(number, value)
    elif value or len(payload) > 2:
        parts = [*value, *value.values()]
        _parts(again, number, parts, [*payload[2::2], *payload[3::2]])


def _items(again: Again, number: int, value: Any) -> None:
    """The items of a list, tuple or set."""
    kind, payload = again.nodes[number]
    if type(value) is not _BUILT_IN[kind] or payload[0] != NONE:
        again.retake(number, value)
    elif value or len(payload) > 2:
        _parts(again, number, list(value), payload[2:])


def _parts(again: Again, number: int, parts: list[Any], children: list[int]) -> None:
    """What a container holds: all at once, or one by one."""
    if not again.holds(again.kept.quick.get(number), parts):
        _each(again, number, parts, children)


def _each(again: Again, number: int, parts: list[Any], children: list[int]) -> Quick:
    """Compare one by one, and remember what was found."""
    if len(parts) != len(children):
        raise Differs
    interned = again.interned
    for part, child in zip(parts, children, strict=True):
        again.pair(child, part)
    links: dict[int, int] = {}
    inner: list[tuple[int, int]] = []
    empty: list[tuple[int, int, type]] = []
    for at, (part, child) in enumerate(zip(parts, children, strict=True)):
        if type(part) not in interned:
            links[id(part)] = child
            if type(part) in _CAN_BE_EMPTY and not part and again.nodes[child] == (type(part).__name__, [NONE, NONE]):
                empty.append((at, child, type(part)))
            else:
                inner.append((at, child))
    held = [part for part in parts if type(part) in interned]
    quick = again.kept.quick[number] = Quick(tuple(map(id, parts)), links, inner, empty, held)
    return quick


_CAN_BE_EMPTY = (dict, set, list)
_BUILT_IN: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_CHECKERS: dict[str, Callable[[Again, int, Any], None]] = {
    "float": _float,
    "tensor": _tensor,
    "obj": _object,
    "attrs": _attributes,
    "dict": _dict,
    "list": _items,
    "tuple": _items,
    "set": _items,
    "frozenset": _items,
}
