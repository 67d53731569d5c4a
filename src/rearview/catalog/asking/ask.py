"""One question for a table or a choice of runs: names to columns, the where clause to a filter, notes on the way."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rearview.catalog.asking.engine import deadline, fill, user_error
from rearview.catalog.asking.where import Clause, filtered, parse_clause
from rearview.catalog.runs import RunInfo, tstamp_of
from rearview.catalog.sealing.sources import Sources
from rearview.catalog.tables.fields import Field
from rearview.catalog.tables.pivot import Pivot
from rearview.catalog.tables.places import Names, Places
from rearview.catalog.tables.result import Dimension, PivotData, local_times
from rearview.catalog.tables.shapes import column_order, loop_columns
from rearview.catalog.tables.table import Table, local_zone
from rearview.catalog.tables.types import NONE, TYPE_NAMES, clean_text
from rearview.errors import QueryError
from rearview.model import RunId
from rearview.store.layout import Store

if TYPE_CHECKING:
    import duckdb

DIMENSIONS = ("projid", "run", "tstamp", "filename", "process")
_DIMENSION_SQL = {
    "projid": "run_facts.projid", "run": "run_facts.run", "tstamp": "run_facts.tstamp", "filename": "run_facts.filename",
    "process": "process.process",
}  # fmt: skip
RUN_COLUMNS = {"name": "VARCHAR", "version": "VARCHAR", "status": "VARCHAR", "detail": "VARCHAR", "duration_s": "DOUBLE"}
"""What a clause can say about the run itself, where nothing was logged under that name."""


@dataclass(slots=True)
class Asking:
    """What a question needs: the loaded store, who resolves run names, the time limit, a table name of its own."""

    store: Store
    places: Places
    resolve: Callable[[Sources, str], RunId]
    timeout_s: float
    answer: str
    describe: Callable[[], list[RunInfo]]


def near(name: str, known: Iterable[str]) -> str:
    """`: did you mean loss?`, or nothing."""
    matches = difflib.get_close_matches(name, list(known), 3)
    return f": did you mean {', '.join(matches)}?" if matches else ""


def ask_table(asking: Asking, asked: Sequence[str], where: str | None, run: str | None) -> Table:
    """The table of some names."""
    places = asking.places
    only = {asking.resolve(places.sources, run)} if run is not None else None
    known = places.names(only)
    every = known if only is None else places.names()
    notes = _unknown(asked, known, every)
    clause = parse_clause(places.connection, where) if where is not None else None
    columns = [name for name in asked if not _is_dimension(name, known)]
    pivot = _pivot(places, known, columns, clause, only)
    _keep(asking, pivot, clause, known)
    data = _data(asking, pivot, asked)
    listed = data.columns()
    notes += [f"{column.name} has values of several types: {column.mixed}" for column in listed if column.mixed]
    notes += places.sources.damage
    return Table(listed, data, notes)


def ask_runs(asking: Asking, where: str) -> set[RunId]:
    """The runs of which some row satisfies a clause."""
    places = asking.places
    clause = parse_clause(places.connection, where)
    known = places.names()
    pivot = _pivot(places, known, [], clause, None)
    rows = _rows(asking, pivot, clause, known, everywhere=True)
    found = _run(asking, f"SELECT DISTINCT run_ix FROM ({rows})", clause).fetchall()
    return {places.runs[run_ix] for (run_ix,) in found if run_ix is not None}


def wide_labels(places: Places, known: Names) -> list[tuple[str, str, bool]]:
    """What each loop and name is called in `wide` and in clauses: (label, its own name, is it a loop), loops first."""
    loops = column_order(sorted(known.shapes(), key=lambda shape: places.shape_rank[shape]))
    taken = {name.lower() for name in DIMENSIONS}
    labels = []
    for name, is_loop in [*((loop, True) for loop in loops), *((name, False) for name in dict.fromkeys([*known.args, *known.logged]))]:
        label = clean_text(name) or "_"
        while label.lower() in taken:
            label += "_loop" if is_loop else "_value"
        taken.add(label.lower())
        labels.append((label, name, is_loop))
    return labels


def _is_dimension(name: str, known: Names) -> bool:
    """A dimension that was asked for by its name is there anyway, unless something was logged under that name too."""
    loops = {column for shape in known.shapes() for column in loop_columns(shape)}
    return (name in DIMENSIONS or name in loops) and name not in known.logged and name not in known.args


def _unknown(asked: Sequence[str], known: Names, every: Names) -> list[str]:
    notes = []
    for name in asked:
        if name in known.logged or name in known.args or _is_dimension(name, known):
            continue
        if name in every.logged or name in every.args:
            notes.append(f"{name} has no values in this run")
        else:
            notes.append(f"nothing was logged as {name!r}{near(name, [*every.logged, *every.args])}")
    return notes


def _pivot(places: Places, known: Names, columns: Sequence[str], clause: Clause | None, only: set[RunId] | None) -> Pivot:
    """The pivot of the names asked for and those the clause mentions."""
    extra: list[str] = []
    loops = {column for shape in known.shapes() for column in loop_columns(shape)}
    if clause is not None:
        mentioned = [_find(name, known, wide_labels(places, known)) for name in clause.columns()]
        extra = [name for name in mentioned if name is not None]
        in_loops = any(_folded(name, loops) for name in clause.columns())
        if in_loops and not any(name in known.logged for name in (*columns, *extra)):
            extra = [*extra, *(name for name in known.logged if name not in extra)]
    rps = None if only is None else {rp for rp, (run_ix, _) in enumerate(places.processes) if places.runs[run_ix] in only}
    return Pivot(places, known, columns, extra, rps)


def _folded(name: str, known: Iterable[str]) -> str | None:
    """A known name by its exact text, else by its only match without regard to case."""
    listed = list(known)
    if name in listed:
        return name
    matches = [other for other in listed if other.lower() == name.lower()]
    return matches[0] if len(matches) == 1 else None


def _find(name: str, known: Names, labels: Sequence[tuple[str, str, bool]]) -> str | None:
    """The logged name or argument that a clause means."""
    if name in DIMENSIONS:
        return None
    by_label = {label: own for label, own, is_loop in labels if not is_loop}
    return _folded(name, dict.fromkeys([*known.logged, *known.args])) or by_label.get(_folded(name, by_label) or "")


def _rows(asking: Asking, pivot: Pivot, clause: Clause | None, known: Names, *, everywhere: bool = False) -> str:
    """The rows of a pivot, filtered. With `everywhere`, a run without any row has one all the same: clauses over dimensions need it."""
    query = pivot.query()
    if clause is None:
        return query
    about_run = [name for name in RUN_COLUMNS if _folded(name, clause.columns()) is not None]
    columns = _ClauseColumns(pivot, known, about_run, wide_labels(asking.places, known))
    if everywhere:
        missing = f"SELECT run_ix, NULL::INTEGER AS rp FROM run_facts WHERE run_ix NOT IN (SELECT run_ix FROM ({query}))"
        query = f"{query} UNION ALL BY NAME {missing}"
    make_run_facts(asking.places)
    joined = (
        f"SELECT q.*, {columns.listed()} FROM ({query}) q JOIN run_facts ON run_facts.run_ix = q.run_ix "
        "LEFT JOIN process ON process.rp = q.rp"
    )
    if about_run:
        _make_run_columns(asking)
        joined += " LEFT JOIN run_columns ON run_columns.run_ix = q.run_ix"
    return filtered(asking.places.connection, clause, joined, columns.column)


class _ClauseColumns:
    """The columns a clause can mention, under names of ours."""

    def __init__(self, pivot: Pivot, known: Names, about_run: Sequence[str], labels: Sequence[tuple[str, str, bool]]) -> None:
        self._sql: dict[str, str] = dict(_DIMENSION_SQL)
        self._used: dict[str, str] = {}
        self._known = known
        fields = {(field.name, is_loop): field for is_loop in (False, True) for field in (pivot.loops if is_loop else pivot.names)}
        for (name, _), field in fields.items():
            if name not in DIMENSIONS:
                self._sql[name] = field.typed("q")
        for label, name, is_loop in labels:
            if label not in self._sql and (name, is_loop) in fields:
                self._sql[label] = fields[name, is_loop].typed("q")
        for shape in known.shapes():
            for name in loop_columns(shape):
                self._sql.setdefault(name, "NULL::BIGINT")
        for name in about_run:
            self._sql.setdefault(name, f"run_columns.{name}")

    def listed(self) -> str:
        """All of them as a select list. Names of ours: no text of a user's becomes part of SQL."""
        for name in self._sql:
            self._used[name] = f"w{len(self._used)}"
        return ", ".join(f"{self._sql[name]} AS {column}" for name, column in self._used.items())

    def column(self, written: str) -> str:
        name = _folded(written, self._sql)
        if name is None:
            every = [*DIMENSIONS, *RUN_COLUMNS, *self._known.logged, *self._known.args, *self._sql]
            there = list(dict.fromkeys([*self._known.logged, *self._known.args, *self._sql, *DIMENSIONS, *RUN_COLUMNS]))
            some = f"; there are {', '.join(there[:8])}{' and others' if len(there) > 8 else ''}"
            raise QueryError(f"the where clause mentions {written!r}, which is no column{near(written, dict.fromkeys(every)) or some}")
        return self._used[name]


def make_run_facts(places: Places) -> None:
    """The table of what every row of a run shares; tstamp in local time."""
    rows = []
    for run_ix, run in enumerate(places.runs):
        facts = places.sources.runs[run]
        when = tstamp_of(facts.get("tstamp"))
        local = when.astimezone().replace(tzinfo=None) if when else None
        rows.append((run_ix, run, _clean(facts.get("projid")), local, _clean(facts.get("filename"))))
    kinds = {"run_ix": "INTEGER", "run": "VARCHAR", "projid": "VARCHAR", "tstamp": "TIMESTAMP", "filename": "VARCHAR"}
    fill(places.connection, "run_facts", kinds, rows)


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _make_run_columns(asking: Asking) -> None:
    numbers = {run: run_ix for run_ix, run in enumerate(asking.places.runs)}
    rows = [
        (numbers[info.run], *(clean_text(value) if isinstance(value, str) else value for value in map(info.__getattribute__, RUN_COLUMNS)))
        for info in asking.describe()
    ]
    fill(asking.places.connection, "run_columns", {"run_ix": "INTEGER", **RUN_COLUMNS}, rows)


def _run(asking: Asking, query: str, clause: Clause | None) -> duckdb.DuckDBPyConnection:
    """Run a query of ours that may have a clause of the user's in it."""
    import duckdb

    with deadline(asking.places.connection, asking.timeout_s):
        try:
            return asking.places.connection.execute(query)
        except (duckdb.IOException, duckdb.InterruptException):
            raise
        except duckdb.Error as problem:
            if clause is None:
                raise
            what = f"the where clause {clause.text!r}"
            if isinstance(problem, (duckdb.BinderException, duckdb.ConversionException)):
                raise QueryError(f"{what} cannot be run: {_types_of(asking.places, clause)}") from None
            raise user_error(problem, what) from None


def _types_of(places: Places, clause: Clause) -> str:
    """The columns a clause mentions with their types, for a clause that compares what cannot be compared."""
    known = places.names()
    labels = wide_labels(places, known)
    said = []
    for written in clause.columns():
        name = _find(written, known, labels)
        codes = {code for at in known.logged.get(name or "", {}).values() for code in at.counts}
        codes |= known.args[name].types() if name in known.args else set()
        kinds = [TYPE_NAMES[code] for code in sorted(codes) if code != NONE]
        if len(kinds) > 1 and set(kinds) != {"int", "float"}:
            number = f"try_cast({written} AS DOUBLE)"
            said.append(f"{written} has values of several types ({', '.join(kinds)}) and is compared as text, or as {number}")
        elif kinds:
            said.append(f"{written} is {' and '.join(kinds)}")
    return ("; ".join(said) or "its parts do not fit together") + ": compare each column with a value of its own type"


def _keep(asking: Asking, pivot: Pivot, clause: Clause | None, known: Names) -> None:
    """Materialise the rows in their order, in a table that outlives the catalog."""
    rows = _rows(asking, pivot, clause, known)
    fields = [field for field in (*pivot.loops, *pivot.names) if field in pivot.loops or field.asked]
    columns = ", ".join(["run_ix", "rp", *(column for field in fields for column in field.columns)])
    asked = any(field.asked for field in pivot.names)
    present = " WHERE present" if any(not field.asked for field in pivot.names) and asked else ""
    _run(asking, f"CREATE TABLE {asking.answer} AS SELECT {columns} FROM ({rows}){present} ORDER BY rp, pos", clause)


def _data(asking: Asking, pivot: Pivot, asked: Sequence[str]) -> PivotData:
    """The kept rows with their dimensions in front."""
    places = asking.places
    facts = [places.sources.runs[run] for run in places.runs]
    times = local_times([tstamp_of(fact.get("tstamp")) for fact in facts], local_zone())
    dimensions = [
        Dimension("projid", "text", "run_ix", [fact.get("projid") for fact in facts]),
        Dimension("run", "text", "run_ix", [str(run) for run in places.runs]),
        Dimension("tstamp", "datetime", "run_ix", times),
        Dimension("filename", "text", "run_ix", [fact.get("filename") for fact in facts]),
    ]
    numbers = [number for _, number in places.processes]
    here = {numbers[rp] for (rp,) in places.connection.execute(f"SELECT DISTINCT rp FROM {asking.answer}").fetchall()}
    if len(here) > 1 or "process" in asked:
        dimensions.append(Dimension("process", "text", "rp", numbers))
    return PivotData(asking.store, places.connection.cursor(), asking.answer, dimensions, _renamed(pivot, {d.name for d in dimensions}))


def _renamed(pivot: Pivot, taken: set[str]) -> list[Field]:
    """The fields in order; a loop or name that is called like a column before it gets a word more."""
    fields = []
    for field in (*pivot.loops, *(field for field in pivot.names if field.asked)):
        name = field.name
        while name in taken:
            name += "_loop" if field in pivot.loops else "_value"
        taken.add(name)
        fields.append(replace(field, name=name))
    return fields
