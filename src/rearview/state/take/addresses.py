"""Numbers that are the `id()` of an object in the state, as the keys of what a program remembers about its objects.

After a resume the object is another one, or lies elsewhere: the number leads nowhere. So it is named, as is what cannot be kept.
"""

from __future__ import annotations

from rearview.state.take.walk import Missing, Walk

WHY = "the id() of an object, which has another one when it is put back; the object itself, or its name, would do as a key"
_LEAST = 1 << 20
"""Lower addresses nobody has."""
_ALIGNED = 16


def look(walk: Walk) -> None:
    """Everything was walked: name the numbers that are addresses of what was met."""
    met = walk.memo  # by `identity`, which is the address without its last four bits: these are zero
    found = [value for value in walk.interned[int] if value > _LEAST and value % _ALIGNED == 0 and value // _ALIGNED in met]
    walk.missing += [Missing(walk.where(walk.interned[int][value]), "int", WHY) for value in found]
