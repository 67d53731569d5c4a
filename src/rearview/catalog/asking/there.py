"""What values there are, for somebody whose clause matched no run: of each name in it, and of each aggregate.

Reads the clause as words only: it was checked before. Must not know who asks.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rearview.errors import RearviewError

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo
    from rearview.catalog.tables.table import Table

_TEXT = re.compile(r"'(?:[^']|'')*'")
_NAME = r'(?:"(?:[^"]|"")+"|[^\W\d]\w*)'
_TAKEN_OVER = re.compile(rf"\b([^\W\d]\w*)\s*\(\s*({_NAME})\s*\)")
_FEW = 5
_OF_RUNS = ("name", "version", "status", "detail", "duration_s")


def values_there(sql: Callable[[str], Table], clause: str, runs: Sequence[RunInfo]) -> list[str]:
    """A sentence for each thing that a clause compares: what it is in the runs that there are."""
    asked = _TEXT.sub("''", clause)
    known = {name.lower(): name for name in _columns(sql)}
    said: dict[str, None] = {}
    for function, name in _TAKEN_OVER.findall(asked):
        column = known.get(_plain(name).lower())
        found = _aggregated(sql, function, column) if column is not None else None
        if found is not None:
            said[f"{function}({name}) is {found}"] = None
    for name in re.findall(_NAME, _TAKEN_OVER.sub("", asked)):
        plain = _plain(name)
        column = known.get(plain.lower())
        found = _values(sql, column) if column is not None else _of_runs(plain, runs)
        if found is not None:
            said[f"{plain} is {found}"] = None
    return list(said)


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(sql: Callable[[str], Table]) -> list[str]:
    try:
        return sql("select * from wide limit 0").names
    except RearviewError:
        return []


def _aggregated(sql: Callable[[str], Table], function: str, column: str) -> str | None:
    """Over each run, as clauses take it: over what was logged under a name; else over the rows."""
    text = "'" + column.replace("'", "''") + "'"
    logged = f"select {function}(value) as v from logs where value_name = {text} group by run"
    return _told(sql, logged) or _told(sql, f"select {function}({_quoted(column)}) as v from wide group by run")


def _values(sql: Callable[[str], Table], column: str) -> str | None:
    return _told(sql, f"select {_quoted(column)} as v from wide")


def _told(sql: Callable[[str], Table], query: str) -> str | None:
    try:
        found = sql(f"select distinct v from ({query}) where v is not null order by v limit {_FEW + 1}").rows()
        if len(found) <= _FEW:
            return _listed([one for (one,) in found])
        ((low, high, count),) = sql(f"select min(v), max(v), count(distinct v) from ({query})").rows()
    except RearviewError:  # a function that is none, a type that has no order
        return None
    if isinstance(low, str):
        return _listed([one for (one,) in found[:_FEW]], count - _FEW)
    return f"{_shown(low)} to {_shown(high)}"


def _of_runs(name: str, runs: Sequence[RunInfo]) -> str | None:
    if name.lower() not in _OF_RUNS:
        return None
    values = list(dict.fromkeys(value for run in runs if (value := getattr(run, name.lower(), None)) is not None))
    return _listed(values[:_FEW], max(0, len(values) - _FEW))


def _listed(values: Sequence[Any], more: int = 0) -> str | None:
    if not values:
        return None
    return ", ".join(map(_shown, values)) + (f" and {more} others" if more > 1 else " and another" if more else "")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value.isoformat(" ", "seconds") if isinstance(value, dt.datetime) else str(value)
