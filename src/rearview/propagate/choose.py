"""Which of several gaps between two statements of the old version a statement goes into. Pure."""

from __future__ import annotations

import ast

from rearview.instrument.scopes import bound_by, parameters
from rearview.propagate.heads import head_of
from rearview.propagate.spots import Anchor, Spot
from rearview.propagate.telling import tells
from rearview.propagate.tree import File, Node


def choose(spot: Spot, group: list[Node], reads: set[str]) -> bool:
    """Set the index of a place, and say what is doubtful about it. False if it could as well be another."""
    if spot.before is None or isinstance(spot.before.old.syntax, ast.Import | ast.ImportFrom):  # imports come first
        while spot.low < spot.high and isinstance(spot.siblings[spot.low].syntax, ast.Import | ast.ImportFrom):
            spot.low += 1
    spot.index = spot.low
    if all(one.nothing for one in spot.siblings[spot.low : spot.high]):
        return True
    _behind_its_values(spot, group, reads)
    if spot.low >= spot.high:
        return True
    spot.doubts.append("this version has other statements there")
    return _one_side(spot, group)


def _behind_its_values(spot: Spot, group: list[Node], reads: set[str]) -> None:
    """Move a place behind the statements there that give what is read its value, unless the neighbour before it is the one that does."""
    between = spot.siblings[spot.low : spot.high]
    last = max((k for k, one in enumerate(between) if _binds(one) & reads), default=None)
    if last is not None and (not _near(spot.before) or (_near(spot.after) and _goes_on(spot, group, between[last], reads))):
        spot.low += last + 1
        spot.index = spot.low


def _one_side(spot: Spot, group: list[Node]) -> bool:
    """Set the index to one end of the gap; False if the other is as good."""
    near_before, near_after = _near(spot.before), _near(spot.after)
    between = spot.siblings[spot.low : spot.high]
    if all(tells(node) for node in group) and any(one.blocks and tells(one) for one in between):
        return False  # in front of that block, in it, behind it
    if all(one.nothing or tells(one) for one in between):
        spot.index = spot.high if near_after and not near_before else spot.low
        return True
    if near_before and not near_after:
        return not _may_end(spot)
    if (near_after and not near_before and not _first(group)) or spot.leads:
        spot.index = spot.high
        return True
    if near_after and spot.before is None and spot.block:
        return True  # the first of its block in this version, too
    if near_before or near_after or (spot.after is not None and spot.before is None):
        index = _attached(spot, group)
        if index is None:
            return False  # as good behind the one neighbour as before the other
        spot.index = index
    return True


def _may_end(spot: Spot) -> bool:
    """Whether it is the last of its block, and nothing but standing behind its neighbour speaks for the place: where the old version has
    more behind that one, it could as well be the last there."""
    held = spot.before is not None and (spot.before.gives or spot.before.new is spot.fellow)
    return spot.last and spot.block and not held


def _near(anchor: Anchor | None) -> bool:
    return anchor is not None and anchor.near


def _goes_on(spot: Spot, group: list[Node], node: Node, reads: set[str]) -> bool:
    """Whether a statement of the old version gives a variable its value, always, that the one before the place gives and the next reads."""
    before = [one for one in group[0].siblings[: group[0].index] if not one.nothing][-1:]
    return not node.blocks and spot.before is not None and spot.before.new in before and bool(_binds(before[0]) & _binds(node) & reads)


def _attached(spot: Spot, group: list[Node]) -> int | None:
    """Behind the neighbour before it or before the one behind it: where there is less of a gap in the text."""
    index = _by_layout(spot, group)
    if index is not None or spot.after is None or not spot.after.near:
        return index
    file = group[0].file
    start = spot.before.new.end if spot.before is not None else group[0].line - 1
    before = _gap(file, start, group[0].line)
    after = _gap(file, group[-1].end, spot.after.new.line)
    if before == 0 < after:
        return spot.low
    if after == 0 < before and spot.before is not None:
        return spot.high
    return None  # next to both, or to neither


def _gap(file: File, end: int, line: int) -> int:
    """What is between two lines: nothing, a comment, a blank line."""
    between = [text.strip() for text in file.lines[end : line - 1]]
    return 2 if "" in between else 1 if any(text.startswith("#") for text in between) else 0


def _by_layout(spot: Spot, group: list[Node]) -> int | None:
    """The only gap between two paragraphs, if that is where the statement was."""
    if spot.after is None or spot.before is None or not spot.block:
        return None
    new, old = group[0].file, spot.owner.file
    ends = new.blank_before(group[0].line) or new.blank_before(spot.after.new.line)
    gaps = [k for k in range(spot.low, spot.high + 1) if old.blank_before(spot.siblings[k].line)]
    return gaps[0] if ends and len(gaps) == 1 else None


def not_yet(spot: Spot, name: str) -> bool:
    """Whether a variable of the function around a place gets its value only behind it, this time and every time."""
    loops = {one for one in [spot.owner, *spot.owner.above()] if one.kind in ("For", "While")}
    return _only_behind(spot, name) and not any(above in loops for one in _makers(spot, name) for above in [one, *one.above()])


def stale(spot: Spot, group: list[Node], new: str, old: str) -> bool:
    """Whether a variable that gets its value before the statement, each time of its loop, gets it only behind the place in the old version.

    There it would still have the value of the time before.
    """
    above = [one for one in group[0].above() if one.function is group[0].function]
    loop = next((one for one in above if one.kind in ("For", "While")), None)
    if loop is None or not _only_behind(spot, old):
        return False
    return any(one.line < group[0].line and new in one.head and new in _makes(one) for one in loop.below())


def _only_behind(spot: Spot, name: str) -> bool:
    makers = _makers(spot, name)
    place = _begin(spot.siblings[spot.index]) if spot.index < len(spot.siblings) else (spot.line, 0)
    return bool(makers) and all(_begin(one) >= place for one in makers)


def _begin(node: Node) -> tuple[int, int]:
    """The line and column where a statement begins: several may stand on one line."""
    return node.line, getattr(node.syntax, "col_offset", 0)


def _makers(spot: Spot, name: str) -> list[Node]:
    """The statements that bind a variable of the function around a place; none if it is a parameter."""
    home = spot.owner if spot.owner.owner is None else (spot.siblings[0] if spot.siblings else spot.owner).function
    if name in parameters(home.syntax):
        return []
    return [one for one in home.below() if name in one.head and one.function is home and name in _makes(one)]


def wait_for(spot: Spot, names: list[str]) -> bool:
    """Set the index of a place behind the last of the statements there that give some variables their values, if one does."""
    last = max((k for k in range(spot.index, spot.high) if not _makes(spot.siblings[k]).isdisjoint(names)), default=None)
    if last is not None:
        spot.index = last + 1
    return last is not None


def _makes(node: Node) -> set[str]:
    """The names that a statement itself binds, its blocks left out."""
    own = {node.syntax.name} if isinstance(node.syntax, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else set()
    return own | {name for head in head_of(node.syntax) for one in ast.walk(head) for name in bound_by(one)}


def _first(group: list[Node]) -> bool:
    """Whether nothing stands before it in its block: its place is the beginning as much as the next statement."""
    return all(one.nothing for one in group[0].siblings[: group[0].index])


def _binds(node: Node) -> set[str]:
    return {name for one in ast.walk(node.syntax) for name in bound_by(one)}
