"""Which of several gaps between two statements of the old version a statement goes into. Pure."""

from __future__ import annotations

import ast

from rearview.instrument.scopes import bound_by
from rearview.propagate.spots import Spot
from rearview.propagate.tree import Node


def choose(spot: Spot, group: list[Node], reads: set[str]) -> None:
    """Set the index of a place, and say what is doubtful about it."""
    if spot.low >= spot.high:
        spot.index = spot.low
        return
    block = spot.siblings
    between = block[spot.low : spot.high]
    if all(one.nothing for one in between):
        spot.index = spot.low
        return
    last = max((k for k, one in enumerate(between) if _binds(one) & reads), default=None)
    near_before = spot.before is not None and spot.before.near
    near_after = spot.after is not None and spot.after.near
    if last is not None and not near_before:
        spot.low += last + 1
    if spot.low >= spot.high:
        spot.index = spot.low
        return
    if near_before and not near_after:
        spot.index = spot.low
    elif near_after and not near_before:
        spot.index = spot.high
    else:
        spot.index = _by_layout(spot, group)
    spot.doubts.append("this version has other statements there")


def _by_layout(spot: Spot, group: list[Node]) -> int:
    file = group[0].file
    mine = file.blank_before(group[0].line)
    after = spot.after
    theirs = file.blank_before(after.new.line) if after else True
    if mine and not theirs:
        return spot.high
    return spot.low if spot.before else spot.high


def _binds(node: Node) -> set[str]:
    return {name for one in ast.walk(node.syntax) for name in bound_by(one)}
