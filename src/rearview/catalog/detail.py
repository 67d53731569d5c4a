"""Everything about one run: facts from its journals, its processes, and a series for each metric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rearview.catalog import checkpoints
from rearview.catalog.asking.engine import literal
from rearview.catalog.checkpoints import CheckpointInfo
from rearview.catalog.overlap import Attempt, Overlap, attempts_of, compare
from rearview.catalog.runs import SUPERVISOR, RunInfo, process_order
from rearview.catalog.sealing.listing import replay_of
from rearview.catalog.tables.places import BEHIND, POSITION, Places, Shape
from rearview.catalog.tables.types import FLOAT, INT, gather
from rearview.errors import Damaged
from rearview.model import MAIN_PROCESS, RunId
from rearview.store import frames
from rearview.store.encoding import decode
from rearview.store.journal import PartName
from rearview.store.layout import Store
from rearview.store.runs import read_run, size_of

POINTS = 512
"""A series is thinned to so many points."""


@dataclass(frozen=True, slots=True)
class Series:
    """The numbers logged under one name at one shape by the main process, in order."""

    name: str
    shape: Shape
    count: int
    minimum: float | int | None
    """The least that is finite, as it was logged: an int of any size stays exact. So with the others."""
    maximum: float | int | None
    first: float | int | None
    last: float | int | None
    values: list[float]
    """At most POINTS of them, evenly picked; the first and the last are always there. Ints beyond all floats are left out."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One process of a run in one attempt."""

    process: str
    attempt: int
    host: str
    pid: int | None
    rank: int | None
    parts: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class KeptStates:
    """The checkpoints of a run in sum; the parts of one decision count once."""

    count: int
    """Those whose bytes are there."""
    partial: int
    pinned: int
    thinned: int
    size_bytes: int
    """Everything they refer to, each byte once."""
    last: str
    """The place of the last whole one."""


@dataclass(slots=True)
class RunDetail:
    """What `rearview show` shows."""

    info: RunInfo
    run_json: dict[str, Any]
    """All of `run.json`."""
    environment: dict[str, Any]
    """What was known at the start, completed by what was loaded by the end."""
    git: dict[str, Any] | None
    versions: list[dict[str, Any]] = field(default_factory=list)
    """{version, why}: the versions that replaced the first one."""
    sources: list[dict[str, Any]] = field(default_factory=list)
    """{path, why}: modules imported late, or that differ from the snapshot."""
    cells: list[dict[str, Any]] = field(default_factory=list)
    unstorable: list[dict[str, Any]] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    exception: dict[str, Any] | None = None
    """{exception, message, traceback, exit_code} if the run failed."""
    inputs: list[list[Any]] = field(default_factory=list)
    processes: list[ProcessInfo] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    size_bytes: int = 0
    """Bytes of the run's folder."""
    series: list[Series] = field(default_factory=list)
    volatile: frozenset[str] = frozenset()
    """Names logged as not expected to repeat."""
    lost: int = 0
    """Records that could not be written."""
    attempts: list[Attempt] = field(default_factory=list)
    overlap: Overlap | None = None
    """What several attempts logged in common; None if there is one."""
    inexact: list[dict[str, Any]] = field(default_factory=list)
    """{attempt, process, manifest, why}: what a resume could not bring back as it was."""
    cadence: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Block to what its checkpoints cost: M, C, n, k, c, share, eps, every, as the main process last said."""
    checkpoints: KeptStates | None = None
    """None for a run that has none."""


def detail(store: Store, places: Places, info: RunInfo) -> RunDetail:
    """Look up everything about a run."""
    try:
        run_json = read_run(store, info.run)
    except (Damaged, OSError):
        run_json = {}
    environment, git = run_json.get("environment"), run_json.get("git")
    found = RunDetail(info, run_json, dict(environment) if isinstance(environment, dict) else {}, git if isinstance(git, dict) else None)
    facts = facts_of(places, info.run)
    found.attempts = attempts_of(places, info.run, facts)
    if len(found.attempts) > 1:
        found.overlap = compare(places, info.run, facts)
    for name, fact in facts:
        _take(found, fact)
        if fact["fact"] == "inexact":
            found.inexact.append(
                {"attempt": name.attempt, "process": name.writer, "manifest": fact.get("manifest"), "why": fact.get("why")}
            )
        if fact["fact"] == "cadence" and name.writer == MAIN_PROCESS:
            found.cadence[str(fact.get("block"))] = {key: value for key, value in fact.items() if key not in ("fact", "block")}
    found.processes = _processes(places, info.run)
    found.damage = [sentence for sentence in places.sources.damage if sentence.startswith(f"runs/{info.run}/")]
    try:
        found.size_bytes = size_of(store.run(info.run))
    except OSError:
        found.size_bytes = info.size_bytes
    found.series = _series(places, info.run)
    found.volatile = _volatile(places, info.run)
    found.lost = info.lost
    found.checkpoints = _kept_states(checkpoints.of_run(store, info.run, found.damage))
    return found


def _kept_states(listed: list[CheckpointInfo]) -> KeptStates | None:
    if not listed:
        return None
    there = [one for one in listed if one.usable]
    pieces = {piece: size for one in there for piece, size in checkpoints.pieces_of(one).items()}
    return KeptStates(
        _decisions(there),
        _decisions(one for one in there if not one.complete),
        _decisions(one for one in there if one.pinned),
        _decisions(one for one in listed if one.thinned is not None),
        sum(pieces.values()),
        max(there, key=lambda one: one.order).named if there else "",
    )


def _decisions(some: Iterable[CheckpointInfo]) -> int:
    return len({one.decision for one in some})


def facts_of(places: Places, run: RunId) -> list[tuple[PartName, dict[str, Any]]]:
    """The facts of a run's journals with the part each is from, in order."""
    found: list[tuple[PartName, int, dict[str, Any]]] = []
    for segment, mine in places.sources.taken:
        theirs = {ix: PartName.parse(file) for ix in mine if (file := _own_file(segment.parts[ix], run))}
        if not theirs:
            continue
        numbers = ", ".join(map(str, theirs))
        query = f"SELECT part, seq, body FROM {literal(str(segment.path('facts')))} WHERE part IN ({numbers})"
        for part, seq, body in places.connection.execute(query).fetchall():
            name = theirs[part]
            if name is not None:
                found.append((name, seq, decode(bytes(body))))
    found.sort(key=lambda item: (item[0].attempt, process_order(item[0].writer), item[0].part, item[1]))
    return [(name, fact) for name, _, fact in found]


def _own_file(entry: dict[str, Any], run: RunId) -> str:
    """The name of a part that a run itself wrote; nothing for others, and for those of its replays."""
    return "" if entry["run"] != run or replay_of(entry["file"]) else str(entry["file"])


def _take(found: RunDetail, fact: dict[str, Any]) -> None:
    kind = fact["fact"]
    rest = {key: value for key, value in fact.items() if key != "fact"}
    if kind == "environment":
        found.environment.update(rest)
    elif kind == "version":
        found.versions.append(rest)
    elif kind == "source":
        found.sources.append(rest)
    elif kind == "cell":
        found.cells.append(rest)
    elif kind == "unstorable":
        found.unstorable.append(rest)
    elif kind == "unasked":
        found.unasked += [str(name) for name in rest.get("names") or []]
    elif kind == "inputs":
        found.inputs += list(rest.get("files") or [])
    elif kind == "end" and rest.get("how") == "failed" and found.exception is None:
        found.exception = {key: rest.get(key) for key in ("exception", "message", "traceback", "exit_code")}


def _processes(places: Places, run: RunId) -> list[ProcessInfo]:
    grouped: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for name, entry in places.sources.of_run(run):
        if name.writer != SUPERVISOR:
            grouped.setdefault((name.writer, name.attempt), []).append(entry)
    found = []
    for (writer, attempt), entries in sorted(grouped.items(), key=lambda item: (process_order(item[0][0]), item[0][1])):
        hello: dict[str, Any] = next((entry["facts"]["hello"] for entry in entries if "hello" in entry["facts"]), {})
        process = hello.get("process") or {}
        records, size = sum(entry["records"] for entry in entries), sum(entry["size"] for entry in entries)
        host = str(process.get("host") or "")
        found.append(ProcessInfo(writer, attempt, host, process.get("pid"), hello.get("rank"), len(entries), records, size))
    return found


def _volatile(places: Places, run: RunId) -> frozenset[str]:
    names = list(places.names({run}).logged)
    mine = ", ".join(str(rp) for rp, (run_ix, _) in enumerate(places.processes) if places.runs[run_ix] == run)
    if not names or not mine:
        return frozenset()
    query = f"SELECT DISTINCT n FROM ({places.records(names)}) JOIN bp USING (b) WHERE rp IN ({mine}) AND flags & {frames.VOLATILE} <> 0"
    return frozenset(names[n] for (n,) in places.connection.execute(query).fetchall())


def _series(places: Places, run: RunId) -> list[Series]:
    known = places.names({run})
    mine = [rp for rp, (run_ix, _) in enumerate(places.processes) if places.runs[run_ix] == run]
    if not mine:
        return []
    main = next((rp for rp in mine if places.processes[rp][1] == MAIN_PROCESS), mine[0])
    found = []
    for name, at in known.logged.items():
        for shape, occurrence in at.items():
            if main in occurrence.rps and set(occurrence.counts) & {FLOAT, INT}:
                found.append(_one_series(places, name, shape, main, replayed=main in occurrence.replayed))
    return [series for series in found if series.count]


def _one_series(places: Places, name: str, shape: Shape, rp: int, *, replayed: bool) -> Series:
    again = len(places.attempts.get(rp, ())) > 1 or replayed
    latest = " QUALIFY lag(true) OVER (PARTITION BY place, it, ord ORDER BY era DESC, seq DESC) IS NULL" if again else ""
    number = f"CASE type WHEN {FLOAT} THEN f ELSE coalesce(i::DOUBLE, f) END"
    every = (
        f"SELECT {number} AS v, type, f, i, s, raw, {POSITION} AS pos, {BEHIND} AS behind "
        f"FROM ({places.records([name])}) JOIN bp USING (b) "
        f"WHERE rp = {rp} AND shape = {places.shapes[shape]} AND type IN ({FLOAT}, {INT}){latest}"
    )
    numbers = f"SELECT v, pos, behind FROM ({every}) WHERE NOT (type = {INT} AND isinf(v))"
    run, finite = places.connection.execute, "FILTER (WHERE isfinite(v))"
    count, low, high = run(f"SELECT count(*), min(v) {finite}, max(v) {finite} FROM ({numbers})").fetchone() or (0, None, None)
    stride = max(1, -(-count // (POINTS - 1)))
    rows = run(
        f"SELECT v FROM (SELECT v, row_number() OVER (ORDER BY pos, behind) - 1 AS k FROM ({numbers})) "
        f"WHERE k % {stride} = 0 OR k = {count - 1} ORDER BY k"
    ).fetchall()
    columns = "type, f, i, s, raw"
    ends = [
        gather(*row)
        for order in ("pos, behind", "pos DESC, behind DESC")
        for row in run(f"SELECT {columns} FROM ({every}) ORDER BY {order} LIMIT 1").fetchall()
    ]
    first, last = ends or (None, None)
    # Several ints can be one double, the least and the greatest among them: those are told apart as what they are.
    outermost = f"v = $1 OR v = $2 OR (type = {INT} AND isinf(v))"
    rest = run(f"SELECT DISTINCT {columns} FROM ({every}) WHERE {outermost}", [low, high]).fetchall()
    extreme = sorted((gather(*row) for row in rest), key=lambda number: (number, isinstance(number, float)))
    total = run(f"SELECT count(*) FROM ({every})").fetchone()
    low, high = (extreme[0], extreme[-1]) if extreme else (None, None)
    return Series(name, shape, total[0] if total else 0, low, high, first, last, [float(value) for (value,) in rows])
