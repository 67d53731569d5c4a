"""The sources as tables of one DuckDB connection, with ids that hold across segments.

A *place* is one execution of a loop in one process of one run, by the hash of its path: blocks that several parts or
attempts define alike are one place. Place, iteration, name and ordinal are the identity of a record. An `rp` is a process
of a run; rps are numbered in the order rows are shown: run start, run, process.

An *era* puts the parts that may hold the same identity in order, the last one stands: replays from the oldest to the newest, all below
zero, then the attempts of the run itself. What was recorded is never replaced by what was replayed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rearview.catalog.asking.engine import fill, literal
from rearview.catalog.runs import SUPERVISOR, args_by_process, parse_tstamp, process_order
from rearview.catalog.sealing.listing import part_name, replay_of
from rearview.catalog.sealing.sources import Sources
from rearview.catalog.tables.types import NONE, spread
from rearview.model import RunId
from rearview.store.replays import Replay

if TYPE_CHECKING:
    import duckdb

Shape = tuple[str, ...]

FIRST_REPLAY = -(1 << 46)
"""The era of the first part of the oldest replay."""
RECORDED_POSITION = "era << 32 | seq"
POSITION = f"CASE WHEN era < 0 THEN us ELSE {RECORDED_POSITION} END"
"""Where a record was in the life of its process. One of a replay says behind which recorded one it came; then `BEHIND` counts."""
BEHIND = f"CASE WHEN era < 0 THEN (era - {FIRST_REPLAY}) << 17 | seq ELSE -1 END"


@dataclass(slots=True)
class Occurrence:
    """A name at one shape: how many values of which type, and in which processes."""

    counts: dict[int, int] = field(default_factory=dict)
    raws: int = 0
    rps: set[int] = field(default_factory=set)
    replayed: set[int] = field(default_factory=set)
    """Processes of which replays have values."""

    def add(self, code: int, count: int, raws: int, rp: int) -> None:
        self.counts[code] = self.counts.get(code, 0) + count
        self.raws += raws
        self.rps.add(rp)


@dataclass(slots=True)
class Arg:
    """An argument over all runs."""

    values: dict[int, bytes] = field(default_factory=dict)
    """Process index to the encoded value that the process recorded."""
    sources: dict[int, int] = field(default_factory=dict)
    """Process index to the process whose value its rows show: its own, its nearest ancestor's, else the lowest process's."""

    def types(self) -> set[int]:
        return {spread(data)[0] for data in set(self.values.values())}


@dataclass(slots=True)
class Names:
    """What names and loops there are among some runs: all that a plan needs to know."""

    logged: dict[str, dict[Shape, Occurrence]] = field(default_factory=dict)
    args: dict[str, Arg] = field(default_factory=dict)
    called: dict[Shape, Occurrence] = field(default_factory=dict)
    """What the iterations of the innermost loop of a shape are called, where a value says so."""

    def shapes(self) -> set[Shape]:
        """Every shape that something was logged at."""
        return {shape for at in self.logged.values() for shape in at}


class Places:
    """One listing of the store, loaded into a connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, sources: Sources, *, divergent: bool = False) -> None:
        """Replays that came out otherwise than the record are left out, unless `divergent`."""
        self.connection = connection
        self.sources = sources
        self.replays: list[Replay] = sources.replays
        self._rank = {(one.run, one.id): k for k, one in enumerate(sources.replays) if divergent or one.verdict != "divergent"}
        self.replayed: set[int] = set()
        """Processes of which there are replayed values."""
        self.runs: list[RunId] = sorted(sources.runs, key=lambda run: (parse_tstamp(sources.runs[run].get("tstamp")), run))
        self.run_ix = {run: ix for ix, run in enumerate(self.runs)}
        self.processes: list[tuple[int, str]] = []
        """rp to (run index, process number)."""
        self._rp: dict[tuple[str, str], int] = {}
        self.attempts: dict[int, set[int]] = {}
        self._number_processes()
        self._load()

    def _number_processes(self) -> None:
        for run in self.runs:
            parts = (*self.sources.parts.get(run, ()), *self.sources.replayed.get(run, ()))
            writers = {part.name.writer for part in parts} - {SUPERVISOR}
            for writer in sorted(writers, key=process_order):
                self._rp[run, writer] = len(self.processes)
                self.processes.append((self.run_ix[run], writer))

    def rp_of(self, entry: dict[str, Any]) -> int | None:
        name, replay = part_name(entry["file"]), replay_of(entry["file"])
        if name is None or (replay and (entry["run"], replay) not in self._rank):
            return None
        return self._rp.get((entry["run"], name.writer))

    def replay_at(self, era: int) -> Replay:
        """The replay that a record is from, by its era."""
        return self.replays[(era - FIRST_REPLAY) >> 20]

    # Tables

    def _load(self) -> None:
        parts = []
        for k, (segment, mine) in enumerate(self.sources.taken):
            for ix in mine:
                entry = segment.parts[ix]
                rp = self.rp_of(entry)
                name, replay = part_name(entry["file"]), replay_of(entry["file"])
                if rp is None or name is None:
                    continue
                if replay:
                    rank = self._rank[entry["run"], replay]
                    parts.append((k, ix, rp, FIRST_REPLAY + (rank << 20 | name.part), _local(self.replays[rank].when)))
                    self.replayed.add(rp)
                else:
                    parts.append((k, ix, rp, name.attempt << 20 | name.part, _wall(entry)))
                    self.attempts.setdefault(rp, set()).add(name.attempt)
        kinds = {"seg": "INTEGER", "part": "INTEGER", "rp": "INTEGER", "era": "BIGINT", "wall": "TIMESTAMP"}
        fill(self.connection, "part", kinds, parts)
        fill(self.connection, "process", {"rp": "INTEGER", "run_ix": "INTEGER", "process": "VARCHAR"},
             [(rp, run_ix, number) for rp, (run_ix, number) in enumerate(self.processes)])  # fmt: skip
        shapes: dict[Shape, int] = {}
        self.shapes = shapes
        loops: dict[str, int] = {}
        self.loops = loops
        selects = []
        for k, (segment, _) in enumerate(self.sources.taken):
            shape_map = literal([shapes.setdefault(shape, len(shapes)) for shape in segment.shapes])
            loop_map = literal([loops.setdefault(name, len(loops)) for name in segment.names] or [0])
            selects.append(
                f"SELECT {k} AS seg, {k}::BIGINT << 32 | b AS b, part, key, parent, parent_it, {shape_map}[shape + 1] AS shape, "
                f"{loop_map}[loop + 1] AS loop, occurrence, affine, first, step, entries, ending "
                f"FROM {literal(str(segment.path('blocks')))}"
            )
        self._make_places(" UNION ALL ".join(selects) if selects else _NO_BLOCKS)

    def _make_places(self, blocks: str) -> None:
        run = self.connection.execute
        run(f"CREATE OR REPLACE TEMP TABLE block AS SELECT * EXCLUDE (seg, part) FROM ({blocks}) JOIN part USING (seg, part)")
        run(
            "CREATE OR REPLACE TEMP TABLE place_ AS SELECT (row_number() OVER ())::INTEGER - 1 AS place, * FROM ("
            "SELECT rp, key, any_value(parent) AS parent, any_value(parent_it) AS parent_it, any_value(shape) AS shape, "
            "any_value(loop) AS loop, any_value(occurrence) AS occurrence, arg_max(affine, era) AS affine, arg_max(first, era) AS first, "
            "arg_max(step, era) AS step, arg_max(entries, era) AS entries, arg_max(ending, era) AS ending FROM block GROUP BY rp, key)"
        )
        run(
            "CREATE OR REPLACE TEMP TABLE place AS SELECT p.*, q.place AS parent_place FROM place_ p "
            "LEFT JOIN place_ q ON p.rp = q.rp AND p.parent = q.key"
        )
        run(
            "CREATE OR REPLACE TEMP TABLE bp AS SELECT b, place, block.era, block.wall, place.shape, place.rp "
            "FROM block JOIN place USING (rp, key)"
        )
        begun = "min([rp, (era < 0)::BIGINT, era, b & 4294967295])"
        first = run(f"SELECT shape, {begun} AS begun FROM block GROUP BY shape ORDER BY begun").fetchall()
        by_number = {number: shape for shape, number in self.shapes.items()}
        self.shape_rank = {by_number[number]: rank for rank, (number, _) in enumerate(first)}
        """Shapes by their first appearance in the first run that has them: the order of columns."""
        self._called = False

    def records(self, names: Sequence[str], *, args: bool | None = False) -> str:
        """SQL for the records of some names: b, it, ord, flags, seq, us, type, f, i, s, raw and `n`, the name's place in `names`."""
        selects = []
        flag = "" if args is None else f" AND flags & 2 = {2 if args else 0}"
        for k, (segment, _) in enumerate(self.sources.taken):
            at = {name: ix for ix, name in enumerate(segment.names)}
            mine = [(at[name], n) for n, name in enumerate(names) if name in at]
            if not mine:
                continue
            if len(mine) == 1:
                number, where = str(mine[0][1]), f"name = {mine[0][0]}"
            else:
                number = "CASE name " + " ".join(f"WHEN {ix} THEN {n}" for ix, n in mine) + " END"
                where = "name IN (" + ", ".join(str(ix) for ix, _ in mine) + ")"
            selects.append(
                f"SELECT {k}::BIGINT << 32 | b AS b, it, ord, flags, seq, us, type, f, i, s, raw, {number} AS n "
                f"FROM {literal(str(segment.path('records')))} WHERE {where}{flag}"
            )
        return " UNION ALL ".join(selects) if selects else _NO_RECORDS

    def called(self) -> str:
        """The table (place, it, type, f, i, s, raw) of what iterations are called; the last attempt's word stands."""
        if not self._called:
            selects = [
                f"SELECT {k}::BIGINT << 32 | b AS b, it, type, f, i, s, raw FROM {literal(str(segment.path('values')))}"
                for k, (segment, _) in enumerate(self.sources.taken)
                if segment.value_stats
            ]
            source = " UNION ALL ".join(selects) if selects else f"SELECT b, it, type, f, i, s, raw FROM ({_NO_RECORDS})"
            self.connection.execute(  # neither arg_max nor row_number() = 1, which DuckDB takes for it: they make 0.0 of -0.0
                f"CREATE OR REPLACE TEMP TABLE called AS SELECT place, it, type, f, i, s, raw FROM ({source}) JOIN bp USING (b) "
                f"WHERE type <> {NONE} QUALIFY lag(true) OVER (PARTITION BY place, it ORDER BY era DESC) IS NULL"
            )
            self._called = True
        return "called"

    # What a plan needs to know

    def names(self, only: set[RunId] | None = None) -> Names:
        """The names and loops of all runs, or of some."""
        found = Names()
        for segment, mine in self.sources.taken:
            rps = {}
            for ix in mine:
                entry = segment.parts[ix]
                rp = self.rp_of(entry)
                if rp is not None and (only is None or entry["run"] in only):
                    rps[ix] = rp
            for part, name, shape, is_arg, code, count, raws in segment.stats:
                if part in rps and not is_arg:
                    at = found.logged.setdefault(segment.names[name], {})
                    occurrence = at.setdefault(segment.shapes[shape], Occurrence())
                    occurrence.add(code, count, raws, rps[part])
                    if replay_of(segment.parts[part]["file"]):
                        occurrence.replayed.add(rps[part])
            for part, shape, code, count, raws in segment.value_stats:
                if part in rps and code != NONE:
                    found.called.setdefault(segment.shapes[shape], Occurrence()).add(code, count, raws, rps[part])
        for run in self.runs if only is None else sorted(only):
            self._add_args(run, found.args)
        return found

    def _add_args(self, run: RunId, found: dict[str, Arg]) -> None:
        """The arguments of one run."""
        theirs = args_by_process(self.sources.of_run(run))
        writers = [part.name.writer for part in self.sources.parts.get(run, [])]
        lowest: dict[str, str] = {}
        for writer in sorted(theirs, key=process_order):
            for arg in theirs[writer]:
                lowest.setdefault(arg, writer)
        for arg, first in lowest.items():
            known = found.setdefault(arg, Arg())
            among = {writer for writer, args in theirs.items() if arg in args}
            for writer in dict.fromkeys(writers):
                if (run, writer) in self._rp:
                    rp = self._rp[run, writer]
                    if writer in among:
                        known.values[rp] = theirs[writer][arg][0]
                    known.sources[rp] = self._rp[run, nearest(writer, among, first)]


def nearest(writer: str, among: set[str], otherwise: str) -> str:
    """A process or the nearest of its ancestors that is among some: `0.2`, then `0`."""
    while writer not in among:
        writer, dot, _ = writer.rpartition(".")
        if not dot:
            return otherwise
    return writer


def _wall(entry: dict[str, Any]) -> dt.datetime | None:
    """When the writer of a part began, in local time."""
    wall = (entry["facts"].get("hello") or {}).get("wall")
    if not isinstance(wall, (int, float)):
        return None
    try:
        return _local(dt.datetime.fromtimestamp(wall, dt.UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _local(when: dt.datetime | None) -> dt.datetime | None:
    return when.astimezone().replace(tzinfo=None) if when else None


_NO_RECORDS = (
    "SELECT NULL::BIGINT AS b, NULL::BIGINT AS it, NULL::UINTEGER AS ord, NULL::UTINYINT AS flags, NULL::UINTEGER AS seq, "
    "NULL::BIGINT AS us, NULL::UTINYINT AS type, NULL::DOUBLE AS f, NULL::BIGINT AS i, NULL::VARCHAR AS s, NULL::BLOB AS raw, "
    "NULL::INTEGER AS n WHERE false"
)
_NO_BLOCKS = (
    "SELECT NULL::INTEGER AS seg, NULL::BIGINT AS b, NULL::INTEGER AS part, NULL::UUID AS key, NULL::UUID AS parent, "
    "NULL::BIGINT AS parent_it, NULL::INTEGER AS shape, NULL::INTEGER AS loop, NULL::UINTEGER AS occurrence, NULL::UTINYINT AS affine, "
    "NULL::BIGINT AS first, NULL::BIGINT AS step, NULL::BIGINT AS entries, NULL::UTINYINT AS ending WHERE false"
)
