"""Statements before a place that change what is read there, where the new version has none, or has them in another order.

`zero_grad()` behind the step and before the log, where today it begins the iteration: the same line logs zeros. What a variable is bound
to is told by `origins`; here it is what is done to objects. Knows matched statements. Must not know text. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from rearview.instrument.companions import Companions, Path, concerns
from rearview.propagate.match import Matching, increasing
from rearview.propagate.spots import Spot
from rearview.propagate.tree import Node

_LOOPS = ("For", "While")


def otherwise_ordered(
    matching: Matching, spot: Spot, group: list[Node], travelling: Collection[Node], renamed: Mapping[str, str]
) -> Iterator[str]:
    """What is doubtful about a place for what comes before it in its block."""
    first = group[0]
    mine = [one for one in first.siblings[: first.index] if not one.nothing and one not in travelling]
    theirs = [one for one in spot.siblings[: spot.index] if not one.nothing]
    moved, more, less = _differences(matching, spot, mine, theirs)
    once = _renamed(Companions.sets(one.syntax for one in less), renamed) ^ Companions.sets(one.syntax for one in more)
    if not moved and not once:
        return
    for file in (matching.new, matching.old):
        file.need_all()  # functions that it calls read something, too
    new, old = (Companions(file.tree, file.calls) for file in (matching.new, matching.old))
    reads = _renamed(new.reads(one.syntax for one in [*group, *travelling]), renamed)
    for one in moved:
        if concerns(old.changes([one.syntax]), reads) is not None:
            yield f"{one.quoted}, may change what it reads, and stands elsewhere in the new version"
    for path in sorted(once & reads):
        there = path in Companions.sets(one.syntax for one in more)
        yield f"`{'.'.join(path)}` is set before it in {'this' if there else 'the new'} version only"


def _renamed(paths: Iterable[Path], renamed: Mapping[str, str]) -> frozenset[Path]:
    """What something of the new version is in the old one."""
    return frozenset((renamed.get(path[0], path[0]), *path[1:]) if path else path for path in paths)


def _differences(matching: Matching, spot: Spot, mine: list[Node], theirs: list[Node]) -> tuple[list[Node], list[Node], list[Node]]:
    """Of what comes before: statements of the old version that today come later or in another order; those that only one version has."""
    at = {one: index for index, one in enumerate(mine)}
    both = [(index, at[new]) for index, one in enumerate(theirs) if (new := matching.new_of.get(one)) in at]
    kept = {index for index, _ in increasing(both)}
    moved = [theirs[index] for index, _ in both if index not in kept]
    found = {theirs[index] for index, _ in both}
    block = mine[0].siblings if mine else []
    behind = [one for one in _not_round(theirs, found) if matching.new_of.get(one) in block]
    known = {matching.new_of[one] for one in found}
    later = [old for one in _not_round(mine, known) if (old := matching.old_of.get(one)) in spot.siblings and old is not None]
    more = [one for one in theirs if one not in matching.new_of]
    less = [one for one in mine if one not in matching.old_of]
    return [*moved, *behind, *later], more, less


def _not_round(before: list[Node], found: Collection[Node]) -> list[Node]:
    """Those of some statements before a place that are not before it in the other version. In a loop the first of all may as well be the
    last of the time before: it comes between the same statements."""
    first = next((index for index, one in enumerate(before) if one in found), 0)
    round_ = before[:first] if before and before[0].owner is not None and before[0].owner.kind in _LOOPS else []
    return [one for one in before if one not in found and one not in round_]
