"""A statement of one version of a file placed into another version: the old file's own text with lines put in, or why not.

It refuses rather than guesses: a statement in the wrong place would log something else under the same name. Pure: text in, text out.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from rearview.instrument.scopes import read
from rearview.propagate.choose import choose
from rearview.propagate.match import Matching
from rearview.propagate.names import Names
from rearview.propagate.splice import Insertion, alone, indentation, splice, text_of
from rearview.propagate.spots import Nowhere, Spot, Spots
from rearview.propagate.tree import File, Node


@dataclass(frozen=True, slots=True)
class Placed:
    """The old file with the statement in it."""

    text: str
    lines: tuple[int, ...]
    """Where the statement now begins and ends; empty if it was there already."""
    certain: bool
    why: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    inserted: tuple[tuple[int, int], ...] = ()
    """Ranges of characters of `text` that are new: without them it is the old file."""
    bare: str = ""
    """The old file with the statement alone, without what was carried along."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It was not placed, and why."""

    why: str
    candidates: tuple[int, ...] = ()
    """Lines of the old file before which it could stand."""


def propagate(new: str, line: int, end: int | None, old: str) -> Placed | Refused:
    """Place the statements on lines `line` to `end` of one version into another.

    >>> found = propagate("for i in x:\\n    a = f(i)\\n    log(a)\\n", 3, None, "for i in x:\\n    b = f(i)\\n")
    >>> print(found.text, end="")
    for i in x:
        b = f(i)
        log(b)
    """
    files = []
    for text, whose in ((new, "the new version"), (old, "this version")):
        try:
            files.append(File(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            return Refused(f"{whose} cannot be read as Python: {getattr(problem, 'msg', problem)}")
    group = _group(files[0], line, end)
    if not group:
        return Refused(f"there is no statement on line {line} of the new version")
    return _Placing(files[0], files[1], group).result()


def _group(file: File, line: int, end: int | None) -> list[Node]:
    """The statements on some lines: those that stand next to each other, in no other one on these lines."""
    last = end or line
    found: list[Node] = []
    for node in file.nodes:
        beside = not found or (node.owner is found[0].owner and node.field == found[0].field)
        if _statement(node) and beside and line <= node.line and node.end <= last:
            found.append(node)
    return found or [node for node in file.nodes if _statement(node) and node.line <= line <= node.end][-1:]


def _statement(node: Node) -> bool:
    return isinstance(node.syntax, ast.stmt) and node.field != "elif"


class _Placing:
    def __init__(self, new: File, old: File, group: list[Node]) -> None:
        self._new, self._old, self._group = new, old, group
        for node in group:
            for one in [node, *node.below()]:
                one.nothing = True  # the new version as it was without it
        self._matching = Matching(new, old)
        self._names = Names(self._matching)

    def result(self) -> Placed | Refused:
        spot = Spots(self._matching).find(self._group)
        if isinstance(spot, Nowhere):
            return Refused(spot.why, tuple(one.line for one in spot.spots))
        reads = read([node.syntax for node in self._group])
        renamed: dict[str, str] = {}
        doubts = list(spot.doubts)
        for name in sorted(reads):
            meaning = self._names.meaning(name, self._group[0], spot.owner if spot.owner.owner is None else _inside(spot))
            if meaning.name is None:
                return Refused(f"this version has no `{name}`")
            if meaning.name != name:
                renamed[name] = meaning.name
            if not meaning.sure:
                doubts.append(f"whether `{name}` is `{meaning.name}`")
        choose(spot, self._group, {renamed.get(name, name) for name in reads})
        doubts += spot.doubts
        return self._text(spot, renamed, doubts)

    def _text(self, spot: Spot, renamed: dict[str, str], doubts: list[str]) -> Placed | Refused:
        at = _line(spot)
        if at is None:
            return Refused("the place shares a line with other statements", (spot.line,))
        line, indent = at
        lines = text_of(self._group, indent, renamed)
        if lines is None:
            return Refused("its text cannot be written there", (line,))
        text, ranges, begins = splice(self._old, [Insertion(line, tuple(lines))])
        try:
            File(text)
        except (SyntaxError, ValueError):
            return Refused("the version would not be a program any more", (line,))
        certain = not doubts
        return Placed(text, (begins[0], begins[0] + len(lines) - 1), certain, "; ".join(doubts), renamed, (), tuple(ranges), text)


def _inside(spot: Spot) -> Node:
    """A statement that stands where the place is: its scopes are the place's."""
    return spot.siblings[0] if spot.siblings else spot.owner


def _line(spot: Spot) -> tuple[int, str] | None:
    """The line before which lines are put, and how they are indented."""
    block = spot.siblings
    before = block[spot.index - 1] if spot.index else None
    after = block[spot.index] if spot.index < len(block) else None
    indent = next((space for one in (before, after) if one and (space := indentation(one)) is not None), None)
    if indent is None:
        return None
    if before is not None and (after is None or spot.before is not None) and alone(before):
        return before.end + 1, indent
    if after is not None and indentation(after) is not None:
        return after.line, indent
    return None
