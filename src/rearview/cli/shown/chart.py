"""Lines as a chart of characters: braille dots, or letters where several lines cannot be told apart by colour. Pure.

Knows coordinates and characters. Must not know runs, terminals or where the numbers came from.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rearview.cli.shown import text

Point = tuple[float, float]

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille character: four rows of two."""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart. A point that is not finite interrupts it."""

    label: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The stretch of numbers that the chart shows."""

    left: float
    right: float
    bottom: float
    top: float


Paint = Callable[[str, int], str]
"""Colours a character of the k-th line."""


def draw(lines: Sequence[Line], width: int, height: int, paint: Paint | None = None) -> list[str]:
    """The chart in `height` rows of dots and two rows of axis, each at most `width` columns wide."""
    frame = _frame(lines)
    if frame is None:
        return ["nothing to draw: no value is finite"]
    labels = _row_labels(frame, height)
    margin = max(map(len, labels))
    columns = max(4, width - margin - 2)
    lettered = paint is None and len(lines) > 1
    canvas = _letters(lines, frame, columns, height) if lettered else _braille(lines, frame, columns, height, paint)
    rows = [f"{label:>{margin}} {'┤' if label else '│'}{row}".rstrip(" ") for label, row in zip(labels, canvas, strict=True)]
    return [*rows, f"{'':>{margin}} └{'─' * columns}", f"{'':>{margin}}  {_column_labels(frame, columns)}"]


def _finite(line: Line) -> Iterator[Point]:
    return (point for point in line.points if math.isfinite(point[0]) and math.isfinite(point[1]))


def _frame(lines: Sequence[Line]) -> _Frame | None:
    points = [point for line in lines for point in _finite(line)]
    if not points:
        return None
    left, right = _opened(min(x for x, _ in points), max(x for x, _ in points))
    bottom, top = _opened(min(y for _, y in points), max(y for _, y in points))
    return _Frame(left, right, bottom, top)


def _opened(low: float, high: float) -> tuple[float, float]:
    """A stretch that is not empty, so that a constant stands in the middle."""
    if low < high:
        return low, high
    around = abs(low) / 10 or 1.0
    largest = sys.float_info.max
    return max(-largest, low - around), min(largest, high + around)


def _share(value: float, low: float, high: float) -> float:
    """Where between low (0) and high (1). Halves first: high - low may be more than a float can hold."""
    span = high / 2 - low / 2
    return min(1.0, max(0.0, (value / 2 - low / 2) / span)) if span > 0 else 0.5


def _row_labels(frame: _Frame, height: int) -> list[str]:
    labels = [""] * height
    for share in (0.0, 0.5, 1.0) if height >= 5 else (0.0, 1.0):
        at = round((1 - share) * (height - 1))
        # The value in the middle of that row, in the numbers of people.
        labels[at] = text.number(frame.bottom * (1 - share) + frame.top * share, 4)
    return labels


def _axis(value: float) -> str:
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e9 else text.number(value, 4)


def _column_labels(frame: _Frame, columns: int) -> str:
    left, right = _axis(frame.left), _axis(frame.right)
    middle = _axis(frame.left / 2 + frame.right / 2)
    ends = len(left) + len(right)
    if ends >= columns:
        return left[:columns]
    if ends + len(middle) + 6 > columns or middle in (left, right):
        return left + " " * max(1, columns - ends) + right
    at = columns // 2 - len(middle) // 2
    start = left + " " * (at - len(left)) + middle
    return start + " " * (columns - len(start) - len(right)) + right


def _cells(line: Line, frame: _Frame, columns: int, rows: int) -> list[tuple[int, int] | None]:
    """The points as cells of a grid, row 0 on top; None where the line is interrupted."""
    cells: list[tuple[int, int] | None] = []
    for x, y in line.points:
        if not (math.isfinite(x) and math.isfinite(y)):
            cell = None
        else:
            column = round(_share(x, frame.left, frame.right) * (columns - 1))
            cell = column, round((1 - _share(y, frame.bottom, frame.top)) * (rows - 1))
        if not cells or cells[-1] != cell:
            cells.append(cell)
    return cells


def _segment(a: tuple[int, int], b: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The cells between two cells, both included."""
    steps = max(abs(b[0] - a[0]), abs(b[1] - a[1]))
    if steps == 0:
        yield a
        return
    for k in range(steps + 1):
        yield round(a[0] + (b[0] - a[0]) * k / steps), round(a[1] + (b[1] - a[1]) * k / steps)


def _braille(lines: Sequence[Line], frame: _Frame, columns: int, height: int, paint: Paint | None) -> list[str]:
    dots = [[0] * columns for _ in range(height)]
    owner = [[0] * columns for _ in range(height)]
    for number, line in enumerate(lines):
        previous: tuple[int, int] | None = None
        for cell in _cells(line, frame, columns * 2, height * 4):
            for x, y in _segment(previous or cell, cell) if cell else ():
                dots[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
                owner[y // 4][x // 2] = number
            previous = cell
    return [
        "".join(_dot(bits, whose, paint) for bits, whose in zip(row, owners, strict=True)).rstrip(" ")
        for row, owners in zip(dots, owner, strict=True)
    ]


def _dot(bits: int, whose: int, paint: Paint | None) -> str:
    if not bits:
        return " "
    return paint(chr(0x2800 + bits), whose) if paint else chr(0x2800 + bits)


def _letters(lines: Sequence[Line], frame: _Frame, columns: int, height: int) -> list[str]:
    grid = [[" "] * columns for _ in range(height)]
    for number, line in enumerate(lines):
        letter = LETTERS[number % len(LETTERS)]
        previous: tuple[int, int] | None = None
        for cell in _cells(line, frame, columns, height):
            for x, y in _segment(previous or cell, cell) if cell else ():
                grid[y][x] = letter if grid[y][x] in (" ", letter) else "*"
            previous = cell
    return ["".join(row).rstrip(" ") for row in grid]
