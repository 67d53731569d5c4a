"""Which of several gaps between two statements of the old version a statement goes into. Pure."""

from __future__ import annotations

import ast

from rearview.instrument.scopes import bound_by
from rearview.propagate.spots import Spot
from rearview.propagate.tree import Node


def choose(spot: Spot, group: list[Node], reads: set[str]) -> bool:
    """Set the index of a place, and say what is doubtful about it. False if it could as well be another."""
    if spot.low >= spot.high:
        spot.index = spot.low
        return True
    block = spot.siblings
    between = block[spot.low : spot.high]
    if all(one.nothing for one in between):
        spot.index = spot.low
        return True
    last = max((k for k, one in enumerate(between) if _binds(one) & reads), default=None)
    near_before = spot.before is not None and spot.before.near
    near_after = spot.after is not None and spot.after.near
    if last is not None and not near_before:
        spot.low += last + 1
    if spot.low >= spot.high:
        spot.index = spot.low
        return True
    if near_before and not near_after:
        spot.index = spot.low
    elif near_after and not near_before:
        spot.index = spot.high
    else:
        index = _by_layout(spot, group)
        if index is None:
            return False
        spot.index = index
    spot.doubts.append("this version has other statements there")
    return True


def _by_layout(spot: Spot, group: list[Node]) -> int | None:
    """A blank line on one side says to which neighbour it belongs."""
    if spot.before is None or spot.after is None:
        return spot.low if spot.before or not spot.after else spot.high
    file = group[0].file
    mine, theirs = file.blank_before(group[0].line), file.blank_before(spot.after.new.line)
    if mine == theirs:
        return None
    return spot.high if mine else spot.low


def _binds(node: Node) -> set[str]:
    return {name for one in ast.walk(node.syntax) for name in bound_by(one)}
