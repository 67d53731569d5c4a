"""The attempts of a run, and what a later one logged again: the same values, or not.

A row that two attempts logged has one identity (process, path, name, ordinal); the later one stands in every table. Here both are looked
at. Rows of an attempt that lie behind the checkpoint the next one began from, and were not reached again, stay visible and are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rearview.catalog.runs import SUPERVISOR, process_order
from rearview.catalog.tables.places import Places
from rearview.catalog.tables.types import gather
from rearview.model import RunId
from rearview.store import frames
from rearview.store.journal import PartName

Facts = Sequence[tuple[PartName, dict[str, Any]]]

SHOWN = 5
"""Differences that are named."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a run."""

    number: int
    began_wall: float | None
    place: str | None
    """Where it went on, in words; None for the first."""
    lost_s: float | None
    """Work that it did again."""
    end: str | None
    """`finished` or `failed`; None: it ended without a word, or goes on."""
    records: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that a later attempt logged with another value."""

    name: str
    path: str
    process: str
    attempt: int
    """The later one."""
    before: object
    after: object


@dataclass(slots=True)
class Overlap:
    """What attempts logged in common."""

    same: int = 0
    differing: int = 0
    different: list[Difference] = field(default_factory=list)
    """The first few."""
    only_before: int = 0
    """Rows behind the last restore point that were not reached again."""

    @property
    def again(self) -> int:
        """Rows that were logged again."""
        return self.same + self.differing


def attempts_of(places: Places, run: RunId, facts: Facts) -> list[Attempt]:
    """The attempts of a run in order. `facts` are those of its journals, each with its part."""
    found: dict[int, dict[str, Any]] = {}
    for name, entry in places.sources.of_run(run):
        if name.writer == SUPERVISOR:
            continue
        known = found.setdefault(name.attempt, {"records": 0})
        known["records"] += entry["records"]
        if "." not in name.writer:
            hello, end = entry["facts"].get("hello") or {}, entry["facts"].get("end") or {}
            known.setdefault("wall", hello.get("wall"))
            known["end"] = end.get("how") or known.get("end")
    origins = _origins(facts)
    return [
        Attempt(number, _number(known.get("wall")), origin.get("place"), _number(origin.get("lost_s")), known.get("end"), known["records"])
        for number, known in sorted(found.items())
        for origin in [origins.get(number) or {}]
    ]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _origins(facts: Facts) -> dict[int, dict[str, Any]]:
    """Attempt -> its fact `resumed`, by the lowest process that says one."""
    said = [(name, fact) for name, fact in facts if fact["fact"] == "resumed"]
    said.sort(key=lambda one: process_order(one[0].writer), reverse=True)
    return {name.attempt: fact for name, fact in said}


def compare(places: Places, run: RunId, facts: Facts) -> Overlap:
    """Compare what several attempts of a run logged; an empty overlap for a run with one."""
    mine = [rp for rp, (run_ix, _) in enumerate(places.processes) if places.runs[run_ix] == run and len(places.attempts.get(rp, ())) > 1]
    names = list(places.names({run}).logged)
    if not mine or not names:
        return Overlap()
    rows = (
        "SELECT rp, place, it, n, ord, era >> 20 AS attempt, us, flags, type, f, i, s, raw, row(type, f::VARCHAR, i, s, raw) AS value "
        f"FROM ({places.records(names)}) JOIN bp USING (b) WHERE era >= 0 AND rp IN ({', '.join(map(str, mine))})"
    )
    before = ", ".join(f"lag({column}) OVER same AS {column}_" for column in ("attempt", "value", "type", "f", "i", "s", "raw"))
    pairs = f"SELECT *, {before} FROM ({rows}) WINDOW same AS (PARTITION BY rp, place, it, n, ord ORDER BY attempt)"
    again = f"SELECT * FROM ({pairs}) WHERE attempt_ IS NOT NULL AND attempt_ < attempt AND flags & {frames.VOLATILE} = 0"
    run_sql = places.connection.execute
    counted = run_sql(f"SELECT count(*), count(*) FILTER (WHERE value IS DISTINCT FROM value_) FROM ({again})").fetchone() or (0, 0)
    found = Overlap(counted[0] - counted[1], counted[1])
    if found.differing:
        first = run_sql(
            "SELECT n, rp, place, it, attempt, type_, f_, i_, s_, raw_, type, f, i, s, raw "
            f"FROM ({again}) WHERE value IS DISTINCT FROM value_ ORDER BY rp, attempt, us LIMIT {SHOWN}"
        ).fetchall()
        found.different = [
            Difference(names[n], path_of(places, place, it), places.processes[rp][1], attempt, gather(*v[:5]), gather(*v[5:]))
            for n, rp, place, it, attempt, *v in first
        ]
    found.only_before = _not_reached(places, rows, mine, _origins(facts))
    return found


def _not_reached(places: Places, rows: str, mine: list[int], origins: dict[int, dict[str, Any]]) -> int:
    """Rows behind the checkpoint that the last attempt began from, which it did not come to."""
    total = 0
    for rp in mine:
        last = max(places.attempts[rp])
        origin = origins.get(last) or {}
        source = origin.get("from") or {}
        begun, taken = source.get("attempt", 0), (origin.get("taken_at") or {}).get(places.processes[rp][1], 0)
        if not isinstance(begun, int) or not isinstance(taken, int):
            continue
        behind = f"attempt < {last} AND (attempt > {begun} OR (attempt = {begun} AND us > {taken}))"
        query = (
            f"SELECT count(DISTINCT (place, it, n, ord)) FROM ({rows}) AS early WHERE rp = {rp} AND {behind} AND NOT EXISTS "
            f"(SELECT 1 FROM ({rows}) AS late WHERE late.rp = {rp} AND late.attempt = {last} AND late.place = early.place "
            "AND late.it = early.it AND late.n = early.n AND late.ord = early.ord)"
        )
        total += (places.connection.execute(query).fetchone() or (0,))[0]
    return total


def path_of(places: Places, place: int, iteration: int) -> str:
    """Where a row is, in people's words: `epoch=3/step=120`."""
    loops = {number: name for name, number in places.loops.items()}
    run = places.connection.execute
    pieces: list[str] = []
    at: tuple[int, int] | None = (place, iteration)
    while at is not None:
        row = run("SELECT loop, parent_place, parent_it, affine, first, step, parent FROM place WHERE place = ?", [at[0]]).fetchone()
        if row is None or row[6] is None:  # the root
            break
        loop, parent, parent_it, affine, first, step, _ = row
        if affine:
            pieces.append(f"{loops.get(loop)}={first + at[1] * step}")
        else:
            value = run(f"SELECT type, f, i, s, raw FROM {places.called()} WHERE place = ? AND it = ?", list(at)).fetchone()
            pieces.append(f"{loops.get(loop)}={gather(*value)}" if value else f"{loops.get(loop)}#{at[1]}")
        at = (parent, parent_it) if parent is not None else None
    return "/".join(reversed(pieces))
