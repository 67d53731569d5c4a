"""Aligned tables that fit the screen: escape, drop and shorten, then pad. Pure but for the colours a screen allows.

Cells are raw text: they are escaped here, so no caller can forget it. A column that does not fit is shortened down to
its minimum, then whole columns go, the least important first; the caller is told which. Must not know what a run is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rearview.cli.shown import text
from rearview.cli.shown.screen import Screen

GAP = "  "
SPARE = 8
"""Columns of this weight and more are dropped as soon as others do not get the width they wish for."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table on screen."""

    title: str
    align: str = "left"
    least: int = 6
    """Shortened down to this many columns before anything is dropped."""
    wish: int = 0
    """A width at which its text is of use: columns of weight SPARE or more go before this one gets less."""
    weight: int = 0
    """0 is never dropped; otherwise the highest goes first."""
    keep: str = "start"
    """What of a shortened text stays: its `start`, its `end`, whole `words`."""
    style: str = ""
    share: float = 1.0
    """What is wider than this part of the screen gives room before any other column does."""


@dataclass(frozen=True, slots=True)
class Styled:
    """A cell with its own style."""

    text: str
    style: str


Cell = str | Styled


@dataclass(frozen=True, slots=True)
class Drawn:
    """A table as lines, and the titles of the columns there was no room for."""

    lines: list[str]
    dropped: list[str]


def _plain(cell: Cell) -> str:
    return text.escape(cell.text if isinstance(cell, Styled) else cell)


def draw(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], screen: Screen) -> Drawn:
    """The table, fitted to the width of the screen."""
    plain = [[_plain(cell) for cell in row] for row in rows]
    titles = [text.escape(column.title) for column in columns]
    natural = [max([text.width(titles[k]), *(text.width(row[k]) for row in plain)]) for k in range(len(columns))]
    kept = _choose(columns, natural, screen.width)
    widths = dict(zip(kept, _fit([natural[k] for k in kept], [columns[k] for k in kept], screen.width), strict=True))
    head = _line([_cell(titles[k], columns[k], widths[k]) for k in kept])
    lines = [screen.paint(head, "head")]
    for row, shown in zip(rows, plain, strict=True):
        cells = []
        for k in kept:
            cell = row[k]
            style = cell.style if isinstance(cell, Styled) else columns[k].style
            cells.append(_painted(_cell(shown[k], columns[k], widths[k]), style, screen))
        lines.append(_line(cells))
    return Drawn(lines, [columns[k].title for k in range(len(columns)) if k not in widths])


def _cell(shown: str, column: Column, columns: int) -> str:
    return text.pad(text.shorten(shown, columns, column.keep), columns, column.align)


def _painted(padded: str, style: str, screen: Screen) -> str:
    """Colour on the text alone, so that no colour code stands on trailing blanks."""
    shown = padded.strip(" ")
    if not shown or not style:
        return padded
    at = padded.index(shown)
    return padded[:at] + screen.paint(shown, style) + padded[at + len(shown) :]


def _line(cells: Sequence[str]) -> str:
    return GAP.join(cells).rstrip(" ")


def _choose(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """The columns that fit when each is as short as it may be; those that can be spared only where others have enough."""
    kept = list(range(len(columns)))
    wished = [min(n, max(column.least, column.wish)) for n, column in zip(natural, columns, strict=True)]
    least = [min(n, column.least) for n, column in zip(natural, columns, strict=True)]
    for needed, lightest in (wished, SPARE), (least, 1):
        while sum(needed[k] for k in kept) + len(GAP) * (len(kept) - 1) > width:
            heaviest = max(kept, key=lambda k: (columns[k].weight, k))
            if columns[heaviest].weight < lightest:
                break
            kept.remove(heaviest)
    return kept


def _fit(natural: Sequence[int], columns: Sequence[Column], width: int) -> list[int]:
    """Widths that fit: what exceeds its share gives first, then the widest, none below its least unless there is no other way."""
    widths = [min(n, width) for n in natural]
    spare = width - len(GAP) * (len(widths) - 1)
    least = [min(n, column.least) for n, column in zip(natural, columns, strict=True)]
    shares = [max(low, int(width * column.share)) for low, column in zip(least, columns, strict=True)]
    for floor in (shares, least, [1] * len(widths)):
        while sum(widths) > spare:
            giving = [k for k in range(len(widths)) if widths[k] > floor[k]]
            if not giving:
                break
            widest = max(giving, key=lambda k: widths[k])
            widths[widest] -= 1
    return widths


def facts(pairs: Sequence[tuple[str, Cell]], screen: Screen, label: int = 12) -> list[str]:
    """Labelled facts, one per line, long ones going on below themselves."""
    room = max(20, screen.width - label - len(GAP))
    lines = []
    for name, cell in pairs:
        style = cell.style if isinstance(cell, Styled) else ""
        for k, piece in enumerate(wrap(_plain(cell), room)):
            shown = text.pad(text.shorten(text.escape(name), label), label) if k == 0 else " " * label
            lines.append(f"{screen.paint(shown, 'dim')}{GAP}{screen.paint(piece, style)}".rstrip(" "))
    return lines


def wrap(escaped: str, columns: int) -> list[str]:
    """Escaped text in lines of at most so many columns, broken at blanks where there are some."""
    lines: list[str] = []
    rest = escaped
    while text.width(rest) > columns:
        piece = text.shorten(rest, columns + 1)[:-1]
        blank = piece.rfind(" ")
        cut = blank if blank > columns // 3 else len(piece)
        lines.append(rest[:cut])
        rest = rest[cut:].lstrip(" ")
    return [*lines, rest]


def elide(rows: Sequence[Sequence[Cell]], limit: int) -> tuple[list[Sequence[Cell]], int, int]:
    """The first and last rows, where the gap is and how many rows it hides (0: none). `limit` 0 shows all."""
    if limit <= 0 or len(rows) <= limit:
        return list(rows), 0, 0
    head = (limit + 1) // 2
    tail = limit - head
    return [*rows[:head], *(rows[len(rows) - tail :] if tail else [])], head, len(rows) - limit
