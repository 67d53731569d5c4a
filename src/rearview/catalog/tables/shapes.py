"""Shapes: the loops around a value, outermost first, and which shape answers for which rows. Pure.

The rules of the table (`docs/reference` has them in full): a value repeats down the rows of deeper shapes below its
iteration; among several shapes of one name the nearest that the process has stands; shapes that are not prefixes of each
other never meet in a row.
"""

from __future__ import annotations

from collections.abc import Iterable

from rearview.catalog.tables.places import Occurrence, Shape


def is_above(upper: Shape, lower: Shape) -> bool:
    """Is `upper` a proper prefix of `lower`?"""
    return len(upper) < len(lower) and lower[: len(upper)] == upper


def loop_columns(shape: Shape) -> list[str]:
    """The column names of a shape's loops: a loop inside a loop of the same name is `x_2`."""
    seen: dict[str, int] = {}
    names = []
    for loop in shape:
        seen[loop] = seen.get(loop, 0) + 1
        names.append(loop if seen[loop] == 1 else f"{loop}_{seen[loop]}")
    return names


def column_order(shapes: Iterable[Shape]) -> list[str]:
    """All loop columns in the order they are met, each before the loops inside it."""
    order: list[str] = []
    for shape in shapes:
        columns = loop_columns(shape)
        for k, column in enumerate(columns):
            if column not in order:
                inside = [order.index(later) for later in columns[k + 1 :] if later in order]
                order.insert(min(inside, default=len(order)), column)
    return order


def answers(at: dict[Shape, Occurrence], upper: Shape, rows: Shape) -> set[int]:
    """The processes in which a name's values at `upper` repeat down to rows of shape `rows`: those that log it nowhere nearer."""
    near = set(at[upper].rps)
    for shape, occurrence in at.items():
        if is_above(upper, shape) and (shape == rows or is_above(shape, rows)):
            near -= occurrence.rps
    return near


def logs_it(at: dict[Shape, Occurrence], rows: Shape) -> set[int]:
    """The processes that log a name at a shape that rows of shape `rows` could show."""
    found: set[int] = set()
    for shape, occurrence in at.items():
        if shape == rows or is_above(shape, rows):
            found |= occurrence.rps
    return found
