"""What two states have in common, by digest: each root canonical, whatever the numbers of nodes and buffers or the addresses of memory.

What several roots reach belongs to the first of them (named roots first, then in the order of their keys); the others only say where it is.
So a difference shows in one root. Left out is what differs without being state: lines and bytecode of functions, paths of files, and
memory that no tensor shows (`visible`): whoever gives the digests of buffers leaves it out of them.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from rearview.state import visible
from rearview.state.digested import Before, Owned, Owns, Told
from rearview.state.take.tensors import HISTORY, RETAINS_GRAD
from rearview.state.tree import KINDS, RootKey, Tree, is_atom

_F64 = struct.Struct("<d")
_CANONICAL: dict[str, Callable[[Sequence[int]], Sequence[int]]] = {
    "tensor": lambda payload: [*payload[:3], *payload[4:]],
    "func": lambda payload: [*payload[:2], *payload[4:]],
    "attrs": lambda payload: payload[1:],
    "live": lambda payload: payload[:1],
    "file": lambda payload: payload[2:],
    "npmemmap": lambda payload: [*payload[:2], *payload[3:]],
}
"""Kinds of which not everything counts."""
_FLAGS = ~(HISTORY | RETAINS_GRAD)
_MEMORY = ("buffer", "small")
_BUFFER = b"\nbuffer "
_LINES = {kind: b"\n" + kind.encode() for kind in KINDS}
_UNORDERED = ("set", "frozenset", "weakset")
_SET_ITEMS_AT = 2
_DTYPE = "npdtype"
_NOWHERE = (b"", 0)
_NOBODYS = Owned()


def root_digests(
    tree: Tree,
    buffer_digests: Sequence[bytes],
    only: Iterable[RootKey] | None = None,
    *,
    seen: Mapping[int, visible.Range] | None = None,
    before: Before | None = None,
) -> dict[RootKey, str]:
    """The digest of every root, or of some: equal if and only if the states are.

    `seen`: what `visible` says of the tree, where it was asked already. `before`: the states before, of which this is the newest from
    now on; roots that are told as they were then need no walk.
    """
    wanted = tree.roots if only is None else {key: tree.roots[key] for key in only if key in tree.roots}
    ordered = sorted(wanted, key=_rank)
    work = _Digests(tree, buffer_digests, [wanted[key] for key in ordered], visible.ranges(tree) if seen is None else seen)
    if before is None:
        return {key: work.of(wanted[key], repr(key).encode()) for key in ordered}
    alike = before.alike(tree.nodes)
    found: dict[RootKey, str] = {}
    every: dict[RootKey, Told] = {}
    for key in ordered:
        told = next((told for one in alike if (told := one.told(key, wanted[key], work.owned)) is not None), None)
        if told is not None:
            found[key] = work.again(told)
        else:
            found[key], told = work.told(wanted[key], repr(key).encode())
        if told is not None:
            every[key] = told
    before.now(tree.nodes, every)
    return found


def _rank(key: RootKey) -> tuple[bool, list[tuple[bool, str | int]]]:
    return key[0] != "given", [(isinstance(part, str), part) for part in key]


def _counted(kind: str, payload: Sequence[int]) -> Sequence[int]:
    return _CANONICAL[kind](payload) if kind in _CANONICAL else payload


def _digest(out: list[bytes]) -> str:
    return hashlib.blake2b(b"".join(out), digest_size=16).hexdigest()


class _Digests:
    def __init__(self, tree: Tree, buffer_digests: Sequence[bytes], roots: Sequence[int], seen: Mapping[int, visible.Range]) -> None:
        self._tree = tree
        self._roots = roots
        self._buffers = buffer_digests
        self._seen = seen
        self._atoms: dict[int, bytes] = {}
        self._called: dict[int, bytes] = {}
        """How nodes are called in the root that is looked at: atoms by what they are, others by their number in it."""
        self.owned = Owned()
        """Nodes that a root had before: its name, and their number there."""
        self._dtypes: dict[int, tuple[bytes, frozenset[int]]] = {}
        """NumPy's dtypes by what they are, and the nodes that say it: which arrays share the object means nothing."""
        self._said_by: set[int] = set()
        """Those nodes, of the dtypes in the root that is looked at."""
        self._by_content = False
        """Whether the order of what was walked depends on more than its nodes."""

    def of(self, root: int, name: bytes) -> str:
        """The digest of a root that owns what it reaches first."""
        out, nodes, _ = self._walk(root, self._called, self.owned)
        self.owned.add(self._owns(nodes, name))
        return _digest(out)

    def told(self, root: int, name: bytes) -> tuple[str, Told | None]:
        """The same, and how it came about, if it can come about so again."""
        self._by_content = False
        self._said_by = set()
        out, nodes, places = self._walk(root, self._called, self.owned)
        owns = self._owns(nodes, name)
        told = None if self._by_content else self._told(root, out, owns, places)
        self.owned.add(owns)
        return _digest(out), told

    def _told(self, root: int, out: list[bytes], owns: Owns, places: list[int]) -> Told:
        table = self._tree.nodes
        memory = [node for node in owns if table[node][0] in _MEMORY]
        reached = frozenset(owns).union([root], self._said_by, *(table[node][1] for node in owns if table[node][0] not in _MEMORY))
        cuts = zip([-1, *places], [*places, len(out)], strict=True)
        texts = [b"".join(out[after + 1 : before]) for after, before in cuts]
        return Told(root, texts, memory, owns, reached, max(reached), self.owned.among(reached))

    def again(self, told: Told) -> str:
        """The digest of a root that is told as it was; only what memory holds may be another."""
        self.owned.add(told.owns)
        memory = list(map(self._memory, told.memory))
        if told.hashed is None or told.hashed[0] != memory:  # the second part of a checkpoint holds what the first does, as a rule
            parts: list[bytes] = [b""] * (2 * len(memory) + 1)
            parts[::2], parts[1::2] = told.texts, memory
            told.hashed = memory, _digest(parts)
        return told.hashed[1]

    def _owns(self, nodes: list[int], name: bytes) -> dict[int, tuple[bytes, int]]:
        for node in nodes:
            del self._called[node]
        return dict(zip(nodes, zip(itertools.repeat(name), itertools.count()), strict=False))

    def _walk(self, root: int, called: dict[int, bytes], owned: Owned) -> tuple[list[bytes], list[int], list[int]]:
        """What a node reaches as text, that in its order, and where memory stands in the text. `called` learns what is met."""
        nodes = self._tree.nodes
        queue: list[int] = []
        places: list[int] = []
        first = called.get(root) or self._meet(root, called, owned, queue)
        out = [] if queue else [first]
        for node in queue:
            kind, payload = nodes[node]
            if kind in _MEMORY:
                places.append(len(out))
                out.append(self._memory(node))
                continue
            out.append(_LINES[kind])
            if kind == "tensor":  # whether it had a history is no part of its value
                out.append(b" %d" % (nodes[payload[3]][1] & _FLAGS))
            children = self._sorted(payload, called, owned) if kind in _UNORDERED else _counted(kind, payload)
            for child in children:
                token = called.get(child)
                out.append(self._meet(child, called, owned, queue) if token is None else token)
        return out, queue, places

    def _meet(self, node: int, called: dict[int, bytes], owned: Owned, queue: list[int]) -> bytes:
        """What a node is called from now on that was not met yet; if it is nobody's, it is walked as well."""
        kind = self._tree.nodes[node][0]
        if kind not in _MEMORY and is_atom(kind):
            token = called[node] = self._token(node)
        elif kind == _DTYPE:
            token, said_by = self._dtype(node)
            self._said_by |= said_by
        elif (owner := owned.get(node)) is not None:
            return b"@%s:%d" % owner
        else:
            token = called[node] = b" #%d" % len(queue)
            queue.append(node)
        return token

    def _dtype(self, node: int) -> tuple[bytes, frozenset[int]]:
        known = self._dtypes.get(node)
        if known is None:
            nodes = self._tree.nodes
            out, reached, waiting = list[bytes](), list[int](), [node]
            while waiting:
                at = waiting.pop()
                kind, payload = nodes[at]
                reached.append(at)
                out.append(self._token(at) if is_atom(kind) else b" %s %d" % (kind.encode(), len(payload)))
                waiting += () if is_atom(kind) else reversed(payload)
            known = self._dtypes[node] = b"".join(out), frozenset(reached)
        return known

    def _memory(self, node: int) -> bytes:
        """What memory counts with: what is seen of it."""
        kind, payload = self._tree.nodes[node]
        if kind == "buffer":
            return _BUFFER + self._buffers[payload]
        begin, end = self._seen.get(node, (0, len(payload)))
        return _BUFFER + bytes(payload[begin:end])

    def _sorted(self, payload: Sequence[int], called: dict[int, bytes], owned: Owned) -> Sequence[int]:
        """The elements of a set by what they are, equal ones by where they were met: the order in which it gives them out means nothing."""
        nodes = self._tree.nodes
        items = list(dict.fromkeys(payload[_SET_ITEMS_AT:]))  # one may be named twice: how a set is filled (`take/sets`)
        if not items:
            return payload
        keys = {
            item: self._token(item) if is_atom(nodes[item][0]) else _digest(self._walk(item, {}, _NOBODYS)[0]).encode() for item in items
        }
        equal = len(set(keys.values())) < len(items)
        self._by_content |= equal or not all(is_atom(nodes[item][0]) for item in items)
        if equal:
            items.sort(key=lambda item: (self._places.get(item, -1), owned.get(item) or _NOWHERE, called.get(item, b"")))
        return [*payload[:_SET_ITEMS_AT], *sorted(items, key=lambda item: keys[item])]

    @functools.cached_property
    def _places(self) -> dict[int, int]:
        """When each node is met that is somewhere else than in a set."""
        nodes = self._tree.nodes
        found = dict(zip(dict.fromkeys(self._roots), itertools.count(), strict=False))
        waiting = deque(found)
        while waiting:
            kind, payload = nodes[waiting.popleft()]
            if is_atom(kind):
                continue
            for child in payload[:_SET_ITEMS_AT] if kind in _UNORDERED else _counted(kind, payload):
                if child not in found:
                    found[child] = len(found)
                    waiting.append(child)
        return found

    def _token(self, atom: int) -> bytes:
        """An atom in a form that no other atom has."""
        known = self._atoms.get(atom)
        if known is not None:
            return known
        kind, value = self._tree.nodes[atom]
        if kind in ("int", "bigint"):
            token = b" i%d" % value
        elif kind == "str":
            raw = value.encode("utf-8", "surrogatepass")
            token = b" s%d:%s" % (len(raw), raw)
        elif kind == "bytes":
            token = b" b%d:%s" % (len(value), value)
        elif kind == "float":
            token = b" f" + _F64.pack(value)
        elif kind == "complex":
            token = b" c" + _F64.pack(value.real) + _F64.pack(value.imag)
        else:
            token = b" " + kind.encode()
        self._atoms[atom] = token
        return token
