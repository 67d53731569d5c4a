"""Tables as CSV: exact numbers, text that no spreadsheet takes for a formula.

A text cell (or a column name) that begins with `=`, `+`, `-`, `@`, tab or carriage return gets a leading apostrophe.
A null is an empty field, an empty text is `""`. Values without a CSV form of their own are JSON text. Lines end with
a line feed. Pure.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator, Sequence

from rearview.cli.shown import output, text

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def guarded(cell: str) -> str:
    """Text that a spreadsheet shows and does not run.

    >>> guarded("=1+1"), guarded("loss")
    ("'=1+1", 'loss')
    """
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _quoted(cell: str) -> str:
    if cell == "" or any(mark in cell for mark in ',"\r\n') or cell != cell.strip():
        return '"' + cell.replace('"', '""') + '"'
    return cell


def field(value: object, for_terminal: bool = False) -> str:
    """One value as a CSV field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(output.plain(value))
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    cell = value if isinstance(value, str) else json.dumps(output.plain(value), allow_nan=False)
    # A terminal obeys what a file merely holds; there the controls are shown instead.
    return _quoted(guarded(text.escape(cell) if for_terminal else cell))


def lines(names: Sequence[str], rows: Iterable[Sequence[object]], for_terminal: bool = False) -> Iterator[str]:
    """The header and a line per row, without line ends."""
    yield ",".join(field(name, for_terminal) for name in names)
    for row in rows:
        yield ",".join(field(value, for_terminal) for value in row)
