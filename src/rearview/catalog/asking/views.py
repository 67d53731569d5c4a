"""The views that SQL sees: runs, logs, loops, args, checkpoints and wide; `replayed` has a module of its own.

What `value` is, in a query, is told by `values`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rearview.catalog import checkpoints
from rearview.catalog.asking.choose import Asking, make_run_facts, near, wide_labels
from rearview.catalog.asking.engine import deadline, fill, literal, quoted, user_error
from rearview.catalog.asking.guard import column_type, one_look
from rearview.catalog.asking.values import UNFIT, only_shown, value_of
from rearview.catalog.runs import RunInfo, args_by_process, process_order
from rearview.catalog.tables.pivot import Pivot, listed
from rearview.catalog.tables.places import BEHIND, FIRST_REPLAY, POSITION, Names, Places
from rearview.catalog.tables.table import Column, RowData, Table
from rearview.catalog.tables.types import BOOL, FLOAT, INT, NONE, TEXT, TYPE_NAMES, clean_text, spread
from rearview.errors import QueryError
from rearview.store.frames import ENDINGS

if TYPE_CHECKING:
    import duckdb

VIEWS = ("args", "checkpoints", "logs", "loops", "replayed", "runs", "wide")


def ask_sql(asking: Asking, query: str) -> Table:
    """The answer to a user's SQL."""
    places = asking.places
    statement = one_look(places.connection, query)
    if re.fullmatch(r"\s*show\s+(all\s+)?tables\s*;?\s*", statement, re.IGNORECASE):
        statement = f"SELECT unnest({literal(list(VIEWS))}) AS name"  # and not the tables we work with
    try:
        return _answer(asking, statement, guess=True)
    except _Unfit:
        return _answer(asking, statement, guess=False)


class _Unfit(Exception):
    """A value did not fit the type chosen for `value`."""


def _answer(asking: Asking, statement: str, *, guess: bool) -> Table:
    import duckdb

    connection = asking.places.connection
    with deadline(connection, asking.timeout_s):
        make_views(asking, statement, guess=guess)
        try:
            columns, rows = _fetched(connection, statement)
        except (duckdb.IOException, duckdb.InterruptException):
            raise
        except duckdb.Error as problem:
            if UNFIT in str(problem):
                raise _Unfit from None
            missing = re.search(r"Table with name (.+?) does not exist", str(problem))
            if missing:
                raise QueryError(f"there is no view {missing[1]}{near(missing[1], VIEWS) or '; there are ' + ', '.join(VIEWS)}") from None
            raise user_error(problem, "the SQL text") from None
    described = []
    for k, (name, sql_type) in enumerate(columns):
        kind, mixed = column_type(sql_type, [row[k] for row in rows])
        described.append(Column(name, kind, mixed))
    notes = [f"{c.name} has values of several types: {c.mixed}" for c in described if c.mixed]
    notes += asking.places.sources.damage + sorted(asking.noticed)
    return Table(described, RowData(len(described), rows), notes)


def _fetched(connection: duckdb.DuckDBPyConnection, statement: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    """Columns with their SQL types, and rows. Times with a zone are brought to local time by DuckDB itself."""
    connection.execute(statement)
    columns = [(str(entry[0]), str(entry[1])) for entry in connection.description or ()]
    if any("WITH TIME ZONE" in kind for _, kind in columns):
        letters = [f"c{k}" for k in range(len(columns))]
        local = [f"{c}::TIMESTAMP" if kind == "TIMESTAMP WITH TIME ZONE" else c for c, (_, kind) in zip(letters, columns, strict=True)]
        connection.execute(f"SELECT {', '.join(local)} FROM ({statement.rstrip().rstrip(';')}\n) AS q({', '.join(letters)})")
    return columns, connection.fetchall()


def make_views(asking: Asking, query: str, *, guess: bool) -> None:
    """Define every view the query mentions; what is defined for an earlier query is replaced."""
    places = asking.places
    known = places.names()
    words = {word.lower() for word in re.findall(r"\w+", query)}
    everything = "tables" in words or "describe" in words
    make_run_facts(places)
    if "runs" in words or everything:
        _runs_view(places, asking.describe())
    codes, raws = types_mentioned(query, known) if guess else ({FLOAT, TEXT}, False)
    shown = only_shown(places.connection, query)
    value = value_of(codes, raws, shown=shown)
    if "args" in words or everything:
        _args_view(places, value)
    if "logs" in words or "loops" in words or everything:
        make_spots(places)
        _create(places, "logs", logs_query(places, value))
        _loops_view(places, value_of(_called_types(query, known) if guess else {FLOAT, TEXT}, False, shown=shown))
    if "wide" in words or everything:
        _wide_view(places, known)
    _checkpoints_view(asking, wanted="checkpoints" in words or everything)


def types_mentioned(query: str, known: Names) -> tuple[set[int], bool]:
    """The types of the names that stand in the query as text, or of all names if none does."""
    every = list(dict.fromkeys([*known.logged, *known.args]))
    names = [name for name in every if "'" + name.replace("'", "''") + "'" in query] or every
    codes: set[int] = set()
    raws = 0
    for name in names:
        for occurrence in known.logged.get(name, {}).values():
            codes |= set(occurrence.counts)
            raws += occurrence.raws
        if name in known.args:
            codes |= known.args[name].types()
            raws += any(spread(data)[4] is not None for data in set(known.args[name].values.values()))
    return codes, raws > 0


def _called_types(query: str, known: Names) -> set[int]:
    """The types of what iterations are called, of the loops that stand in the query as text, or of all."""
    mentioned = {shape: at for shape, at in known.called.items() if "'" + shape[-1].replace("'", "''") + "'" in query}
    named = any("'" + loop.replace("'", "''") + "'" in query for shape in known.shapes() for loop in shape)
    codes = {INT}
    for occurrence in (mentioned if named else known.called).values():
        codes |= set(occurrence.counts)
    return codes


def _create(places: Places, name: str, query: str) -> None:
    places.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")


def _type_names() -> str:
    return "CASE type " + " ".join(f"WHEN {code} THEN {literal(name)}" for code, name in enumerate(TYPE_NAMES)) + " END"


def _runs_view(places: Places, runs: Iterable[RunInfo]) -> None:
    kinds = {
        "run": "VARCHAR", "name": "VARCHAR", "tags": "VARCHAR[]", "notes": "VARCHAR", "projid": "VARCHAR", "tstamp": "TIMESTAMP",
        "filename": "VARCHAR", "version": "VARCHAR", "how": "VARCHAR", "status": "VARCHAR", "detail": "VARCHAR", "duration_s": "DOUBLE",
        "records": "BIGINT", "size_bytes": "BIGINT", "place": "BIGINT", "parent": "VARCHAR", "argv": "VARCHAR[]",
    }  # fmt: skip
    rows = []
    for info in runs:
        values = {key: getattr(info, key) for key in kinds}
        values["tstamp"] = info.tstamp.astimezone().replace(tzinfo=None) if info.tstamp else None
        values["projid"], values["filename"] = info.projid or None, info.filename or None
        rows.append([_sql_text(value) for value in values.values()])
    fill(places.connection, "runs_", kinds, rows)
    _create(places, "runs", "SELECT * FROM runs_ ORDER BY tstamp, run")


def _sql_text(value: object) -> object:
    if isinstance(value, list):
        return [clean_text(str(item)) for item in value]
    return clean_text(value) if isinstance(value, str) else value


def _args_view(places: Places, value: str) -> None:
    rows = []
    for run in places.runs:
        theirs = args_by_process(places.sources.of_run(run))
        for process in sorted(theirs, key=process_order):
            for name, (data, given) in theirs[process].items():
                code, number, whole, text, raw = spread(data)
                f, i = float(number) if number else None, int(whole) if whole else None
                rows.append((str(run), process, clean_text(name), code, f, i, text, raw, given))
    kinds = {
        "run": "VARCHAR", "process": "VARCHAR", "name": "VARCHAR", "type": "UTINYINT", "f": "DOUBLE", "i": "BIGINT", "s": "VARCHAR",
        "raw": "BLOB", "given": "BOOLEAN",
    }  # fmt: skip
    fill(places.connection, "args_", kinds, rows)
    _create(places, "args", f"SELECT run, process, name, {value} AS value, {_type_names()} AS value_type, given FROM args_")


def _number(place: str, it: str) -> str:
    """What the iteration of an affine block is called."""
    return f"coalesce(try_cast({place}.first::HUGEINT + {it}::HUGEINT * {place}.step AS BIGINT), {it})"


def _label(place: str, it: str, called: str) -> str:
    """`=3`, or `#3` for an iteration that is known by its number only."""
    c = called
    return (
        f"CASE WHEN {place}.affine = 1 THEN '=' || {_number(place, it)} WHEN {c}.type IS NULL THEN '#' || {it} "
        f"WHEN {c}.type = {INT} THEN '=' || coalesce({c}.s, {c}.i::VARCHAR) WHEN {c}.type = {FLOAT} THEN '=' || {c}.f "
        f"WHEN {c}.type = {BOOL} THEN '=' || CASE WHEN {c}.i <> 0 THEN 'True' ELSE 'False' END ELSE '=' || {c}.s END"
    )


def make_spots(places: Places) -> None:
    """Every place with its loop's name and the text of the path that leads to it."""
    run = places.connection.execute
    fill(places.connection, "loop_names", {"loop": "INTEGER", "loop_name": "VARCHAR"},
         [(number, clean_text(name)) for name, number in places.loops.items()])  # fmt: skip
    run("CREATE OR REPLACE TEMP TABLE spot AS SELECT place, NULL::VARCHAR AS loop_name, '' AS prefix FROM place WHERE parent IS NULL")
    for depth in range(1, 1 + max((len(shape) for shape in places.shapes), default=0)):
        numbers = [number for shape, number in places.shapes.items() if len(shape) == depth]
        prefix = "''" if depth == 1 else f"s.prefix || s.loop_name || ({_label('q', 'p.parent_it', 'c')}) || '/'"
        run(
            f"INSERT INTO spot SELECT p.place, loop_names.loop_name, {prefix} FROM place p JOIN place q ON q.place = p.parent_place "
            "JOIN spot s ON s.place = p.parent_place JOIN loop_names ON loop_names.loop = p.loop "
            f"LEFT JOIN {places.called()} c ON c.place = p.parent_place AND c.it = p.parent_it "
            f"WHERE p.shape IN ({', '.join(map(str, numbers))})"
        )


_CONTEXT = "run || '/' || process || '/' || replace({key}::VARCHAR, '-', '') || '/' || {it}"


def logs_query(places: Places, value: str, *, every_replay: bool = False) -> str:
    """The query of `logs`: of each identity what stands; with `every_replay` instead all that replays have."""
    names = list(dict.fromkeys(name for segment, _ in places.sources.taken for name in segment.names))
    fill(places.connection, "log_names", {"n": "INTEGER", "value_name": "VARCHAR"}, [(n, clean_text(name)) for n, name in enumerate(names)])
    again = bool(places.replayed) or any(len(attempts) > 1 for attempts in places.attempts.values())
    latest = " QUALIFY lag(true) OVER (PARTITION BY place, it, ord, n ORDER BY era DESC, seq DESC) IS NULL" if again else ""
    chosen = " WHERE era < 0" if every_replay else latest
    base = f"SELECT r.*, bp.place, bp.era, bp.wall FROM ({places.records(names, args=None)}) r JOIN bp USING (b){chosen}"
    _make_verdicts(places, names)
    inside = "p.parent IS NOT NULL"
    columns = [
        ("projid", "projid"), ("run", "run"), ("tstamp", "tstamp"), ("filename", "filename"), ("process", "process"),
        ("ctx_id", f"CASE WHEN {inside} THEN {_CONTEXT.format(key='p.key', it='l.it')} END"), ("value_name", "value_name"),
        ("value", value), ("value_type", _type_names()),
        ("value_float", f"CASE type WHEN {FLOAT} THEN f WHEN {INT} THEN coalesce(i::DOUBLE, f) END"),
        ("value_int", f"CASE type WHEN {INT} THEN i END"), ("value_text", f"CASE WHEN type >= {TEXT} THEN s END"), ("ordinal", "ord"),
        ("path", f"CASE WHEN {inside} THEN prefix || loop_name || ({_label('p', 'l.it', 'c')}) ELSE '' END"),
        ("logged_at", "wall + to_microseconds(CASE WHEN era < 0 THEN 0 ELSE us END)"), ("volatile", "(flags & 1) <> 0"),
        ("is_arg", "(flags & 2) <> 0"), ("origin", "CASE WHEN era < 0 THEN 'replayed' ELSE 'recorded' END"), ("replay", "replay_id"),
        ("verdict", "coalesce(own_verdict, replay_verdict)"),
    ]  # fmt: skip
    called = f"SELECT place, it, struct_pack(type := type, f := f, i := i, s := s) AS c FROM {places.called()}"
    rank = f"(era - {FIRST_REPLAY}) >> 20"
    return (
        f"SELECT {listed(columns)} FROM ({base}) l JOIN place p ON p.place = l.place "
        f"LEFT JOIN ({called}) v ON v.place = l.place AND v.it = l.it "
        "JOIN spot ON spot.place = l.place JOIN process ON process.rp = p.rp JOIN run_facts USING (run_ix) JOIN log_names USING (n) "
        f"LEFT JOIN replay_verdicts ON replay_verdicts.rank = {rank} "
        f"LEFT JOIN own_verdicts ON own_verdicts.rank = {rank} AND own_verdicts.n = l.n "
        f"ORDER BY p.rp, {POSITION if places.replayed else 'l.era'}, {BEHIND if places.replayed else 'l.seq'}"
    )


def _make_verdicts(places: Places, names: Sequence[str]) -> None:
    """What each replay says of its values: of all of them, and of single names."""
    numbers = {name: n for n, name in enumerate(names)}
    kinds = {"rank": "BIGINT", "replay_id": "VARCHAR", "replay_verdict": "VARCHAR"}
    fill(places.connection, "replay_verdicts", kinds, [(rank, one.id, one.verdict) for rank, one in enumerate(places.replays)])
    own = [(rank, numbers[name], said) for rank, one in enumerate(places.replays) for name, said in one.verdicts.items() if name in numbers]
    fill(places.connection, "own_verdicts", {"rank": "BIGINT", "n": "INTEGER", "own_verdict": "VARCHAR"}, own)


def _loops_view(places: Places, value: str) -> None:
    """One row per iteration; a block without a LEAVE frame has as many iterations as anything in it shows."""
    names = [name for segment, _ in places.sources.taken for name in segment.names]
    seen = (
        f"SELECT place, it FROM ({places.records(list(dict.fromkeys(names)), args=None)}) JOIN bp USING (b) "
        f"UNION ALL SELECT place, it FROM {places.called()} "
        "UNION ALL SELECT parent_place, parent_it FROM place WHERE parent_place IS NOT NULL"
    )
    counted = (
        "SELECT p.*, coalesce(p.entries, x.top + 1, 0) AS begun FROM place p "
        f"LEFT JOIN (SELECT place, max(it) AS top FROM ({seen}) GROUP BY place) x USING (place) WHERE p.parent IS NOT NULL"
    )
    endings = "CASE ending " + " ".join(f"WHEN {k} THEN {literal(name)}" for k, name in enumerate(ENDINGS)) + " END"
    above = f"CASE WHEN parent <> {literal(str(uuid.UUID(int=0)))} THEN {_CONTEXT.format(key='parent', it='parent_it')} END"
    columns = [
        ("ctx_id", _CONTEXT.format(key="key", it="it")), ("parent_ctx_id", above), ("loop_name", "loop_name"), ("loop_entries", "begun"),
        ("loop_iteration", "it"), ("loop_value", value), ("run", "run"), ("process", "process"), ("occurrence", "occurrence"),
        ("ending", endings),
    ]  # fmt: skip
    has = "d.affine = 0 AND c.type IS NOT NULL"
    known = "d.affine = 1 OR w.place IS NOT NULL"  # else nothing says what the iteration is called: the journal never met it
    typed = [
        ("type", f"CASE WHEN {has} THEN c.type WHEN {known} THEN {INT} ELSE {NONE} END"), ("f", "c.f"), ("s", "c.s"),
        ("i", f"CASE WHEN {has} THEN c.i WHEN d.affine = 1 THEN {_number('d', 'd.it')} ELSE d.it END"),
    ]  # fmt: skip
    _create(
        places, "loops",
        f"SELECT {listed(columns)} FROM (SELECT d.*, {listed(typed)} FROM (SELECT *, unnest(range(begun)) AS it FROM ({counted})) d "
        f"LEFT JOIN {places.called()} c ON c.place = d.place AND c.it = d.it "
        f"LEFT JOIN (SELECT DISTINCT place, it FROM ({seen})) w ON w.place = d.place AND w.it = d.it) "
        "JOIN spot USING (place) JOIN process USING (rp) JOIN run_facts USING (run_ix) ORDER BY rp, place, it",
    )  # fmt: skip


def _checkpoints_view(asking: Asking, *, wanted: bool) -> None:
    """A row for each process and boundary."""
    places = asking.places
    damage: list[str] = []
    rows: list[tuple[Any, ...]] = []
    for theirs in checkpoints.of_runs(asking.store, places.runs if wanted else (), damage).values():
        for info in theirs:
            rows += [tuple(map(_sql_text, row)) for row in checkpoints.rows_of(info)]
    fill(places.connection, "checkpoints_", checkpoints.ROW_TYPES, rows)
    _create(places, "checkpoints", "SELECT * FROM checkpoints_")
    asking.noticed.update(damage)


def _wide_view(places: Places, known: Names) -> None:
    """Every name there is, with the dimensions in front."""
    every = list(dict.fromkeys([*known.args, *known.logged]))
    pivot = Pivot(places, known, every)
    query = pivot.query()
    fields = zip(wide_labels(places, known), (*pivot.loops, *pivot.names), strict=True)
    columns = [f"{field.typed('q')} AS {quoted(label)}" for (label, _, _), field in fields]
    every_column = ", ".join(["projid", "run", "tstamp", "filename", "process", *columns])
    _create(
        places, "wide",
        f"SELECT {every_column} FROM ({query}) q JOIN run_facts USING (run_ix) JOIN process USING (rp) ORDER BY {pivot.order}",
    )  # fmt: skip
