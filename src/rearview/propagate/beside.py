"""New statements next to one that is placed which change what it reads, and stay behind.

Its author may have added them together with it: without them it would log another value. Or the program has come to do something else
since: nothing tells, so that the place is not certain. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from rearview.instrument.companions import ANYTHING, Companions, concerns
from rearview.propagate.match import Matching
from rearview.propagate.tree import Node

_AGAIN = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)
"""What is in these may run again: what is behind a statement comes before its next time."""


def left_behind(matching: Matching, group: list[Node], travelling: Collection[Node]) -> dict[int, str]:
    """What is doubtful about a statement that is placed without what was written next to it, by the line of that."""
    stay = [one for one in _next_to(matching, group) if one not in travelling]
    if not stay:
        return {}
    matching.new.need_all()  # functions that it calls read something, too
    companions = Companions(matching.new.tree, matching.new.calls)
    reads = companions.reads(one.syntax for one in [*group, *travelling])
    found = {}
    for one in stay:
        changes = companions.changes([one.syntax])
        if one.index > group[-1].index:  # what it does that cannot be seen belongs to the program, if anything
            changes -= {ANYTHING}
        what = concerns(changes, reads)
        if what is not None:
            text, changed = one.file.lines[one.line - 1].strip(), f"`{what}`" if what else "what it reads"
            found[one.line] = f"line {one.line} of the new version, `{text}`, may change {changed}, and is not there"
    return found


def _next_to(matching: Matching, group: list[Node]) -> Iterator[Node]:
    """The statements between it and its neighbours that the old version has, those behind it only where they can come before it."""
    first, last = group[0], group[-1]
    sides = [first.siblings[: first.index][::-1]]
    if any(isinstance(one.syntax, _AGAIN) for one in first.above()):
        sides.append(first.siblings[last.index + 1 :])
    for side in sides:
        for one in side:
            if one in matching.old_of:
                break
            if not one.nothing:
                yield one
