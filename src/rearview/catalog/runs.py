"""What a list shows of each run, put together from `run.json` and the summaries of its parts. No SQL, no journals.

Also how people name a run: an id prefix, a name, `last`, `last~2`.
"""

from __future__ import annotations

import datetime as dt
import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rearview.catalog.cells import present
from rearview.catalog.status import Alive, MainProcess, Status, decide
from rearview.errors import Damaged, NoSuchRun
from rearview.model import MAIN_PROCESS, ProcessIdentity, RunId, VersionId
from rearview.store.encoding import decode
from rearview.store.journal import PartName
from rearview.store.layout import Store

SUPERVISOR = "supervisor"
RUN_KEYS = (
    "name", "tags", "notes", "projid", "tstamp", "filename", "version", "how", "place", "parent", "argv", "module", "git",
)  # fmt: skip
"""What lists need of `run.json`."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run as a list shows it."""

    run: RunId
    name: str | None
    tags: list[str]
    notes: str | None
    projid: str
    tstamp: dt.datetime | None
    """The start: UTC, aware. None where `run.json` cannot be read."""
    filename: str
    version: VersionId | None
    how: str
    """`script`, `module`, `command`, `stdin`, `notebook` or `interactive`."""
    status: str
    """`running`, `finished`, `failed` or `killed`."""
    detail: str
    """The exception's type, a signal's name, `exit 3`, or nothing."""
    duration_s: float | None
    args: dict[str, object]
    last: dict[str, object]
    """The last value of each name the main process logged."""
    records: int
    size_bytes: int
    """Journals and `run.json`."""
    place: int
    parent: str | None
    argv: list[str] = field(default_factory=list)
    given: frozenset[str] = frozenset()
    """The arguments that were given, not left at their default."""
    lost: int = 0
    """Records that could not be written: the disk was full or failed."""
    attempts: int = 1
    """How often it was started: a resume adds one."""
    git: dict[str, object] | None = None
    """`head`, `branch`, `dirty` of the user's repository when it began."""


Parts = Sequence[tuple[PartName, dict[str, Any]]]
"""The parts of one run in order, each with its summary as `segments.part_entry` makes it."""


def process_order(number: str) -> tuple[Any, ...]:
    """Process numbers in the order of the ranks and forks they name: 0, 0.1, 0.2, 0.s1, 1, 2, 10."""
    fields = []
    for text in number.split("."):
        digits = re.match(r"s?(\d+)", text)
        fields.append((text.startswith("s"), int(digits[1]) if digits else -1, text))
    return tuple(fields)


def listed_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """What lists need of `run.json`, each of the kind it should have whatever JSON stands there."""
    taken: dict[str, Any] = {key: _text(facts.get(key)) for key in RUN_KEYS}
    for key in ("tags", "argv"):
        given = facts.get(key)
        listed = given if isinstance(given, list) else [] if given is None else [given]
        taken[key] = [_text(item) or "" for item in listed]
    parent, git, place = facts.get("parent"), facts.get("git"), facts.get("place")
    taken["parent"] = {"run": _text(parent.get("run"))} if isinstance(parent, dict) else None
    taken["git"] = git if isinstance(git, dict) else None
    taken["place"] = place if isinstance(place, int) else 0
    return taken


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def tstamp_of(text: object) -> dt.datetime | None:
    """The start of a run as an aware UTC time; None if nothing says it."""
    try:
        when = dt.datetime.fromisoformat(str(text))
        return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


def parse_tstamp(text: object) -> dt.datetime:
    """The start of a run for putting runs in order: one whose start is unknown comes before all others."""
    return tstamp_of(text) or dt.datetime.fromtimestamp(0, dt.UTC)


def describe(store: Store, run: RunId, facts: dict[str, Any], parts: Parts, alive: Alive, now_wall: float) -> RunInfo:
    """A run's line in the list."""
    status = status_of(parts, alive, now_wall)
    versions = [entry["facts"]["version"] for _, entry in parts if "version" in entry["facts"]]
    args = args_of(parts)
    parent = facts.get("parent")
    return RunInfo(
        run=run, name=facts.get("name"), tags=facts.get("tags") or [], notes=facts.get("notes"),
        projid=str(facts.get("projid") or ""), tstamp=tstamp_of(facts.get("tstamp")), filename=str(facts.get("filename") or ""),
        version=versions[-1].get("version") if versions else facts.get("version"), how=str(facts.get("how") or ""),
        status=status.status, detail=status.detail, duration_s=status.duration_s,
        args={name: present(store, _value(data)) for name, (data, _) in args.items()},
        last={name: present(store, _value(data)) for name, data in _last_of(parts).items()},
        records=sum(entry["records"] for _, entry in parts),
        size_bytes=sum(entry["size"] for _, entry in parts) + int(facts.get("size_bytes") or 0),
        place=facts.get("place") or 0, parent=parent["run"] if parent else None,
        argv=facts.get("argv") or [], given=frozenset(name for name, (_, given) in args.items() if given),
        lost=sum(_lost(entry["facts"].get("end") or {}) for _, entry in parts),
        attempts=len({name.attempt for name, _ in parts}) or 1, git=facts.get("git"),
    )  # fmt: skip


def _lost(end: dict[str, Any]) -> int:
    lost = end.get("lost")
    return lost if isinstance(lost, int) and lost > 0 else 0


def status_of(parts: Parts, alive: Alive, now_wall: float) -> Status:
    """How the run stands, by its ranks' main processes in its last attempt. Time between attempts does not count."""
    mains: dict[int, dict[str, list[dict[str, Any]]]] = {}
    exits: dict[int, list[dict[str, Any]]] = {}
    for name, entry in parts:
        if name.writer == SUPERVISOR:
            if "exit" in entry["facts"]:
                exits.setdefault(name.attempt, []).append(entry["facts"]["exit"])
        elif "." not in name.writer:
            mains.setdefault(name.attempt, {}).setdefault(name.writer, []).append(entry)
    last = max(mains, default=1)
    found = decide([_main(theirs) for theirs in mains.get(last, {}).values()], exits.get(last, []), alive, now_wall)
    earlier = [
        decide([_main(theirs) for theirs in writers.values()], (), _nobody, now_wall).duration_s
        for attempt, writers in mains.items()
        if attempt < last
    ]
    before = sum(spent for spent in earlier if spent is not None)
    return found if found.duration_s is None else Status(found.status, found.detail, found.duration_s + before)


def _nobody(_process: ProcessIdentity, _heard: float | None) -> bool:
    """Of an attempt that another one followed, nobody lives."""
    return False


def _main(entries: list[dict[str, Any]]) -> MainProcess:
    hello = next((_hello(entry) for entry in reversed(entries) if _hello(entry)), {})
    heard = [_number(hello.get("wall"))]
    if heard[0] is not None:
        heard.append(heard[0] + max(entry["at"] for entry in entries) / 1e6)
    heard += [_number(entry["facts"].get("tick", {}).get("wall")) for entry in entries]
    ends = [entry["facts"]["end"] for entry in entries if "end" in entry["facts"]]
    last_heard = max((wall for wall in heard if wall is not None), default=None)
    first_hello = next((_hello(entry) for entry in entries if _hello(entry)), {})
    return MainProcess(_identity(hello), _number(first_hello.get("wall")), ends[-1] if ends else None, last_heard)


def _hello(entry: dict[str, Any]) -> dict[str, Any]:
    return entry["facts"].get("hello") or {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _identity(hello: dict[str, Any]) -> ProcessIdentity | None:
    process: Any = hello.get("process")
    try:
        return ProcessIdentity(str(process["host"]), str(process["boot_id"]), int(process["pid"]), float(process["started"]))
    except (KeyError, TypeError, ValueError):
        return None


def args_of(parts: Parts) -> dict[str, tuple[bytes, bool]]:
    """Each argument's encoded value and whether it was given: by the lowest process that asked for it."""
    found: dict[str, tuple[bytes, bool]] = {}
    theirs = args_by_process(parts)
    for writer in sorted(theirs, key=process_order):
        for arg, value in theirs[writer].items():
            found.setdefault(arg, value)
    return found


def args_by_process(parts: Parts) -> dict[str, dict[str, tuple[bytes, bool]]]:
    """What each process recorded of each argument: the first call of the last attempt that made one."""
    found: dict[str, dict[str, tuple[bytes, bool]]] = {}
    attempts: dict[tuple[str, str], int] = {}
    for name, entry in parts:
        for arg, (data, given) in entry["args"].items():
            if attempts.get((name.writer, arg)) != name.attempt:
                attempts[name.writer, arg] = name.attempt
                found.setdefault(name.writer, {})[arg] = (bytes.fromhex(data), given)
    return found


def _last_of(parts: Parts) -> dict[str, bytes]:
    mains = [name.writer for name, _ in parts if name.writer != SUPERVISOR]
    if not mains:
        return {}
    main = MAIN_PROCESS if MAIN_PROCESS in mains else min(mains, key=process_order)
    last: dict[str, bytes] = {}
    for name, entry in parts:
        if name.writer == main:
            last.update({metric: bytes.fromhex(data) for metric, data in entry["last"].items()})
    return last


def _value(data: bytes) -> object:
    try:
        return decode(data)
    except Damaged:
        return None


_LAST = re.compile(r"last(?:~(\d+))?")


def resolve(ref: str, known: Iterable[tuple[RunId, str | None, dt.datetime]]) -> RunId:
    """The run that a person means: an id or its prefix, a name (the newest of that name), `last`, `last~2`."""
    runs = sorted(known, key=lambda item: (item[2], item[0]))
    counted = _LAST.fullmatch(ref)
    if counted:
        back = int(counted[1] or 0)
        if back < len(runs):
            return runs[-1 - back][0]
        raise NoSuchRun(f"there is no run {ref!r}: the store has {len(runs)} run{'s' * (len(runs) != 1)}; `rearview runs` lists them")
    named = [run for run, name, _ in runs if name == ref]
    if named:
        return named[-1]
    prefixed = [run for run, _, _ in runs if ref and run.startswith(ref)]
    if ref in prefixed or len(prefixed) == 1:
        return RunId(ref) if ref in prefixed else prefixed[0]
    if prefixed:
        shown = ", ".join(prefixed[:5]) + (" ..." if len(prefixed) > 5 else "")
        raise NoSuchRun(f"{ref!r} is the beginning of {len(prefixed)} runs ({shown}): give more characters")
    near = difflib.get_close_matches(ref, [*(name for _, name, _ in runs if name), *(run for run, _, _ in runs)], 3)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise NoSuchRun(f"no run has the id or name {ref!r}: {hint}`rearview runs` lists them")
