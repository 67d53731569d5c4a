"""A recorded state without the program it came from: state dicts, arrays, plain values.

No class of the user's is imported and nothing is unpickled: modules and optimizers become the dicts that torch calls their state dict, any
other object becomes the dict of its attributes, what was code becomes its name. The tree is first rewritten into plain kinds, then
restored into nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rearview.errors import Damaged, MissingLibrary, NoCheckpoint
from rearview.state.places import root_text
from rearview.state.restore import Reader, plan
from rearview.state.take.tensors import CONJ, NEG
from rearview.state.tree import NONE, NOTHING, Node, RootKey, Tree, is_atom

_MODULE_PARTS = frozenset(("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"))
_OPTIMIZER_PARTS = frozenset(("state", "param_groups", "defaults"))
_KEEP = frozenset(("packed", "column", "text", "range", "slice", "layout"))
_NO_KEYS = frozenset(
    (
        "obj",
        "list",
        "dict",
        "table",
        "set",
        "deque",
        "defaultdict",
        "bytearray",
        "pyarray",
        "nparray",
        "npobjects",
        "reduce",
        "attrs",
        "random",
        "file",
    )
)
_TENSORS = frozenset(("tensor", "sparse", "quantized", "meta", "layout"))
_ARRAYS = frozenset(("nparray", "npobjects", "npscalar", "npdtype"))


def look(tree: Tree, root: RootKey, read: Reader) -> Any:
    """What a root was, as plain values: `look(tree, ("given", "net"), read)` is a state dict."""
    if root not in tree.roots:
        known = ", ".join(sorted({root_text(key) for key in tree.roots if key[0] in ("given", "local", "global")}))
        raise NoCheckpoint(f"the state holds nothing called {root_text(root)}; it holds {known or 'nothing'}")
    view = _View(tree)
    plain = Tree(view.nodes, {root: view.of(tree.roots[root])}, tree.buffers)
    view.finish()
    kinds = {kind for kind, _ in view.nodes}
    for library, needed in (("torch", _TENSORS), ("numpy", _ARRAYS)):
        if not kinds & needed:
            continue
        if importlib.util.find_spec(library) is None:
            raise MissingLibrary(f"{root_text(root)} has values of {library}, which is not installed here: pip install {library}")
        importlib.import_module(library)  # the program that made them has it loaded, one that only looks may not
    try:
        return plan(plain, {}, read).apply()[root]
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, AssertionError, OverflowError, MemoryError) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise Damaged(f"{root_text(root)} cannot be read from the stored state ({why}); run `rearview check`") from problem


class _View:
    """The plain kinds of a tree, as far as they are asked for. Numbers of atoms and of plain nodes stay what they were."""

    def __init__(self, tree: Tree) -> None:
        self.old = tree.nodes
        self.nodes: list[Node] = [node if is_atom(node[0]) else ("none", None) for node in tree.nodes]
        self._texts: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        self._done: set[int] = set()
        self._pending: list[int] = []

    def of(self, number: int) -> int:
        """The number of a node's plain form."""
        number = self._through(number)
        if number not in self._done and not is_atom(self.old[number][0]):
            self._done.add(number)
            self._pending.append(number)
        return number

    def finish(self) -> None:
        """Rewrite everything that was asked for, and what that needs."""
        while self._pending:
            number = self._pending.pop()
            kind, payload = self.old[number]
            self.nodes[number] = self._rewrite(kind, payload)

    def _through(self, number: int) -> int:
        """Past what only wraps another value."""
        for _ in range(len(self.old)):
            kind, payload = self.old[number]
            if kind == "value":
                number = payload[1]
            elif kind == "cell" or kind == "weakref":
                number = payload[0]
            elif kind == "getset":
                number = payload[1]
            elif kind == "adapted":
                number = payload[2]
            elif kind == "npgenerator":
                number = payload[1]
            else:
                break
        return NONE if number == NOTHING else number

    def _rewrite(self, kind: str, payload: Any) -> Node:
        if kind in _KEEP:
            return (kind, self._all(payload))
        rewrite: Callable[[Any], Node] | None = getattr(self, f"_{kind}", None)
        if rewrite is not None:
            return rewrite(payload)
        if kind in ("list", "tuple"):
            return (kind, (NONE, NONE, *self._all(payload[2:])))
        if kind in ("dict", "defaultdict", "attrs"):
            return self._mapping(payload[{"dict": 2, "defaultdict": 3, "attrs": 1}[kind] :])
        return ("str", kind)

    def _all(self, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple([self.of(number) for number in numbers])

    def _mapping(self, pairs: Sequence[int]) -> Node:
        return ("dict", (NONE, NONE, *(part for k in range(0, len(pairs), 2) for part in (self._key(pairs[k]), self.of(pairs[k + 1])))))

    def _key(self, number: int) -> int:
        """A key that can be one: an object that is not a value is named by its kind and number."""
        kind, payload = self.old[number]
        if kind in _NO_KEYS:
            return self._text(f"<{kind} {number}>")
        if kind in ("getset", "adapted", "cell", "weakref", "npgenerator"):
            inner = self._through(number)
            return self._key(inner) if inner != number else self._text(f"<{kind} {number}>")
        if kind == "tuple":
            return self._add(("tuple", (NONE, NONE, *(self._key(item) for item in payload[2:]))))
        return self.of(number)

    def _text(self, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = self._add(("str", text))
        return self._texts[text]

    def _number(self, value: int) -> int:
        if value not in self._numbers:
            self._numbers[value] = self._add(("int", value))
        return self._numbers[value]

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _elements(self, kind: str, payload: Any) -> Node:
        plain = all(is_atom(self.old[self._through(number)][0]) for number in payload[2:])
        return (kind if plain else "list", [NONE, NONE, *self._all(payload[2:])])

    def _table(self, payload: Any) -> Node:
        return ("table", (NONE, NONE, *self._all(payload[2:])))

    def _set(self, payload: Any) -> Node:
        return self._elements("set", payload)

    def _weakset(self, payload: Any) -> Node:
        return self._elements("list", payload)  # nothing else holds what is looked at

    def _frozenset(self, payload: Any) -> Node:
        return self._elements("frozenset", payload)

    def _deque(self, payload: Any) -> Node:
        return ("deque", (NONE, NONE, payload[2], *self._all(payload[3:])))

    def _bytearray(self, payload: Any) -> Node:
        return ("bytearray", (NONE, NONE, payload[2]))

    def _pyarray(self, payload: Any) -> Node:
        return ("pyarray", (NONE, NONE, *payload[2:]))

    # Names

    def _ref(self, payload: Any) -> Node:
        return ("str", f"{self.old[payload[0]][1]}.{self.old[payload[1]][1]}")

    def _func(self, payload: Any) -> Node:
        return self._ref(payload)

    def _module(self, payload: Any) -> Node:
        return ("str", self.old[payload[0]][1])

    def _enum(self, payload: Any) -> Node:
        return self.nodes[payload[1] if payload[1] != NONE else payload[2]] if is_atom(self.old[payload[2]][0]) else ("none", None)

    def _live(self, payload: Any) -> Node:
        return ("none", None)

    def _tvalue(self, payload: Any) -> Node:
        return ("tuple", (NONE, NONE, *payload[1:])) if self.old[payload[0]][1] == "Size" else ("str", self.old[payload[1]][1])

    # Objects

    def _entries(self, number: int) -> list[tuple[int, int]]:
        """Keys and values of a recorded dict."""
        kind, payload = self.old[number]
        start = {"dict": 2, "defaultdict": 3, "attrs": 1}.get(kind)
        rest = [] if start is None else payload[start:]
        return list(zip(rest[::2], rest[1::2], strict=True))

    def _attributes(self, payload: Any) -> dict[str, int]:
        """The attributes of a recorded object: slots, then `__dict__`."""
        slots = zip(payload[2::2], payload[3::2], strict=True)
        return {str(self.old[name][1]): value for name, value in (*slots, *self._entries(payload[1])) if value != NOTHING}

    def _obj(self, payload: Any) -> Node:
        attributes = self._attributes(payload)
        if attributes.keys() >= _MODULE_PARTS:
            return self._named(self._state_dict(attributes, ""))
        if attributes.keys() >= _OPTIMIZER_PARTS:
            return self._named(self._optimizer(attributes))
        return self._named((name, self.of(value)) for name, value in attributes.items())

    def _named(self, parts: Iterable[tuple[str, int]]) -> Node:
        return ("dict", (NONE, NONE, *(part for name, number in parts for part in (self._text(name), number))))

    def _state_dict(self, attributes: dict[str, int], prefix: str) -> Iterator[tuple[str, int]]:
        """Names as torch gives them: parameters, buffers that are meant to be saved, then the modules inside."""
        _, skipped = self.old[attributes["_non_persistent_buffers_set"]]
        fleeting = {self.old[number][1] for number in skipped[2:]}
        for part in ("_parameters", "_buffers"):
            for key, value in self._entries(attributes[part]):
                name = self.old[key][1]
                if value != NONE and not (part == "_buffers" and name in fleeting):
                    yield prefix + name, self.of(value)
        for key, value in self._entries(attributes["_modules"]):
            kind, payload = self.old[value]
            inner = self._attributes(payload) if kind == "obj" else {}
            if inner.keys() >= _MODULE_PARTS:
                yield from self._state_dict(inner, f"{prefix}{self.old[key][1]}.")

    def _optimizer(self, attributes: dict[str, int]) -> Iterator[tuple[str, int]]:
        """As torch numbers parameters: in the order of the groups."""
        order: dict[int, int] = {}
        groups: list[int] = []
        for group in self.old[attributes["param_groups"]][1][2:]:
            parts: list[tuple[str, int]] = []
            for key, value in self._entries(group):
                if self.old[key][1] == "params":
                    params = self.old[value][1][2:]
                    numbers = [self._number(order.setdefault(param, len(order))) for param in params]
                    parts.append(("params", self._add(("list", (NONE, NONE, *numbers)))))
                else:
                    parts.append((self.old[key][1], self.of(value)))
            groups.append(self._add(self._named(parts)))
        pairs: list[int] = []
        for key, value in self._entries(attributes["state"]):
            pairs += [self._number(order[key]) if key in order else self._key(key), self.of(value)]
        yield "state", self._add(("dict", (NONE, NONE, *pairs)))
        yield "param_groups", self._add(("list", (NONE, NONE, *groups)))

    def _reduce(self, payload: Any) -> Node:
        parts = ("class", payload[0]), ("arguments", payload[2]), ("state", payload[3]), ("items", payload[4]), ("pairs", payload[5])
        return self._named((name, self.of(number)) for name, number in parts if number != NONE)

    def _method(self, payload: Any) -> Node:
        return ("tuple", (NONE, NONE, *self._all(payload)))

    def _bmethod(self, payload: Any) -> Node:
        return ("tuple", (NONE, NONE, *self._all(payload)))

    def _file(self, payload: Any) -> Node:
        return self._named((name, number) for name, number in zip(("file", "mode", "position"), payload[1:], strict=True))

    def _random(self, payload: Any) -> Node:
        return ("tuple", (NONE, NONE, *payload[1:4]))

    def _npbits(self, payload: Any) -> Node:
        return self._mapping([part for pair in self._entries(payload[1]) for part in pair])

    def _npstate(self, payload: Any) -> Node:
        return ("tuple", (NONE, NONE, *self._all(payload[1:])))

    def _npseed(self, payload: Any) -> Node:
        return ("tuple", (NONE, NONE, *self._all(payload[1:])))

    def _tgen(self, payload: Any) -> Node:
        return ("tuple", (NONE, NONE, *payload))

    # Tensors and arrays, as plain ones

    def _tensor(self, payload: Any) -> Node:
        flags = self._number(self.old[payload[3]][1] & (CONJ | NEG))
        return ("tensor", (NONE, self.of(payload[1]), payload[2], flags, NONE, NONE, payload[6]))

    def _quantized(self, payload: Any) -> Node:
        return ("quantized", (NONE, self.of(payload[1]), payload[2], NONE, *payload[4:6], *self._all(payload[6:])))

    def _sparse(self, payload: Any) -> Node:
        return ("sparse", (NONE, payload[1], self._number(0), NONE, NONE, payload[5], *self._all(payload[6:])))

    def _meta(self, payload: Any) -> Node:
        return ("meta", (NONE, self.of(payload[1]), self._number(0), NONE))

    def _nparray(self, payload: Any) -> Node:
        return ("nparray", (NONE, NONE, payload[2], *self._all(payload[3:])))

    def _npobjects(self, payload: Any) -> Node:
        return ("npobjects", (NONE, NONE, *self._all(payload[2:])))

    def _npmemmap(self, payload: Any) -> Node:
        return self._named((name, self.of(number)) for name, number in zip(("file", "mode", "dtype", "shape"), payload[2:6], strict=True))

    def _npscalar(self, payload: Any) -> Node:
        return ("npscalar", (self._add(("str", "")), *self._all(payload[1:])))

    def _npdtype(self, payload: Any) -> Node:
        return ("npdtype", self._all(payload))
