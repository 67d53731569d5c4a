"""Values for other programs: `--json`. Exact, with a `schema` field, never with bare NaN.

How a value is written (documented in `docs/reference/cli.md`):

    NaN, infinities     "NaN", "Infinity", "-Infinity"
    bytes               {"$bytes": base64}
    date, time          {"$date": iso}, {"$time": iso}
    datetime            {"$datetime": iso}
    timedelta           {"$timedelta": [days, seconds, microseconds]}
    complex             {"$complex": [real, imaginary]}
    tuple               {"$tuple": [...]}
    dict                an object; {"$dict": [[key, value], ...]} if a key is no text or begins with $
    array, picture      {"$cell": {shape, dtype, ...}}

Must not know commands. Text is written in ASCII escapes: safe on any terminal, in any encoding.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rearview.catalog.tables import texts
from rearview.cli.shown import screen

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def plain(value: object) -> Json:
    """A value in JSON's own types, by the table above; ints with as many digits as they have."""
    made: Json = texts.plain(value, huge=int)
    return made


def facts(value: object) -> Json:
    """Facts of ours (not values of the user's) in JSON: moments as text, tuples as lists, data classes as objects."""
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return [facts(item) for item in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [facts(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): facts(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: facts(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return plain(value)


def document(schema: str, **content: Json) -> str:
    """One JSON document: the schema first."""
    return json.dumps({"schema": schema, **content}, indent=1, allow_nan=False)


def line(schema: str, **content: Json) -> str:
    """One JSON document on one line."""
    return json.dumps({"schema": schema, **content}, allow_nan=False)


def write(schema: str, **content: Json) -> None:
    """One JSON document to standard output."""
    screen.write([document(schema, **content)])


def write_rows(schema: str, columns: Sequence[Mapping[str, object]], rows: Iterable[Mapping[str, object]], notes: Iterable[str]) -> None:
    """A table as one JSON document, a row per line, so that a large one is neither held twice nor unreadable."""
    screen.write(_table_lines(schema, columns, rows, notes))


def _table_lines(
    schema: str, columns: Sequence[Mapping[str, object]], rows: Iterable[Mapping[str, object]], notes: Iterable[str]
) -> Iterator[str]:
    yield f'{{"schema": {json.dumps(schema)},'
    yield from _item_lines("columns", columns, "],")
    yield f' "notes": {json.dumps(list(notes))},'
    yield from _item_lines("rows", rows, "]}")


def _item_lines(name: str, items: Iterable[Mapping[str, object]], end: str) -> Iterator[str]:
    """A list of objects, one per line, each followed by a comma but the last."""
    line = f' "{name}": ['
    comma = ""
    for item in items:
        yield line + comma
        line = "  " + json.dumps({key: plain(value) for key, value in item.items()}, allow_nan=False)
        comma = ","
    yield line + end
