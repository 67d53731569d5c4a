"""A where clause over the table: which rows of it stay, which runs have a row that satisfies it.

A filter makes neither rows nor columns. Each aggregate is taken per run over the rows of the names in it alone (over all
rows of the run if there are none). Other names that were not asked for are looked up in the table that has them too: a row
stays if itself or any row below it there satisfies the clause.

A loop and a logged name may be called alike, and in different runs. In a table its own columns decide: the loop, if it has one.
Where runs are chosen each run's own table decides: no other run changes what a clause means for it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rearview.catalog.asking.engine import deadline, fill, user_error
from rearview.catalog.asking.where import Clause, Part, as_condition, parse_clause
from rearview.catalog.runs import RunInfo, tstamp_of
from rearview.catalog.sealing.sources import Sources
from rearview.catalog.tables.pivot import Pivot
from rearview.catalog.tables.places import Names, Places, nearest
from rearview.catalog.tables.shapes import column_order, is_above, loop_columns
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
    noticed: set[str]
    """Damage that a question met beyond the journals: a sentence each."""


def near(name: str, known: Iterable[str]) -> str:
    """`: did you mean loss?`, or nothing."""
    folded: dict[str, list[str]] = {}
    for other in known:
        folded.setdefault(other.lower(), []).append(other)
    matches = [other for match in difflib.get_close_matches(name.lower(), folded, 3) for other in folded[match]]
    return f": did you mean {', '.join(matches)}?" if matches else ""


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


def _folded(name: str, known: Iterable[str]) -> str | None:
    """A known name by its exact text, else by its only match without regard to case."""
    listed = list(known)
    if name in listed:
        return name
    matches = [other for other in listed if other.lower() == name.lower()]
    return matches[0] if len(matches) == 1 else None


def _find(name: str, known: Names, labels: Sequence[tuple[str, str, bool]], loops: Set[str] = frozenset()) -> str | None:
    """The logged name or argument that a clause means; `loops` are names that mean a loop instead."""
    if name in DIMENSIONS:
        return None
    by_label = {label: own for label, own, is_loop in labels if not is_loop}
    found = _folded(name, dict.fromkeys([*known.logged, *known.args])) or by_label.get(_folded(name, by_label) or "")
    return None if found in loops and _folded(name, loops) is not None else found


def _loops_of(known: Names) -> set[str]:
    return {column for shape in known.shapes() for column in loop_columns(shape)}


class Choice:
    """A clause over the runs of a question."""

    def __init__(self, asking: Asking, text: str, known: Names, only: set[int] | None) -> None:
        self.asking, self.places, self.known, self.only = asking, asking.places, known, only
        self.clause = parse_clause(self.places.connection, text)
        self.decides, self.aggregates = self.clause.split()
        self.labels = wide_labels(self.places, known)
        self._about_run = [name for name in RUN_COLUMNS if _folded(name, self.clause.columns()) is not None]
        self._every = list(dict.fromkeys([*known.args, *known.logged]))
        alike = _loops_of(known) & {*known.args, *known.logged}
        self._alike = {own for written in self.clause.columns() if (own := _folded(written, alike)) and written not in DIMENSIONS}
        """What the clause mentions that is a loop and a logged name."""
        self._loops: Set[str] = frozenset()
        """Those of them that mean the loop."""

    def _mentioned(self, part: Part, beside: Sequence[str]) -> list[str]:
        """The names a part needs beside some: all there are if it speaks of loops or processes and of nothing that is in them."""
        found = [_find(written, self.known, self.labels, self._loops) for written in part.columns()]
        names = [name for name in dict.fromkeys(found) if name is not None]
        loops = _loops_of(self.known) | {"process"}
        inside = any(_folded(written, loops) for written in part.columns())
        if inside and not any(name in self.known.logged for name in (*beside, *names)):
            names = [*names, *(name for name in self._every if name not in names)]
        return [name for name in names if name not in beside]

    def _prepare(self) -> None:
        """The tables that conditions are over: facts of runs, and the aggregates of each."""
        make_run_facts(self.places)
        if self._about_run:
            _make_run_columns(self.asking)
        for k, part in enumerate(self.aggregates):
            named = any(_find(written, self.known, self.labels, self._loops) is not None for written in part.columns())
            pivot = Pivot(self.places, self.known, self._mentioned(part, ()) if named else self._every, (), self.only)
            columns = self._columns(pivot)
            rows = f"SELECT q.run_ix, {columns.listed()} FROM ({pivot.query()}) q {self._joins()}"
            value = part.sql(self.places.connection, columns.column)
            made = f"CREATE OR REPLACE TEMP TABLE aggregate_{k} AS SELECT run_ix, {value} AS agg_{k} FROM ({rows}) GROUP BY run_ix"
            run_query(self.asking, made, self.clause)

    def _joins(self) -> str:
        about = " LEFT JOIN run_columns ON run_columns.run_ix = q.run_ix" if self._about_run else ""
        return f"JOIN run_facts ON run_facts.run_ix = q.run_ix LEFT JOIN process ON process.rp = q.rp{about}"

    def _satisfying(self, key: str, source: str, columns: ClauseColumns) -> str:
        """SQL for the keys of the rows, under the alias q in `source`, that satisfy the clause."""
        pairs, joins = [columns.listed()], []
        for k, part in enumerate(self.aggregates):
            pairs.append(f"coalesce(agg_{k}, 0) AS agg_{k}" if part.counts else f"agg_{k}")
            joins.append(f"LEFT JOIN aggregate_{k} ON aggregate_{k}.run_ix = q.run_ix")
        condition = as_condition(self.decides.sql(self.places.connection, columns.column))
        rows = f"SELECT {key} AS key, {', '.join(pairs)} FROM {source} {self._joins()} {' '.join(joins)}"
        return f"SELECT DISTINCT key FROM ({rows}) WHERE {condition}"

    def _columns(self, pivot: Pivot, asked: str = "q") -> ClauseColumns:
        return ClauseColumns(pivot, self._about_run, self.labels, asked, values=self._alike - self._loops)

    def runs(self) -> set[RunId]:
        """The runs of which some row satisfies the clause. A run without any row has one all the same, of its dimensions."""
        found: set[RunId] = set()
        for meaning, theirs in self._meanings():
            self._loops = meaning
            found |= self._runs() & theirs
        return found

    def _meanings(self) -> Iterator[tuple[Set[str], set[RunId]]]:
        """What is called alike means the loop in the runs that have such a loop, and the value in the others."""
        having: dict[RunId, set[str]] = {run: set() for run in self.places.runs}
        for at in self.known.logged.values() if self._alike else ():
            for shape, occurrence in at.items():
                loops = self._alike & set(loop_columns(shape))
                for rp in occurrence.rps if loops else ():
                    having[self.places.runs[self.places.processes[rp][0]]] |= loops
        for meaning in {frozenset(loops) for loops in having.values()}:
            yield meaning, {run for run, loops in having.items() if loops == meaning}

    def _runs(self) -> set[RunId]:
        self._prepare()
        pivot = Pivot(self.places, self.known, (), self._mentioned(self.decides, ()), self.only)
        columns = self._columns(pivot)
        query = pivot.query()
        missing = f"SELECT run_ix, NULL::INTEGER AS rp FROM run_facts WHERE run_ix NOT IN (SELECT run_ix FROM ({query}))"
        found = self._satisfying("q.run_ix", f"({query} UNION ALL BY NAME {missing}) q", columns)
        return {self.places.runs[run_ix] for (run_ix,) in run_query(self.asking, found, self.clause).fetchall() if run_ix is not None}

    def rows(self, asked: Sequence[str], *, traced: bool = False) -> str:
        """SQL for the rows of the table of some names that satisfy the clause."""
        plain = Pivot(self.places, self.known, asked, (), self.only, traced=traced)
        extra = self._mentioned(self.decides, asked)
        shown = Pivot(self.places, self.known, asked, extra, self.only)
        self._loops = self._alike & {field.name for field in shown.loops}
        self._prepare()
        made = f"CREATE OR REPLACE TEMP TABLE plain AS SELECT row_number() OVER () AS number, * FROM ({plain.query()})"
        run_query(self.asking, made, None)
        if not extra:
            found = self._satisfying("q.number", "plain q", self._columns(plain))
        else:
            beside = self._beside(plain, asked, extra)
            columns = self._columns(beside, asked="r")
            found = self._satisfying("r.number", "plain r JOIN linked USING (number) JOIN beside q ON q.below = linked.below", columns)
        return f"SELECT * FROM plain WHERE number IN ({found})"

    def _beside(self, plain: Pivot, asked: Sequence[str], extra: Sequence[str]) -> Pivot:
        """The table with more names, `beside`, and which of its rows lie at or below which of the plain ones, `linked`."""
        lonely = plain.lonely()
        pivot = Pivot(self.places, self.known, asked, extra, self.only)
        run_query(
            self.asking, f"CREATE OR REPLACE TEMP TABLE beside AS SELECT row_number() OVER () AS below, * FROM ({pivot.query()})", None
        )
        links = ["SELECT r.number, q.below FROM plain r JOIN beside q ON r.place = q.place AND r.it = q.it AND r.ord = q.ord"]
        for upper in plain.shapes:
            for shape in pivot.shapes:
                if is_above(upper, shape):
                    level = len(upper)
                    links.append(
                        f"SELECT r.number, q.below FROM beside q JOIN ({pivot.ancestors(shape)}) a ON a.place = q.place "
                        f"JOIN plain r ON r.place = a.a{level} AND r.it = a.i{level}"
                    )
        if lonely:
            owners = [(rp, owner) for rp, owner in enumerate(self._owners(lonely)) if owner is not None]
            fill(self.places.connection, "owner", {"rp": "INTEGER", "owner": "INTEGER"}, owners)
            links.append(
                "SELECT r.number, q.below FROM beside q JOIN owner ON owner.rp = q.rp "
                "JOIN plain r ON r.rp = owner.owner AND r.place IS NULL"
            )
        run_query(self.asking, f"CREATE OR REPLACE TEMP TABLE linked AS {' UNION ALL '.join(links)}", None)
        return pivot

    def _owners(self, lonely: set[int]) -> list[int | None]:
        """For each process, the one whose row of arguments speaks for it: its own, its nearest ancestor's, else the lowest of the run."""
        rows: dict[int, dict[str, int]] = {}
        for rp in sorted(lonely):
            run_ix, number = self.places.processes[rp]
            rows.setdefault(run_ix, {})[number] = rp
        found: list[int | None] = []
        for run_ix, number in self.places.processes:
            theirs = rows.get(run_ix)
            found.append(theirs[nearest(number, set(theirs), next(iter(theirs)))] if theirs else None)
        return found


class ClauseColumns:
    """The columns a clause can mention, under names of ours."""

    def __init__(
        self, pivot: Pivot, about_run: Sequence[str], labels: Sequence[tuple[str, str, bool]], asked: str, *, values: Set[str]
    ) -> None:
        """Everything is read from the alias q, but the names that were asked for from `asked`. `values` are names that mean no loop."""
        known = pivot.known
        self._sql: dict[str, str] = dict(_DIMENSION_SQL)
        self._used: dict[str, str] = {}
        self._known = known
        fields = {(field.name, is_loop): field for is_loop in (False, True) for field in (pivot.loops if is_loop else pivot.names)}
        for (name, is_loop), field in fields.items():
            if name not in DIMENSIONS and not (is_loop and name in values):
                self._sql[name] = field.typed(asked if field.asked and not is_loop else "q")
        for label, name, is_loop in labels:
            if label not in self._sql and (name, is_loop) in fields:
                field = fields[name, is_loop]
                self._sql[label] = field.typed(asked if field.asked and not is_loop else "q")
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


def run_query(asking: Asking, query: str, clause: Clause | None) -> duckdb.DuckDBPyConnection:
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
