"""A state as a plain table of nodes, and that table as bytes: `docs/formats/state.md`.

A node is (kind, payload). The payload of an atom is its value; that of everything else is a tuple of node numbers, so that
sharing and cycles need nothing special, and the garbage collector of the program soon leaves a state alone (lists it looks
through at every turn). Memory that can be large is not in the table: a `buffer` node names it by number.
Knows no live object, no framework and no file. Reading runs no code, allocates no more than the bytes at hand explain, and
raises `Damaged` on anything malformed.
"""

from __future__ import annotations

import array
import functools
import itertools
import json
import operator
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rearview.errors import Damaged, NewerFormat

RootKey = tuple[str | int, ...]
"""("given", name), ("local", depth, name), ("outer", distance, name), ("caller", distance, function, name), ("global", module, name),
("class", module, qualname, name), ("stream", name), ("made", module, name) ..."""

BESIDE = ("names", "process", "items")
"""Kinds of roots that are no part of what makes two states equal: a statement may bring names and settings of its own."""

OUTER = "outer"
"""Roots for variables of functions around `checkpointing`: they hold what earlier loops gave."""

CALLER = "caller"
"""Roots for data of those functions, where no earlier loop has given them any: the code before may make another one."""

MADE = "made"
"""Roots for functions and classes under their own names that are not the ones which had them when the loops began."""

Node = tuple[str, Any]

NONE, TRUE, FALSE, ELLIPSIS, NOT_IMPLEMENTED, NOTHING = range(6)
"""The numbers of the nodes that every table begins with. NOTHING: an empty cell, a slot without a value."""

FIRST: tuple[Node, ...] = (
    ("none", None), ("true", True), ("false", False), ("ellipsis", None), ("notimplemented", None), ("nothing", None),
)  # fmt: skip

ATOMS = (
    "none", "true", "false", "ellipsis", "notimplemented", "nothing", "int", "bigint", "float", "complex", "str", "bytes", "buffer",
    "small",
)  # fmt: skip
COMPOSITES = (
    "list", "tuple", "dict", "defaultdict", "set", "frozenset", "deque", "bytearray", "pyarray", "range", "slice", "value", "packed",
    "column", "table", "text",
    "ref", "module", "enum", "obj", "extra", "attrs", "getset", "reduce", "live", "adapted", "file",
    "func", "cell", "method", "bmethod", "weakref", "weakly", "weakset", "random",
    "npdtype", "npscalar", "nparray", "npobjects", "npmemmap", "npbits", "npgenerator", "npstate", "npseed",
    "tensor", "layout", "sparse", "quantized", "meta", "lazy", "storage", "tgen", "tvalue",
)  # fmt: skip
KINDS = ATOMS + COMPOSITES
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}
_IS_ATOM = frozenset(ATOMS)
_KIND, _PAYLOAD = operator.itemgetter(0), operator.itemgetter(1)
_HASHED_ALIKE = frozenset(("true", "false", "int", "bigint", "float", "complex"))
"""Numbers have the same hash in every process."""

_MAGIC = b"rvstate\x01"
_VERSION = 1
_HEAD = struct.Struct("<II")
_LITTLE = sys.byteorder == "little"
_STRETCH = 256
"""Nodes that are packed at once."""
_MOST_KEPT = 200_000
"""Nodes of a tree whose bytes are kept: some 10 MB."""


@dataclass(slots=True)
class Tree:
    """A state without its memory."""

    nodes: list[Node] = field(default_factory=lambda: list(FIRST))
    roots: dict[RootKey, int] = field(default_factory=dict)
    buffers: list[int] = field(default_factory=list)
    """How many bytes each buffer has."""

    def children(self, number: int) -> tuple[int, ...]:
        """The nodes that a node refers to; none for an atom."""
        kind, payload = self.nodes[number]
        return () if kind in _IS_ATOM else payload


def kinds_of(nodes: Sequence[Node]) -> bytes:
    """The kind of each node, as its number in `KINDS`."""
    return bytes(map(_NUMBER.__getitem__, map(_KIND, nodes)))


def marked(kinds: bytes, wanted: tuple[str, ...]) -> bytes:
    """A one for each node of these kinds, for `itertools.compress`: to go through some nodes of many without looking at all."""
    return kinds.translate(_marks(wanted))


@functools.lru_cache(maxsize=64)
def _marks(wanted: tuple[str, ...]) -> bytes:
    chosen = {_NUMBER[kind] for kind in wanted}
    return bytes(number in chosen for number in range(256))


def orders_by_hash(tree: Tree) -> bool:
    """Whether there is a set whose order depends on the interpreter's hash seed: of text, or of anything but numbers."""
    for kind, payload in tree.nodes:
        if kind in ("set", "frozenset"):
            elements = payload[2:]  # behind its class and attributes
            if len(elements) > 1 and any(tree.nodes[number][0] not in _HASHED_ALIKE for number in elements):
                return True
    return False


def is_atom(kind: str) -> bool:
    """Whether nodes of that kind hold a value instead of other nodes."""
    return kind in _IS_ATOM


# To bytes: one section for each type of value, each one packed by C code


def encode(tree: Tree, before: Encoded | None = None) -> bytes:
    """The bytes of a tree. `before`: the tree before, of which this is the newest from now on; what both have need not be packed again."""
    width = "H" if len(tree.nodes) <= 0xFFFF else "I"
    stretches = [_sections(tree.nodes, width)] if before is None else before.sections(tree.nodes, width)
    parts = [*map(b"".join, zip(*stretches, strict=True)), _packed("Q", tree.buffers)]
    head = json.dumps(
        {
            "version": _VERSION,
            "kinds": KINDS,
            "width": width,
            "roots": [[list(key), number] for key, number in tree.roots.items()],
            "sections": [len(part) for part in parts],
        },
        separators=(",", ":"),
    ).encode()
    return b"".join((_MAGIC, _HEAD.pack(len(head), len(tree.nodes)), head, *parts))


def _sections(nodes: Sequence[Node], width: str) -> tuple[bytes, ...]:
    """The parts of an encoded tree, in the order `decode` takes them up again. Those of several stretches of nodes are joined."""
    kinds, payloads = kinds_of(nodes), list(map(_PAYLOAD, nodes))

    def of(*wanted: str) -> list[Any]:
        return list(itertools.compress(payloads, marked(kinds, wanted)))

    lists = of(*COMPOSITES)
    texts = [str.encode(text, "utf-8", "surrogatepass") for text in of("str")]
    big = [number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True) for number in of("bigint")]
    blobs = of("bytes", "small")
    return (
        kinds,
        _packed("I", list(map(len, lists))),  # of a list, an array is made twice as fast
        _packed(width, list(itertools.chain.from_iterable(lists))),
        _packed("q", of("int")),
        _packed("d", of("float")),
        _packed("d", itertools.chain.from_iterable((number.real, number.imag) for number in of("complex"))),
        _packed("I", of("buffer")),
        *(part for group in (texts, big, blobs) for part in (_packed("Q", map(len, group)), b"".join(group))),
    )


@dataclass(slots=True)
class Encoded:
    """The nodes of a tree and their bytes, stretch by stretch. Bounded: of very many nodes it keeps none."""

    _width: str = ""
    _stretches: list[tuple[list[Node], tuple[bytes, ...]]] = field(default_factory=list)

    def sections(self, nodes: list[Node], width: str) -> list[tuple[bytes, ...]]:
        """The sections of each stretch. What is kept is the very nodes: those that only equal others may be something else (0.0, -0.0)."""
        known = self._stretches if width == self._width else []
        found: list[tuple[list[Node], tuple[bytes, ...]]] = []
        for first in range(0, len(nodes), _STRETCH):
            stretch = nodes[first : first + _STRETCH]
            before = known[len(found)] if len(found) < len(known) else None
            same = before is not None and len(before[0]) == len(stretch) and all(map(operator.is_, before[0], stretch))
            found.append(before if before is not None and same else (stretch, _sections(stretch, width)))
        self._width, self._stretches = width, found if len(nodes) <= _MOST_KEPT else []
        return [sections for _, sections in found]


def _packed(code: str, numbers: Any) -> bytes:
    packed = array.array(code, numbers)
    if not _LITTLE:
        packed.byteswap()
    return packed.tobytes()


# From bytes


def decode(data: bytes) -> Tree:
    """The tree of bytes made by `encode`; `Damaged` if they were not."""
    try:
        return _decode(data)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, struct.error, RecursionError, StopIteration) as problem:
        raise Damaged(f"a stored state cannot be read: {problem}; run `rearview check`") from problem


def _decode(data: bytes) -> Tree:
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not a state")
    head_size, count = _HEAD.unpack_from(data, len(_MAGIC))
    at = len(_MAGIC) + _HEAD.size
    head = json.loads(data[at : at + head_size])
    if head["version"] > _VERSION:
        raise NewerFormat(f"a stored state has version {head['version']}, this rearview reads up to {_VERSION}; install a newer one")
    at += head_size
    parts = []
    for size in head["sections"]:
        if not isinstance(size, int) or size < 0:
            raise ValueError("a section without a size")
        parts.append(data[at : at + size])
        at += size
    if at != len(data) or len(parts) != 14:
        raise ValueError("too short or too long")
    if head["width"] not in ("H", "I"):
        raise ValueError("an unknown width")
    tree = Tree(_nodes(head["kinds"], head["width"], parts), _roots(head["roots"]), list(_unpacked("Q", parts[13])))
    _validate(tree, count)
    return tree


def _nodes(names: list[str], width: str, parts: list[bytes]) -> list[Node]:
    kinds = [names[number] for number in parts[0]]
    if not set(kinds) <= set(KINDS):
        raise ValueError(f"unknown kinds {sorted(set(kinds) - set(KINDS))}")
    lengths, children = _unpacked("I", parts[1]), _unpacked(width, parts[2])
    if sum(lengths) != len(children):
        raise ValueError("payloads of another length")
    numbers, blobs = iter(_unpacked("d", parts[5])), _split(parts[11], parts[12])
    values: dict[str, Iterator[Any]] = {
        "int": iter(_unpacked("q", parts[3])),
        "float": iter(_unpacked("d", parts[4])),
        "complex": (complex(real, imag) for real, imag in zip(numbers, numbers, strict=True)),
        "buffer": iter(_unpacked("I", parts[6])),
        "str": (raw.decode("utf-8", "surrogatepass") for raw in _split(parts[7], parts[8])),
        "bigint": (int.from_bytes(raw, "little", signed=True) for raw in _split(parts[9], parts[10])),
        "bytes": blobs,
        "small": blobs,
        "true": itertools.repeat(True),
        "false": itertools.repeat(False),
        **{kind: itertools.repeat(None) for kind in ("none", "ellipsis", "notimplemented", "nothing")},
    }
    nodes: list[Node] = []
    at, sizes = 0, iter(lengths)
    for kind in kinds:
        taken = values.get(kind)
        if taken is None:
            size = next(sizes)
            nodes.append((kind, tuple(children[at : at + size])))
            at += size
        else:
            nodes.append((kind, next(taken)))
    stored = ("int", "float", "complex", "buffer", "str", "bigint", "bytes")
    if at != len(children) or any(next(values[kind], None) is not None for kind in stored):
        raise ValueError("more values than nodes")
    return nodes


def _unpacked(code: str, data: bytes) -> array.array[Any]:
    unpacked = array.array(code)
    unpacked.frombytes(data)
    if not _LITTLE:
        unpacked.byteswap()
    return unpacked


def _split(lengths: bytes, data: bytes) -> Iterator[bytes]:
    at = 0
    sizes = _unpacked("Q", lengths)
    if sum(sizes) != len(data):
        raise ValueError("values of another length")
    for size in sizes:
        yield data[at : at + size]
        at += size


def _roots(stored: list[Any]) -> dict[RootKey, int]:
    roots: dict[RootKey, int] = {}
    for key, number in stored:
        if not (isinstance(key, list) and key and all(type(part) in (str, int) for part in key) and type(number) is int):
            raise ValueError("a root that is none")
        roots[tuple(key)] = number
    return roots


def _validate(tree: Tree, count: int) -> None:
    if len(tree.nodes) != count or tuple(tree.nodes[: len(FIRST)]) != FIRST:
        raise ValueError("not the nodes that were written")
    for kind, payload in tree.nodes:
        if kind == "buffer":
            if payload >= len(tree.buffers):
                raise ValueError("a buffer that is not there")
        elif kind not in _IS_ATOM and payload and max(payload) >= count:
            raise ValueError("a node that is not there")
    if any(not 0 <= number < count for number in tree.roots.values()):
        raise ValueError("a root that is not there")


def root_digests(tree: Tree, buffer_digests: Sequence[bytes], only: Iterable[RootKey] | None = None) -> dict[RootKey, str]:
    """The proof that two states are equal, root by root: see `digests`."""
    from rearview.state import digests

    return digests.root_digests(tree, buffer_digests, only)
