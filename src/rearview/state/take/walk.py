"""The walk over live objects: each object once, numbered as it is met, without recursion.

Knows which family of kinds takes which type of object (decided once per type and walk), how atoms are shared, and how a node
is called in messages. It changes nothing of what it meets: no property is asked, nothing is drawn from a random stream.
"""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from rearview.state.buffers import LiveBuffer
from rearview.state.places import Places, root_text
from rearview.state.regions import Region
from rearview.state.tree import FIRST, NONE, Node, RootKey, Tree
from rearview.store.encoding import type_name

Taker = Callable[["Walk", Any], Node]
Omit = Callable[[str, object], bool]

identity = object.__hash__
"""One number for each object, made of its address. `id` tells the audit hooks of the process whenever it is called: ten times as slow."""
INLINE_BYTES = 4096
"""Packed data up to this size stays in the tree; larger data becomes a buffer, so that it is stored once if it stays the same."""
SMALL_BYTES = 256
"""Memory up to this size is copied into the tree: a buffer of its own would cost more than it holds."""
LONG_TEXT = 1 << 16
_MOST_UNLIKE = 1000
_ATOMS = frozenset((type(None), bool, int, float, str, bytes))
_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1


class Uncapturable(Exception):
    """Raised by a taker: this object cannot be kept, and why."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Stands at a root for what no state can hold, and says why."""

    value: object
    why: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a state does not hold; it stays what it is in the live program."""

    where: str
    type_name: str
    why: str


class Adapter(Protocol):
    """Knows objects that hold a position or live in another process: iterators, loaders."""

    name: str

    def fits(self, kind: type) -> bool:
        """Whether it takes objects of that type; asked once per type and walk."""

    def take(self, value: Any) -> object:
        """What is to be kept of it (walked like any object); raises `Uncapturable`."""

    def put(self, live: Any, state: Any) -> object:
        """Put the state into the live object at the same place (None: there is none); the object to use from then on."""

    def settle(self) -> object:
        """Everything is restored but the random generators: what `put` left for later is done now."""


class Walk:
    """One capture on its way."""

    def __init__(self, families: Iterable[Any], adapters: Iterable[Adapter] = (), omit: Omit | None = None) -> None:
        self.tree = Tree()
        self.nodes = self.tree.nodes
        self.parents: list[int] = [0] * len(FIRST)
        self.places = Places(self.nodes, self.parents, self.tree.roots)
        self.memo: dict[int, int] = {}
        self.keep: list[object] = []
        """Everything met, so that no address is used twice during the walk."""
        self.pending: list[tuple[int, Any, Taker]] = []
        self.at = 0
        self.buffers: list[LiveBuffer] = []
        self.buffer_nodes: dict[Hashable, int] = {}
        self.missing: list[Missing] = []
        self.unlike: list[Missing] = []
        """What comes back otherwise than the program had it: a question about it is not answered from this state."""
        self.pickled: list[int] = []
        self.mapped: set[str] = set()
        """Files that are written through memory."""
        self.region: Region | None = None
        """What was taken over from the state before."""
        self.hooked: list[tuple[int, Any]] | None = None
        """What has hooks, where somebody wants to know."""
        self.omit = omit
        self.cache: dict[Hashable, Any] = {}
        """What families remember during one walk."""
        self.members: dict[type, list[tuple[str, Any]]] = {}
        """The slots of classes."""
        self.new_memory = False
        """Whether the memory last asked for was met for the first time."""
        self.at_work: dict[type, bool] = {}
        """Whether objects of a class are threads or processes."""
        self.plain: Callable[[Any, type, Taker], bool] | None = None
        """What is walked for the time being; None: everything."""
        self.deferred: dict[int, None] = {}
        """Nodes that hold something that is not walked yet."""
        self.taken: dict[int, tuple[Any, Taker]] = {}
        """What was walked since then, by number."""
        self.grads: list[tuple[int, Any]] = []
        """Gradients that are to be walked, and the nodes of their tensors."""
        self.families = list(families)
        self.adapters = list(adapters)
        self.takers: dict[type, Taker] = {_LeftOut: _take_left_out}
        for family in self.families:
            self.takers.update(family.takers())
        for adapter in self.adapters:  # they know better, also about types that a family names
            self.takers.update({kind: _taker_of(adapter) for kind in self.takers if adapter.fits(kind)})
        self.empties: dict[type, tuple[Node, Callable[[Any], bool]]] = {}
        """How containers are taken that hold nothing, if they say yes to a question: most modules have several, which need no walk."""
        for family in [] if omit else self.families:
            found = getattr(family, "EMPTIES", {}).items()
            self.empties |= {kind: one for kind, one in found if not any(adapter.fits(kind) for adapter in self.adapters)}
        self.interned: dict[type, dict[Any, int]] = {
            type(None): {None: 0}, bool: {True: 1, False: 2}, type(Ellipsis): {Ellipsis: 3}, type(NotImplemented): {NotImplemented: 4},
            int: {}, str: {}, bytes: {},
        }  # fmt: skip

    # Numbering

    def slot(self, value: Any) -> int:
        """The number of a value's node; a new one is walked later."""
        kind = type(value)
        table = self.interned.get(kind)
        if table is not None:
            number = table.get(value)
            return self._atom(value, kind, table) if number is None else number
        number = self.memo.get(identity(value))
        return self._meet(value, kind) if number is None else number

    def slots(self, values: Iterable[Any]) -> tuple[int, ...]:
        """The numbers of several values."""
        interned, memo, numbers = self.interned, self.memo, []
        for value in values:
            kind = type(value)
            table = interned.get(kind)
            if table is not None:
                number = table.get(value)
                if number is None:
                    number = self._atom(value, kind, table)
            else:
                number = memo.get(identity(value))
                if number is None:
                    number = self._meet(value, kind)
            numbers.append(number)
        return tuple(numbers)

    def _atom(self, value: Any, kind: type, table: dict[Any, int]) -> int:
        if kind is int:
            node: Node = ("int", value) if _I64_MIN <= value <= _I64_MAX else ("bigint", value)
        elif len(value) <= LONG_TEXT:
            node = ("str", value) if kind is str else ("bytes", value)
        elif self.plain is not None:
            self.deferred[self.at] = None
            return NONE
        else:
            data = value.encode("utf-8", "surrogatepass") if kind is str else value
            node = ("text", (self.slot(kind.__name__), self.blob(data)))
        table[value] = number = self.add(node)
        return number

    def _meet(self, value: Any, kind: type) -> int:
        empty = self.empties.get(kind)
        if empty is not None and not value and empty[1](value):
            nodes = self.nodes
            self.memo[identity(value)] = number = len(nodes)
            nodes.append(empty[0])
            self.parents.append(self.at)
            self.keep.append(value)
            if self.plain is not None:
                self.taken[number] = value, self.takers[kind]
            return number
        taker = self.takers.get(kind)
        if taker is None:
            taker = self.takers[kind] = self._decide(kind)
        if self.plain is not None and not self.plain(value, kind, taker):
            self.deferred[self.at] = None
            return NONE
        return self._number(value, taker)

    def only_plain(self, plain: Callable[[Any, type, Taker], bool]) -> None:
        """From now on walk only what is plain, and no gradients: what holds anything else is to be taken again afterwards."""
        self.plain = plain

    def everything(self) -> tuple[list[int], dict[int, tuple[Any, Taker]], list[tuple[int, Any]]]:
        """From now on walk everything. What is to be taken again, all that was walked since, and the gradients that were not."""
        self.plain = None
        return list(self.deferred), self.taken, self.grads

    def slot_as(self, value: Any, taker: Taker) -> int:
        """Like `slot`, for an object that is not what its type says: an object's `__dict__`."""
        number = self.memo.get(identity(value))
        return self._number(value, taker) if number is None else number

    def _number(self, value: Any, taker: Taker) -> int:
        nodes = self.nodes
        self.memo[identity(value)] = number = len(nodes)
        self.keep.append(value)
        nodes.append(FIRST[0])
        self.parents.append(self.at)
        self.pending.append((number, value, taker))
        if self.plain is not None:
            self.taken[number] = value, taker
        return number

    def taken_now(self, value: Any, taker: Taker) -> int:
        """Like `slot_as`, for what holds few things: taken at once."""
        number = self.memo.get(identity(value))
        if number is not None or self.omit is not None:
            return self.slot_as(value, taker)
        nodes, at = self.nodes, self.at
        self.memo[identity(value)] = number = len(nodes)
        self.keep.append(value)
        nodes.append(FIRST[0])
        self.parents.append(at)
        if self.plain is not None:
            self.taken[number] = value, taker
        self.at = number
        nodes[number] = taker(self, value)
        self.at = at
        return number

    def _decide(self, kind: type) -> Taker:
        for adapter in self.adapters:
            if adapter.fits(kind):
                return _taker_of(adapter)
        for family in self.families:
            taker: Taker | None = family.decide(kind)
            if taker is not None:
                return taker
        raise AssertionError(f"no family takes {kind}")

    def add(self, node: Node) -> int:
        """A node that stands for no object of its own."""
        self.nodes.append(node)
        self.parents.append(self.at)
        return len(self.nodes) - 1

    # Memory

    def blob(self, data: bytes | array.array[Any]) -> int:
        """A node for bytes that nobody else changes: in the tree if small, else a buffer that needs no copy."""
        nbytes = memoryview(data).nbytes
        if nbytes <= INLINE_BYTES:
            return self.slot(bytes(data))
        address = (ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0) if isinstance(data, bytes) else data.buffer_info()[0]
        return self.buffer(("private", len(self.buffers)), nbytes, data, address, private=True)

    def memory(self, key: Hashable, nbytes: int, owner: object, address: int, storage: Any = None) -> tuple[int, LiveBuffer | None]:
        """The node of an allocation, the same one for the same key; a small one on this machine is copied into the tree at once."""
        number = self.buffer_nodes.get(key)
        self.new_memory = number is None
        if number is not None:
            kind, payload = self.nodes[number]
            return number, self.buffers[payload] if kind == "buffer" else None
        if nbytes == 0 or (address and nbytes <= SMALL_BYTES):
            number = self.buffer_nodes[key] = self.add(("small", ctypes.string_at(address, nbytes) if nbytes else b""))
            self.keep.append(owner)  # its address stays its own during the walk
            return number, None
        return self._new_buffer(key, nbytes, owner, address, storage, private=False)

    def buffer(self, key: Hashable, nbytes: int, owner: object, address: int, *, storage: Any = None, private: bool = False) -> int:
        """The node of an allocation, the same one for the same key."""
        number = self.buffer_nodes.get(key)
        return self._new_buffer(key, nbytes, owner, address, storage, private)[0] if number is None else number

    def _new_buffer(self, key: Hashable, nbytes: int, owner: object, address: int, storage: Any, private: bool) -> tuple[int, LiveBuffer]:
        buffers, nodes = self.buffers, self.nodes
        self.buffer_nodes[key] = number = len(nodes)
        nodes.append(("buffer", len(buffers)))
        self.parents.append(self.at)
        buffer = LiveBuffer(key, nbytes, owner, address, self.places, number, storage, private)
        buffers.append(buffer)
        self.tree.buffers.append(nbytes)
        return number, buffer

    # Walking

    def without(self, items: list[tuple[Any, Any]], label: Callable[[Any], str]) -> list[tuple[Any, Any]]:
        """The entries of a dict, without those that a test leaves out on purpose (they stay live)."""
        if self.omit is None:
            return items
        where = self.where(self.at)
        return [(key, _LEFT_OUT if self.omit(where + label(key), value) else value) for key, value in items]

    def root(self, key: RootKey, value: object, taker: Taker | None = None) -> None:
        """Take a root and everything that it reaches. `taker`: for one that is not taken as its type says."""
        self.at = NONE
        if self.omit is not None and self.omit(root_text(key), value):
            value = _LEFT_OUT
        if isinstance(value, Lost):
            kind = type_name(value.value)
            self.missing.append(Missing(root_text(key), kind, value.why))
            self.tree.roots[key] = self.add(("live", (self.slot(kind), self.slot(value.why), NONE)))
        else:
            self.tree.roots[key] = self.slot(value) if taker is None else self.slot_as(value, taker)
        self.drain()

    def known(self, key: RootKey, values: Any) -> None:
        """A root for these objects in their order, where all of them were met in the program's variables; else there is none."""
        values = list(values)
        if all(map(self._is_known, values)):
            self.tree.roots[key] = self.add(("tuple", (NONE, NONE, *self.slots(values))))
            self.drain()

    def _is_known(self, value: Any) -> bool:
        kind = type(value)
        return kind in _ATOMS or identity(value) in self.memo or (kind is tuple and all(map(self._is_known, value)))

    def drain(self) -> None:
        """Walk what was met and not yet walked."""
        pending, nodes, omit = self.pending, self.nodes, self.omit
        while pending:
            number, value, taker = pending.pop()
            self.at = number
            try:
                if omit is not None and omit(self.where(number), value):
                    raise Uncapturable("left out")
                nodes[number] = taker(self, value)
            except Uncapturable as problem:
                nodes[number] = self.left_live(number, value, str(problem))
            except Exception as problem:  # noqa: BLE001 (an object's own code for being copied may raise anything)
                nodes[number] = self.left_live(number, value, f"{type(problem).__name__}: {problem}")
        self.at = NONE

    def left_live(self, number: int, value: object, why: str) -> Node:
        """The node of an object that is not kept."""
        self.missing.append(Missing(self.where(number), type_name(value), why))
        return ("live", (self.slot(type_name(value)), self.slot(why), NONE))

    def differs(self, value: object, why: str, name: str = "") -> None:
        """What is being taken will come back otherwise than it is."""
        if len(self.unlike) < _MOST_UNLIKE:
            self.unlike.append(Missing(self.where(self.at) + name, type_name(value), why))

    def where(self, number: int) -> str:
        """How a node is called in messages."""
        return self.places.of(number)


class _LeftOut:
    """Stands for what a test leaves out."""


_LEFT_OUT = _LeftOut()


def _take_left_out(_walk: Walk, _value: Any) -> Node:
    raise Uncapturable("left out")


def _taker_of(adapter: Adapter) -> Taker:
    def take(walk: Walk, value: Any) -> Node:
        state = adapter.take(value)
        walk.keep.append(state)
        return ("adapted", (walk.slot(adapter.name), walk.slot(type(value)), walk.slot(state)))

    return take
