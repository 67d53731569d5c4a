"""Where two states of a variable come apart, as a person would write it: `trainer.meter.count`. For a difference that digests have shown.

Goes down both trees at once, into what differs by itself. What a state says it does not hold, or brings back otherwise, is no place of
a difference, wherever it is in the variable. Knows trees and digests of buffers; must not know why there are two states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rearview.state import visible
from rearview.state.digests import root_digests
from rearview.state.leaves import State
from rearview.state.places import root_text, shortened
from rearview.state.tree import NONE, RootKey, Tree, is_atom

MOST = 5
"""So many places in one variable are found."""
_MOST_LOOKED_AT = 300
"""In one variable: each look takes as long as hashing what is there. Then it is named as a whole."""
_PAIRS = {"dict": 2, "defaultdict": 3, "attrs": 1, "obj": 2, "extra": 1}
"""Kinds with names and values, and what stands before them."""
_ITEMS = {"list": 2, "tuple": 2, "deque": 3, "npobjects": 6}
_UNORDERED = ("set", "frozenset", "weakset")
_NO_STATE = {"tensor": (3,), "func": (2, 3), "attrs": (0,), "file": (0, 1), "npmemmap": (2,)}
"""Parts of nodes that count for no digest."""
_GRADIENT = ("tensor", 4)
_WRITES = frozenset("wax+")
_ALONE: RootKey = ("alone",)

Told = Callable[[str, str], bool]
"""Of a place and the kind of node that was there."""


@dataclass(slots=True)
class _Side:
    """A state, and the digests of its nodes, each by itself."""

    state: State
    _seen: dict[int, visible.Range]
    _known: dict[int, str] = field(default_factory=dict)

    def digest(self, number: int) -> str:
        tree = self.state.tree
        if number not in self._known:
            alone = Tree(tree.nodes, {_ALONE: number}, tree.buffers)
            self._known[number] = root_digests(alone, self.state.buffers, seen=self._seen)[_ALONE]
        return self._known[number]

    def named(self, kind: str, payload: Sequence[int]) -> Iterator[tuple[tuple[str, str], int]]:
        """The values of a dict, or of an object, by what their names are and how these read."""
        for key, value in zip(payload[::2], payload[1::2], strict=True):
            name, text = self.state.tree.nodes[key]
            shown = repr(text) if is_atom(name) else "..."
            yield (self.digest(key), f"[{shown}]" if kind in ("dict", "defaultdict") else f".{text}"), value

    def written(self, number: int | None) -> object:
        """The path of a file that is written; None for anything else."""
        nodes = self.state.tree.nodes
        kind, payload = nodes[NONE if number is None else number]
        return nodes[payload[1]][1] if kind == "file" and not _WRITES.isdisjoint(str(nodes[payload[2]][1])) else None


class Apart:
    """Two states to be looked into."""

    def __init__(self, then: State, now: State, told: Told) -> None:
        self._then = _Side(then, dict(visible.ranges(then.tree)))
        self._now = _Side(now, dict(visible.ranges(now.tree)))
        self._told = told
        """Whether the recorded state says of a place itself that it is not as it was."""
        self.shared: set[str] = set()
        """Of the places that were found, those that hold what they held, and differ in who else holds it."""

    def is_other(self, key: RootKey) -> bool:
        """Whether a variable is another thing by itself, and not only in what it shares with others."""
        then, now = self._then.state.tree.roots.get(key), self._now.state.tree.roots.get(key)
        return then is None or now is None or self._then.digest(then) != self._now.digest(now)

    def places(self, key: RootKey, called: str | None = None) -> list[str]:
        """Where a variable differs; nothing if that was told in every place."""
        name = root_text(key) if called is None else called
        first, second = self._then.state.tree.roots.get(key), self._now.state.tree.roots.get(key)
        found: dict[str, None] = {}
        seen: set[tuple[int | None, int | None]] = set()
        waiting = deque([(first, second, name)])
        while waiting and len(found) < MOST:
            then, now, path = waiting.popleft()
            if (then, now) in seen or self._is_told(then, now, path):
                continue
            if len(seen) == _MOST_LOOKED_AT:
                return list(found) or [name]
            seen.add((then, now))
            inner = [] if then is None or now is None else list(self._inside(then, now))
            waiting += [(before, after, shortened(path + label)) for label, before, after in inner]
            if not inner:
                found[path] = None
                if self._are_alike(then, now):
                    self.shared.add(path)
        return list(found)

    def _are_alike(self, then: int | None, now: int | None) -> bool:
        """Whether two nodes without a part that differs by itself hold the same."""
        if then is None or now is None:
            return False
        (kind, before), (other, after) = self._then.state.tree.nodes[then], self._now.state.tree.nodes[now]
        if kind != other or is_atom(kind) or kind in _UNORDERED or len(before) != len(after):
            return False
        names = slice(_PAIRS.get(kind, len(before)), None, 2)  # in another order is something else
        return not any(map(self._differ, before[names], after[names]))

    def _is_told(self, then: int | None, now: int | None, path: str) -> bool:
        kind = self._then.state.tree.nodes[NONE if then is None else then][0]
        if kind == "live" or self._told(path, kind):
            return True
        file = self._then.written(then)  # one that is another one now is said with the output files
        return file is not None and self._now.written(now) != file

    def _inside(self, then: int, now: int) -> Iterator[tuple[str, int | None, int | None]]:
        """The parts of two nodes that differ by themselves, as they are called; None for one that is not there."""
        (kind, before), (other, after) = self._then.state.tree.nodes[then], self._now.state.tree.nodes[now]
        if kind != other or is_atom(kind) or kind in _UNORDERED:
            return
        if kind in _PAIRS:
            first = _PAIRS[kind]
            names, others = dict(self._then.named(kind, before[first:])), dict(self._now.named(kind, after[first:]))
            pairs = {key: (names.get(key), others.get(key)) for key in names | others}
            yield from ((label, *pair) for (_, label), pair in pairs.items() if self._differ(*pair))
        elif len(before) != len(after):
            return
        first = _ITEMS.get(kind, len(before))
        for at in range(_PAIRS.get(kind, len(before))):
            if at not in _NO_STATE.get(kind, ()) and self._differ(before[at], after[at]):
                label = f"[{at - first}]" if at >= first else ""
                yield ".grad" if (kind, at) == _GRADIENT else label, before[at], after[at]

    def _differ(self, then: int | None, now: int | None) -> bool:
        return then is None or now is None or self._then.digest(then) != self._now.digest(now)
