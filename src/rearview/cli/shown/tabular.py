"""A table of the catalog as a person or a program wants it: on the screen, as CSV, as JSON.

Knows which columns are the dimensions, and which of them a narrow screen can spare. Must not know where a table came
from.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rearview.cli.shown import csvs, output, screen, tables, text

if TYPE_CHECKING:
    from rearview.catalog.tables.table import Table

SHOWN_ROWS = 40
"""Rows of a table on the screen unless `--limit` says otherwise: the first and the last half."""

_OFTEN_EMPTY = {".verdict": 2, ".placement": 6, ".statement": 10}
"""What is told of replayed values only, each with its weight: a column in which nothing is told is not shown."""
_OF_ORIGIN = 3
"""Goes before the verdict does: only what was replayed has one, so that tells the origin too."""
_WHOLE = 32
"""Room for any number or moment as it is shown."""
_SHORT = (".origin", ".verdict")
"""What is told in a word: its heading is whole, or the column is not shown."""
_SPARE = {"projid": 9, "filename": 8, "tstamp": 7}
"""Dimensions a narrow screen drops first; the higher the earlier."""


def write_csv(table: Table, limit: int | None) -> None:
    """The table as CSV to standard output."""
    for_terminal = screen.of_stdout().terminal
    screen.write(csvs.lines(table.names, _exact_rows(table, limit), for_terminal))


def write_json(schema: str, table: Table, limit: int | None) -> None:
    """The table as one JSON document to standard output."""
    columns = [{"name": column.name, "type": column.type_name, "mixed": column.mixed} for column in table.columns]
    names = table.names
    rows = (dict(zip(names, row, strict=True)) for row in _exact_rows(table, limit))
    output.write_rows(schema, columns, rows, table.notes)


def _exact_rows(table: Table, limit: int | None) -> Iterator[tuple[object, ...]]:
    """The first rows for a program. `tstamp` is a fact of ours: ISO text in UTC, like in `runs --json`."""
    rows = table.rows()[: limit or None]
    at = table.names.index("tstamp") if "tstamp" in table.names else None
    for row in rows:
        when = row[at] if at is not None else None
        if at is not None and isinstance(when, dt.datetime) and when.tzinfo is not None:
            row = (*row[:at], when.astimezone(dt.UTC).isoformat(), *row[at + 1 :])
        yield row


def notes(table: Table) -> None:
    """What the table wants said beside it."""
    for line in table.notes:
        screen.note(f"rearview: {text.escape(line)}")


def show(table: Table, view: screen.Screen, limit: int | None) -> list[str]:
    """The table for a person: first and last rows, fitted to the screen."""
    names = table.names
    rows = table.rows()
    shown, gap, hidden = tables.elide(rows, SHOWN_ROWS if limit is None else limit)
    columns = [_column(name, [row[k] for row in shown]) for k, name in enumerate(names)]
    to_text = _texts(names, shown)
    used = [k for k, name in enumerate(names) if not name.endswith(tuple(_OFTEN_EMPTY)) or any(row[k] is not None for row in shown)]
    drawn = tables.draw([columns[k] for k in used], [[to_text(k, row[k]) for k in used] for row in shown], view)
    lines = drawn.lines
    if hidden:
        lines.insert(1 + gap, view.paint(f"⋮ {text.count(hidden, 'row')} not shown, --limit 0 for all", "dim"))
    lines += [view.paint(line, "dim") for line in tables.wrap(_foot(len(rows), drawn.dropped), view.width)]
    return lines


def _column(name: str, values: Sequence[object]) -> tables.Column:
    """A column of numbers or moments is dropped rather than cut: half a number is another number."""
    there = [value for value in values if value is not None]
    right = bool(there) and all(isinstance(value, (int, float)) for value in there)
    whole = right or (bool(there) and all(isinstance(value, dt.datetime) for value in there))
    told = next((weight for word, weight in _OFTEN_EMPTY.items() if name.endswith(word)), 1)
    weight = 0 if name == "run" else _SPARE.get(name, _OF_ORIGIN if name.endswith(".origin") else told)
    keep = "end" if name == "filename" else "start"
    headed = max(6, text.width(name)) if name.endswith(_SHORT) or name in _SPARE else 6
    least = _WHOLE if whole or name == "run" else 20 if told > 2 else headed
    return tables.Column(name, "right" if right else "left", least=least, weight=weight, keep=keep)


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
