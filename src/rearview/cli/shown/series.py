"""A table of the catalog as series of numbers: one per run, against a loop, another name or the row number. Pure.

Must not know how series are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rearview.cli.shown.chart import Point

DIMENSIONS = ("projid", "run", "tstamp", "filename")
"""The dimension columns every table begins with; a column per loop follows."""

PROCESS = "process"
"""A dimension column behind those where several processes of a run logged."""

ROW_NUMBER = "row"

Line = tuple[str, str]
"""Run and process."""


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one name in one run, or in one process of it where several logged it."""

    run: str
    points: list[Point]
    process: str = ""


@dataclass(frozen=True, slots=True)
class Drawable:
    """One name over all runs."""

    name: str
    x_title: str
    series: list[Series]
    not_numbers: int
    """Values that were left out because they are no numbers."""
    off_axis: int = 0
    """Numbers that were left out because what goes across has no number beside them."""


def as_number(value: object) -> float | None:
    """A value as a number on an axis; None if it is none."""
    if isinstance(value, (bool, int, float)):
        try:
            return float(value)
        except OverflowError:  # an int beyond all floats
            return None
    return None


def drawable(asked: Sequence[str], columns: Sequence[str], rows: Sequence[tuple[Any, ...]], x: str | None) -> Drawable:
    """What to draw of a table of `asked` names: the first of them, against `x`, which is the second or a loop.

    Without `x`: the innermost loop, if its numbers rise within every run, else the number of the row in its run (steps
    that begin again in each epoch would draw over themselves).
    """
    name = asked[0]
    at = _column_of(asked, 0, columns)
    run_at = columns.index("run")
    process_at = columns.index(PROCESS) if PROCESS in columns[: len(DIMENSIONS) + 1] else None
    groups: dict[Line, list[tuple[Any, ...]]] = {}
    for row in rows:
        if row[at] is not None:
            groups.setdefault((row[run_at], "" if process_at is None else str(row[process_at])), []).append(row)
    x_title, x_at = _across(asked, columns, at, groups, x)
    series = []
    not_numbers = off_axis = 0
    for (run, process), of_run in groups.items():
        points: list[Point] = []
        for k, row in enumerate(of_run):
            across = float(k) if x_at is None else as_number(row[x_at])
            up = as_number(row[at])
            if up is None:
                not_numbers += 1
            elif across is None:
                off_axis += 1
            else:
                points.append((across, up))
        if points:
            series.append(Series(run, points, process))
    return Drawable(name, x_title, series, not_numbers, off_axis)


def _column_of(asked: Sequence[str], number: int, columns: Sequence[str]) -> int:
    """Where a name asked for stands: at the end, perhaps with a word more if a dimension is called the same.

    A dimension asked for by its name stands among the dimensions only.
    """
    at = len(columns) - len(asked) + number
    name = asked[number]
    return at if columns[at].startswith(name) or name not in columns else columns.index(name)


def _across(
    asked: Sequence[str], columns: Sequence[str], at: int, groups: dict[Line, list[tuple[Any, ...]]], x: str | None
) -> tuple[str, int | None]:
    if x is not None:
        return x, _column_of(asked, 1, columns) if x in asked[1:] else columns.index(x)
    innermost = at - 1
    is_loop = columns[innermost] not in (*DIMENSIONS, PROCESS)
    if is_loop and all(_rises([row[innermost] for row in of_run]) for of_run in groups.values()):
        return columns[innermost], innermost
    return ROW_NUMBER, None


def _rises(values: Sequence[object]) -> bool:
    numbers = [as_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    return len(known) == len(numbers) and all(a < b for a, b in pairwise(known))
