"""A table of the catalog as a person or a program wants it: on the screen, as CSV, as JSON.

Knows which columns are the dimensions, and which of them a narrow screen can spare. Must not know where a table came
from.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rearview.cli import csvs, output, screen, tables, text

if TYPE_CHECKING:
    from rearview.catalog.table import Table

SHOWN_ROWS = 40
"""Rows of a table on the screen unless `--limit` says otherwise: the first and the last half."""

_SPARE = {"projid": 9, "filename": 8, "tstamp": 7}
"""Dimensions a narrow screen drops first; the higher the earlier."""


def write_csv(table: Table, limit: int | None) -> None:
    """The table as CSV to standard output."""
    from_terminal = screen.of_stdout().terminal
    rows = table.rows()
    screen.write(csvs.lines([column.name for column in table.columns], rows[: limit or None], from_terminal))


def write_json(schema: str, table: Table, limit: int | None) -> None:
    """The table as one JSON document to standard output."""
    columns = output.facts([{"name": c.name, "type": c.type_name, "mixed": c.mixed} for c in table.columns])
    names = [column.name for column in table.columns]
    rows = ({name: _exact(name, item) for name, item in zip(names, row, strict=True)} for row in table.rows()[: limit or None])
    output.write_rows(schema, columns, rows, table.notes)


def _exact(name: str, item: object) -> object:
    """`tstamp` is a fact of ours: plain ISO text, like in `runs --json`."""
    return item.isoformat() if name == "tstamp" and isinstance(item, dt.datetime) else item


def notes(table: Table) -> None:
    """What the table wants said beside it."""
    for line in table.notes:
        screen.note(f"rearview: {text.escape(line)}")


def show(table: Table, view: screen.Screen, limit: int | None) -> list[str]:
    """The table for a person: first and last rows, fitted to the screen."""
    names = [column.name for column in table.columns]
    rows = table.rows()
    shown, gap, hidden = tables.elide(rows, SHOWN_ROWS if limit is None else limit)
    columns = [_column(name, [row[k] for row in shown]) for k, name in enumerate(names)]
    to_text = _texts(names, shown)
    drawn = tables.draw(columns, [[to_text(k, item) for k, item in enumerate(row)] for row in shown], view)
    lines = drawn.lines
    if hidden:
        lines.insert(1 + gap, view.paint(f"⋮ {text.count(hidden, 'row')} not shown, --limit 0 for all", "dim"))
    lines.append(view.paint(_foot(len(rows), drawn.dropped), "dim"))
    return lines


def _column(name: str, values: Sequence[object]) -> tables.Column:
    numbers = [value for value in values if value is not None]
    right = bool(numbers) and all(isinstance(value, (int, float)) for value in numbers)
    weight = 0 if name == "run" else _SPARE.get(name, 1)
    keep = "end" if name == "filename" else "start"
    return tables.Column(name, "right" if right else "left", least=8 if right else 6, weight=weight, keep=keep)


def _texts(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """A function that shows an item of the k-th column; run ids and moments are shortened where they are dimensions."""
    now = dt.datetime.now(dt.UTC)
    ids = [row[names.index("run")] for row in rows] if "run" in names else []
    short = text.short_ids(item for item in ids if isinstance(item, str))

    def shown(k: int, item: object) -> str:
        if names[k] == "run" and isinstance(item, str):
            return short(item)
        if names[k] == "tstamp" and isinstance(item, dt.datetime):
            return text.when(item, now)
        return text.value(item)

    return shown


def _foot(rows: int, dropped: Sequence[str]) -> str:
    said = text.count(rows, "row")
    if dropped:
        said += f"; no room for {', '.join(text.escape(name) for name in dropped)}"
    return said
