"""One question for a table or a choice of runs: names to columns, the where clause to a filter, notes on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rearview.catalog.asking.choose import DIMENSIONS, Asking, Choice, near, run_query
from rearview.catalog.runs import tstamp_of
from rearview.catalog.tables.fields import Field
from rearview.catalog.tables.pivot import Pivot
from rearview.catalog.tables.places import Names, Places
from rearview.catalog.tables.result import TRACES, Dimension, PivotData, Trace, local_times
from rearview.catalog.tables.shapes import loop_columns
from rearview.catalog.tables.table import Table, local_zone
from rearview.model import RunId


def ask_table(asking: Asking, asked: Sequence[str], where: str | None, run: str | None, *, provenance: bool = False) -> Table:
    """The table of some names; with `provenance` each is followed by where its values came from, and their verdict."""
    places = asking.places
    only = {asking.resolve(places.sources, run)} if run is not None else None
    known = places.names(only)
    every = known if only is None else places.names()
    notes = _unknown(asked, known, every)
    columns = [name for name in asked if not _is_dimension(name, known)]
    rps = None if only is None else {rp for rp, (run_ix, _) in enumerate(places.processes) if places.runs[run_ix] in only}
    choice = Choice(asking, where, known, rps) if where is not None else None
    pivot = Pivot(places, known, columns, (), rps, traced=provenance)
    _keep(asking, pivot, choice.rows(columns, traced=provenance) if choice else pivot.query(), choice)
    data = _data(asking, pivot, asked)
    listed = data.columns()
    there = {column.name for column in listed}
    notes += [_only_a_loop(name, known) for name in asked if name not in columns and name not in there]
    notes += [f"{column.name} has values of several types: {column.mixed}" for column in listed if column.mixed]
    notes += places.sources.damage
    return Table(listed, data, notes)


def ask_runs(asking: Asking, where: str) -> set[RunId]:
    """The runs of which some row satisfies a clause."""
    return Choice(asking, where, asking.places.names(), None).runs()


def _is_dimension(name: str, known: Names) -> bool:
    """A dimension that was asked for by its name is there anyway, unless something was logged under that name too."""
    loops = {column for shape in known.shapes() for column in loop_columns(shape)}
    return (name in DIMENSIONS or name in loops) and name not in known.logged and name not in known.args


def _only_a_loop(name: str, known: Names) -> str:
    """Why a loop that was asked for is no column."""
    inside = sorted(logged for logged, at in known.logged.items() if any(name in loop_columns(shape) for shape in at))
    return f"{name} is a loop, a column of the names that are logged in it: ask for one of them too, such as {', '.join(inside[:3])}"


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


def _keep(asking: Asking, pivot: Pivot, rows: str, choice: Choice | None) -> None:
    """Materialise the rows in their order, in a table that outlives the catalog."""
    columns = ", ".join(["run_ix", "rp", *(column for field in (*pivot.loops, *pivot.names) for column in field.columns)])
    kept = f"CREATE TABLE {asking.answer} AS SELECT {columns} FROM ({rows}) ORDER BY {pivot.order}"
    run_query(asking, kept, choice.clause if choice else None)


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
    fields = _renamed(pivot, {d.name for d in dimensions})
    return PivotData(asking.store, places.connection.cursor(), asking.answer, dimensions, fields, partial(_provenance, places))


def _provenance(places: Places, name: str, era: int) -> Trace:
    """Where a value came from; of a replayed one how far it can be trusted, what was asked, and where that stood in another version."""
    if era >= 0:
        return "recorded", None, None, None
    replay = places.replay_at(era)
    return "replayed", replay.verdict_of(name), replay.statement or None, replay.placement or None


def _columns(name: str, traced: bool) -> set[str]:
    return {name, *(f"{name}.{word}" for word in TRACES if traced)}


def _renamed(pivot: Pivot, taken: set[str]) -> list[tuple[Field, str]]:
    """The fields in order, with their own names; a loop or name that is called like a column before it gets a word more."""
    fields = []
    for field in (*pivot.loops, *pivot.names):
        name = field.name
        while taken & _columns(name, field.traced):
            name += "_loop" if field in pivot.loops else "_value"
        taken |= _columns(name, field.traced)
        fields.append((replace(field, name=name), field.name))
    return fields
