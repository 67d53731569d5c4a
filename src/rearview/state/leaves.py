"""Where two states of a variable differ: the plain values in it that do, if they are all that does.

An object that keeps `self.t0` beside its model is another one in each run, and yet nothing in it that means something is. Knows trees and
digests of buffers; must not know what a difference means (`verdicts`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rearview.state.digests import root_digests
from rearview.state.tree import RootKey, Tree, is_atom

_PAIRS = {"dict": 2, "defaultdict": 3, "attrs": 1, "obj": 2, "extra": 1}
"""Kinds with names and values, and what stands before them."""
_ITEMS = {"list": 2, "tuple": 2, "deque": 3, "npobjects": 6}
_CODE = {"func": (2, 3), "cell": (), "method": (), "bmethod": ()}
"""What closes over values, and what of it is no part of a state: lines and bytecode."""
_MEMORY = frozenset(("buffer", "small"))
_NUMBERS = {"npscalar": ("bytes", 1, 2), "nparray": ("small", 3, 2)}
"""What holds few numbers of NumPy: as what, and which of its parts are their dtype and they. More are in a buffer."""
_FLOATS = {"f2": "e", "f4": "f", "f8": "d"}
ARRAY = "array"
_MOST = 500
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class Leaf:
    """A plain value that is another one."""

    path: str
    """From the variable on: `.iter_time`, `.timers['epoch']`; of an item of a list, `[]`."""
    kind: str
    recorded: str
    replayed: str
    reached: tuple[str, ...] = ()
    """Of an array: every variable from which it can be come to. What reads one of them may read it, whatever it calls it."""


@dataclass(frozen=True, slots=True)
class State:
    """A tree with the digests of its memory."""

    tree: Tree
    buffers: Sequence[bytes]


def row(root: str, leaf: Leaf) -> list[Any]:
    """A leaf as a worker notes it: its name from the root on, both values, its kind; of an array also from where it can be come to."""
    return [root + leaf.path, leaf.recorded, leaf.replayed, leaf.kind, *([list(leaf.reached)] if leaf.reached else [])]


def differing(recorded: State, replayed: State, key: RootKey, digest: str, roots: Sequence[RootKey]) -> list[Leaf]:
    """The leaves of a variable that differ; none if anything else in it does, or too many do.

    `digest` is that of the recorded variable, `roots` are those that were compared: with the recorded leaves in the replayed state, it has
    to come out.
    """
    if key not in recorded.tree.roots or key not in replayed.tree.roots:
        return []
    nodes = list(replayed.tree.nodes)
    work = _Work(recorded, replayed, nodes)
    found = work.leaves(recorded.tree.roots[key], replayed.tree.roots[key], "", 0)
    if not found or len(found) > _MOST:
        return []
    found = list({(leaf.path, leaf.kind): leaf for leaf in reversed(found)}.values())  # the items of a list are one
    mended = Tree(nodes, replayed.tree.roots, replayed.tree.buffers)
    return found if root_digests(mended, replayed.buffers, only=roots).get(key) == digest else []


@dataclass(slots=True)
class _Work:
    recorded: State
    replayed: State
    nodes: list[tuple[str, object]]
    """Of the replayed state; takes the recorded leaves."""

    def leaves(self, theirs: int, ours: int, path: str, depth: int) -> list[Leaf]:
        (kind, before), (other, after) = self.recorded.tree.nodes[theirs], self.replayed.tree.nodes[ours]
        if kind != other or is_atom(kind) or len(before) != len(after) or depth > _DEEPEST:
            return []
        found: list[Leaf] = []
        for at, label in self._differing(kind, before, after):
            inner = self.recorded.tree.nodes[before[at]], self.replayed.tree.nodes[after[at]]
            if label is None or not _MEMORY.isdisjoint((inner[0][0], inner[1][0])):
                return []
            numbers = self._numbers(before[at], after[at])
            if numbers is not None:
                then, now = (str(one) for _, one in numbers)
                found.append(Leaf(path + label, ARRAY, then, now, _reached(self.replayed.tree, after[at])))
                self._mend(after[at], _NUMBERS[inner[0][0]][2], numbers[0][0])
            elif is_atom(inner[0][0]) and is_atom(inner[1][0]):
                found.append(Leaf(path + label, inner[0][0], repr(inner[0][1]), repr(inner[1][1])))
                self._mend(ours, at, inner[0])
            else:
                found += self.leaves(before[at], after[at], path + label, depth + 1)
            if len(found) > _MOST:
                break
        return found

    def _numbers(self, theirs: int, ours: int) -> tuple[_Numbers, _Numbers] | None:
        then, now = _few(self.recorded.tree, theirs), _few(self.replayed.tree, ours)
        return (then, now) if then is not None and now is not None and len(then[0][1]) == len(now[0][1]) else None

    def _differing(self, kind: str, before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[int, str | None]]:
        """The parts of a node that differ, with how they are called; None for one that is no value but a name, or the class."""
        if kind not in _PAIRS and kind not in _ITEMS and kind not in _CODE:
            return
        roots: dict[RootKey, int] = {("at", at): at for at in range(len(before)) if at not in _CODE.get(kind, ())}
        ours = root_digests(_with(self.replayed.tree, after, roots), self.replayed.buffers)
        then = root_digests(_with(self.recorded.tree, before, roots), self.recorded.buffers)
        for key, at in roots.items():
            if ours[key] != then[key]:
                yield at, self._label(kind, before, at)

    def _label(self, kind: str, payload: Sequence[int], at: int) -> str | None:
        if kind in _CODE:
            return ""
        first = _PAIRS.get(kind, _ITEMS.get(kind, 0))
        if at < first and kind == "npobjects":
            return None
        if at < first:
            return "" if not is_atom(self.recorded.tree.nodes[payload[at]][0]) else None  # its attributes are a node of their own
        if kind in _ITEMS:
            return "[]"
        if (at - first) % 2 == 0:
            return None
        name = self.recorded.tree.nodes[payload[at - 1]][1]
        return f"[{name!r}]" if kind in ("dict", "defaultdict") else f".{name}"

    def _mend(self, parent: int, at: int, node: tuple[str, object]) -> None:
        kind, payload = self.nodes[parent]
        assert isinstance(payload, tuple)
        self.nodes.append(node)
        self.nodes[parent] = (kind, (*payload[:at], len(self.nodes) - 1, *payload[at + 1 :]))


def _reached(tree: Tree, number: int) -> tuple[str, ...]:
    """The roots from which a node can be come to."""
    above: dict[int, list[int]] = {}
    for at, (kind, payload) in enumerate(tree.nodes):
        if not is_atom(kind) and kind not in _MEMORY:
            for part in payload:
                above.setdefault(part, []).append(at)
    seen, waiting = {number}, [number]
    while waiting:
        further = [one for one in above.get(waiting.pop(), ()) if one not in seen]
        seen.update(further)
        waiting += further
    return tuple("/".join(map(str, key)) for key, root in tree.roots.items() if root in seen)


_Numbers = tuple[tuple[str, bytes], float | list[float]]
"""The node with the bytes of numbers, and the numbers."""


def _few(tree: Tree, number: int) -> _Numbers | None:
    """The numbers of an array with a memory of its own, or of a scalar; None if they are many, or no floating ones, or something else."""
    kind, payload = tree.nodes[number]
    if kind not in _NUMBERS:
        return None
    held, dtype_at, data_at = _NUMBERS[kind]
    dtype, (holds, data) = tree.nodes[payload[dtype_at]], tree.nodes[payload[data_at]]
    names = [tree.nodes[part][1] for part in dtype[1]] if dtype[0] == "npdtype" else []
    code = _FLOATS.get(names[1][1:]) if len(names) == 2 and names[0] == "name" and isinstance(names[1], str) else None
    if code is None or holds != held:
        return None
    count = len(data) // struct.calcsize("<" + code)
    numbers = list(struct.unpack(f"{'>' if names[1][0] == '>' else '<'}{count}{code}", data))
    return (holds, data), numbers[0] if kind == "npscalar" else numbers


def _with(tree: Tree, payload: Sequence[int], roots: dict[RootKey, int]) -> Tree:
    return Tree(tree.nodes, {key: payload[at] for key, at in roots.items()}, tree.buffers)
