"""What may be going on around a statement when it runs: the places that `walking` keeps track of.

`(OUT, n)` and `(IN, n)`: outside of `rv.checkpointing` or inside it, with n main loops behind; `(MAIN, n, behind)`: in an iteration of a
main loop, behind its first nested loop or not; `(NEST, n, name)`: in a loop directly in it; `(UNKNOWN,)`: anything. Pure.
"""

from __future__ import annotations

from typing import Any

OUT, IN, MAIN, NEST, UNKNOWN = "out", "in", "main", "nest", "unknown"

Place = tuple[Any, ...]
Places = frozenset[Place]

START: Places = frozenset([(OUT, 0)])
ANYWHERE: Places = frozenset([(UNKNOWN,)])
NOWHERE: Places = frozenset()


def by_kind(places: Places) -> list[tuple[str, Places]]:
    """Places, those of a kind together."""
    kinds = sorted({place[0] for place in places})
    return [(kind, frozenset(place for place in places if place[0] == kind)) for kind in kinds]


def outside(places: Places) -> Places:
    """The places behind `with rv.checkpointing`."""
    return frozenset((OUT, place[1]) if place[0] == IN else place for place in places)


def in_skip_block(place: Place) -> Place:
    """A block that may be put back: its statements count as those of a nested loop; outside of the main loop nothing is known."""
    return (NEST, place[1], None) if place[0] in (MAIN, NEST) else (UNKNOWN,)
