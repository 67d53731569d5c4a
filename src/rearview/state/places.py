"""How a node is called in messages: `opt.state[net.fc.weight]['exp_avg']`. Knows the tree and who met which node first."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from rearview.state.tree import CALLER, NONE, OUTER, Node, RootKey

_MODULE_PARTS = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")
_SKIPPED = {"list": 2, "tuple": 2, "set": 2, "frozenset": 2, "weakset": 2, "deque": 3, "npobjects": 6}
"""How many numbers of a payload come before the items."""
_PAIRS = {"dict": 2, "defaultdict": 3, "attrs": 1, "obj": 2, "extra": 1, "ref": 2}
_LONG = 64
_DEEPEST = 200


def root_text(key: RootKey) -> str:
    """A root as a person would write it."""
    if key[0] in ("given", "stream", "live"):
        return str(key[-1])
    if key[0] in ("local", OUTER, CALLER):
        return str(key[-1])
    parts = [str(part) for part in key[1:] if part != "__main__"]
    return ".".join(parts)


def shortened(path: str) -> str:
    """A path with the parts of modules called as programs do.

    >>> shortened("net._modules['fc']._parameters['weight']")
    'net.fc.weight'
    """
    return _MODULE_PARTS.sub(r".\1", path)


class Places:
    """Names of the nodes of one tree."""

    def __init__(self, nodes: list[Node], parents: list[int], roots: dict[RootKey, int]) -> None:
        self._nodes = nodes
        self._parents = parents
        self._roots = roots
        self._positions: dict[int, dict[int, int]] = {}
        self._known_roots: dict[int, int] = {}
        """Of nodes on ways that were gone: most ways share all but their beginning."""

    def of(self, number: int) -> str:
        """The path along which a node was met first."""
        return shortened(self._path(number, 0))

    def above(self, number: int) -> Iterator[int]:
        """The nodes on the way from a node to its root, that included."""
        while (number := self._parents[number]) != NONE:
            yield number

    def root_of(self, number: int) -> int:
        """The node of the root from which a node was met first."""
        parents, known, way = self._parents, self._known_roots, []
        while (root := known.get(number)) is None and (parent := parents[number]) != NONE:
            way.append(number)
            number = parent
        root = number if root is None else root
        known.update(zip(way, itertools.repeat(root)))
        return root

    def _path(self, number: int, level: int) -> str:
        labels: list[str] = []
        while self._parents[number] != NONE:
            parent = self._parents[number]
            labels.append(self._label(parent, number, level))
            number = parent
        if len(labels) > _DEEPEST:
            labels = [*labels[:10], "...", *labels[-10:]]
        root = next((root_text(key) for key, root in self._roots.items() if root == number), "?")
        return root + "".join(reversed(labels))

    def _label(self, parent: int, child: int, level: int) -> str:
        kind, payload = self._nodes[parent]
        at = self._position(parent, payload, child)
        if at is None:
            return ""
        first = _SKIPPED.get(kind)
        if first is not None:
            return f"[{at - first}]" if at >= first else ""
        first = _PAIRS.get(kind)
        if first is not None and at >= first:
            key = payload[at - (at - first) % 2]
            return self._key(kind, key, level) if (at - first) % 2 else f"[key {(at - first) // 2}]"
        if kind == "tensor" and at == 4:
            return ".grad"
        return ".__self__" if kind == "method" and at == 1 else ""

    def _key(self, kind: str, key: int, level: int) -> str:
        key_kind, value = self._nodes[key]
        if kind in ("attrs", "obj", "extra", "ref"):
            return f".{value}"
        if key_kind in ("str", "int", "bigint", "float", "bytes"):
            return f"[{value!r}]"
        return f"[{self._path(key, level + 1)}]" if level < 2 else "[...]"

    def _position(self, parent: int, payload: object, child: int) -> int | None:
        if not isinstance(payload, tuple):
            return None
        if len(payload) <= _LONG:
            return payload.index(child) if child in payload else None
        known = self._positions.get(parent)
        if known is None:
            known = self._positions[parent] = {}
            for at, number in enumerate(payload):
                known.setdefault(number, at)
        return known.get(child)
