"""A unit: one stretch of a run that one worker process runs again, as a file that the conductor writes and the worker reads.

Knows the file's fields; must not know how they were decided or what the worker does with them. Imports nothing heavy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rearview.errors import Damaged, NewerFormat
from rearview.model import RunId, VersionId
from rearview.store import atomic

SCHEMA = "rearview.unit/1"
VARIABLE = "REARVIEW_UNIT"
"""Says to a worker where its unit file is."""
IN_REPLAY = "REARVIEW_REPLAY"
"""Set to 1 for the program: it may leave out mails and uploads."""
FILE = "unit.json"

Place = tuple[int, int]
"""Which main block of the run, in program order from 0, and which of its iterations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one worker runs."""

    replay: str
    """The replay it is part of."""
    number: int
    run: RunId
    store: str
    """The root of the store that has the run."""
    project: str
    version: VersionId
    """The recorded source with the probes in it."""
    recorded_version: VersionId
    scratch: str
    """The unit's own folder: `store/` in it takes what the worker logs."""
    start: str | None = None
    """The manifest whose state is put back before anything counts; None: from the program's beginning."""
    first: Place | None = None
    last: Place | None = None
    """The main iterations whose records count, both included. None: no iterations at all."""
    stop: str | None = None
    """The manifest of a place inside the nested loop of the last iteration: the unit ends there. None: with the iteration."""
    to_end: bool = False
    """Run on behind the last iteration, to the end of the program."""
    prefix: bool = False
    """What is logged before the first main loop counts."""
    skip: bool = True
    """Nested blocks may be put back instead of run."""
    runs_inside: tuple[str, ...] = ()
    """Nested loops that are run whatever is kept, because a probe is in them."""
    lost: tuple[str, ...] = ()
    """Manifests of end states that are not put back: the program itself cannot go on from them."""
    until: dict[str, Any] | None = None
    """End at this record, the last one of a run that was killed: `path` of [loop, occurrence, iteration], `name`, `ordinal`."""
    probes: tuple[dict[str, Any], ...] = ()
    """Each with `file`, `line`, `names` (None for one that is computed) and `text`."""
    isolate: bool = False
    """Put generators and touched state back after each probe."""
    threads: int | None = None
    device: str | None = None
    """`cpu`: what was on a GPU goes there."""


def write(path: Path, unit: Unit) -> None:
    """Lay a unit down for its worker: whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps({"schema": SCHEMA, **asdict(unit)}, indent=1).encode() + b"\n"
    atomic.publish(path, data, tmp=path.parent, durable=False)


def read(path: Path) -> Unit:
    """The unit in a file. `NewerFormat` for one of another format, `Damaged` for one that cannot be understood."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise Damaged(f"the unit file {path} cannot be read ({problem}): start the replay again") from problem
    return of_facts(facts, str(path))


def of_facts(facts: object, where: str = "a unit") -> Unit:
    """A unit of what its file says."""
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        said = facts.get("schema") if isinstance(facts, dict) else None
        raise NewerFormat(f"{where} is of format {said!r}, and this rearview reads {SCHEMA}: start the replay again")
    known = {one.name for one in fields(Unit)}
    try:
        return Unit(**{name: _plain(name, value) for name, value in facts.items() if name in known})
    except (TypeError, ValueError) as problem:
        raise Damaged(f"{where} is damaged ({problem}): start the replay again") from problem


def _plain(name: str, value: Any) -> Any:
    """A field as the class has it, where JSON has something else."""
    if name in ("first", "last") and value is not None:
        block, iteration = value
        return int(block), int(iteration)
    if name in ("runs_inside", "lost"):
        return tuple(str(one) for one in value)
    if name == "probes":
        return tuple(dict(probe) if isinstance(probe, Mapping) else {} for probe in value)
    return value
