"""What earlier attempts of a run left in its journals: how it stands, what it opened, which source it ran.

For the training process, which must not reach the catalog: reads journal parts directly, and of those only what it must.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.errors import Damaged
from rearview.model import ProcessIdentity, RunId, VersionId
from rearview.record.files import input_hashes
from rearview.store import frames, processes, runs
from rearview.store.journal import PartName, parts_of
from rearview.store.layout import Store

SUPERVISOR = "supervisor"
_HASHED_BYTES = 4 << 30
"""Of inputs that were written since in their size, so much is read before a resume: a person waits."""


@dataclass(slots=True)
class Past:
    """One run, as far as going on with it needs to know."""

    run: RunId
    facts: dict[str, Any]
    """`run.json`."""
    status: str
    """`running`, `finished`, `failed` or `killed`."""
    attempt: int
    """The last one."""
    heard_wall: float | None
    """Its last sign of life."""
    version: VersionId | None = None
    opened: list[list[Any]] = field(default_factory=list)
    """Files opened for writing: path, mode, size before, process, and true for one that is not the run's output."""
    removed: list[str] = field(default_factory=list)
    """What was deleted before the loop."""
    made: list[str] = field(default_factory=list)
    """Folders that the run made."""
    read_back: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Files that it wrote and read -> when first and when last, by the clock on the wall."""
    inputs: list[list[Any]] = field(default_factory=list)
    """Files opened: path, `r` or `w`, size, mtime in ns, inode, and the hash of the content where there is one."""
    made_in_loop: dict[str, float] = field(default_factory=dict)
    """Folders that were made while the main loop ran -> when, by the clock on the wall."""
    missed: set[str] = field(default_factory=set)
    """Checkpoints that an attempt did not come to, which began with them: names of manifests."""
    otherwise: set[str] = field(default_factory=set)
    """Those of them whose state did not come back as it was."""
    folders: list[list[Any]] = field(default_factory=list)
    """Folders listed: path, number of names, their digest, mtime in ns, inode."""
    environment: dict[str, Any] = field(default_factory=dict)
    """What it ran in, as far as it came to say so."""


def is_main(writer: str) -> bool:
    """Whether a journal is that of a rank, and not of a process below it or of the supervisor."""
    return "." not in writer and writer != SUPERVISOR


def facts_in(path: Path, *kinds: str) -> Iterator[dict[str, Any]]:
    """The facts of some kinds in a journal part, in order. A part in which no such word occurs is not walked through."""
    try:
        data = path.read_bytes()
    except OSError:
        return
    if not any(kind.encode() in data for kind in kinds):
        return
    for _, body in frames.walk(data, frames.Reading()):
        if body[0] == frames.FACT:
            try:
                fact = frames.read_fact(body)
            except Damaged:
                continue
            if fact["fact"] in kinds:
                yield fact


def status_of(store: Store, run: RunId) -> tuple[str, int, float | None]:
    """How a run stands, its last attempt, and its last sign of life. Reads the last part of each rank."""
    mains = [(name, path) for name, path in parts_of(store.run(run)) if is_main(name.writer)]
    attempt = max((name.attempt for name, _ in mains), default=0)
    last: dict[str, Path] = {name.writer: path for name, path in mains if name.attempt == attempt}  # in order: the last part stays
    standing = [_standing(path) for path in last.values()]
    heard = max((wall for _, wall in standing if wall is not None), default=None)
    for how in ("running", "failed", "killed"):
        if any(one == how for one, _ in standing):
            return how, attempt, heard
    return ("finished" if standing else "killed"), attempt, heard


def _standing(path: Path) -> tuple[str, float | None]:
    """How one rank stands by the last part of its journal, and when it was last heard of."""
    hello: dict[str, Any] = {}
    end: dict[str, Any] | None = None
    walls: list[float] = []
    at_us = 0
    for _, body in frames.walk(path.read_bytes(), frames.Reading()):
        if body[0] == frames.RECORD:
            at_us = max(at_us, frames.RECORD_HEAD.unpack_from(body)[6])
        elif body[0] == frames.FACT:
            fact = frames.read_fact(body)
            hello = fact if fact["fact"] == "hello" else hello
            end = fact if fact["fact"] == "end" else end
            if fact["fact"] in ("tick", "end") and isinstance(fact.get("wall"), (int, float)):
                walls.append(float(fact["wall"]))
    if isinstance(hello.get("wall"), (int, float)):
        walls.append(hello["wall"] + at_us / 1e6)
    heard = max(walls, default=None)
    if end is not None:
        return ("failed" if end.get("how") == "failed" else "finished"), heard
    try:
        who = hello["process"]
        identity = ProcessIdentity(str(who["host"]), str(who["boot_id"]), int(who["pid"]), float(who["started"]))
    except (KeyError, TypeError, ValueError):
        return "killed", heard
    return ("running" if processes.lives(identity, heard) else "killed"), heard


def look(store: Store, run: RunId) -> Past:
    """Everything about a run that is to be gone on with."""
    status, attempt, heard = status_of(store, run)
    facts = runs.read_run(store, run)
    found = Past(run, facts, status, attempt, heard, facts.get("version"), environment=dict(facts.get("environment") or {}))
    for name, path in sorted(parts_of(store.run(run)), key=_in_order):
        if not is_main(name.writer):
            continue
        for fact in facts_in(path, "version", "outputs", "inputs", "environment", "missed"):
            _take(found, fact, name.writer)
    return found


def _take(found: Past, fact: dict[str, Any], writer: str) -> None:
    kind = fact.pop("fact")
    if kind == "version":
        found.version = fact.get("version")
    elif kind == "inputs":
        found.inputs += [list(one) for one in fact.get("files") or ()]
        found.folders += [list(one) for one in fact.get("folders") or ()]
    elif kind == "environment":
        found.environment.update(fact)
    elif kind == "missed":
        found.missed.add(str(fact.get("manifest")))
        if fact.get("otherwise"):
            found.otherwise.add(str(fact.get("manifest")))
    else:
        found.opened += [[*one[:3], writer, *one[3:4]] for one in fact.get("files") or () if len(one) >= 3]
        found.removed += [str(one) for one in fact.get("removed") or ()]
        found.made += [str(one) for one in fact.get("made") or ()]
        found.made_in_loop |= {str(path): float(wall) for path, wall in fact.get("made_in_loop") or ()}
        for path, first, last in fact.get("read") or ():
            before = found.read_back.get(str(path), (first, last))
            found.read_back[str(path)] = (min(before[0], first), max(before[1], last))


def changed_inputs(found: Past, project: Path, others: Container[str] = ()) -> list[str]:
    """Files that the run only read and that are not as they were, or gone. Without `others`, of which the version tells it.

    The content decides where the size is the same and the run has hashed it, as far as that is done soon.
    """
    seen: dict[str, list[Any]] = {}
    for row in found.inputs:
        if len(row) >= 4:
            before = seen.get(str(row[0]), row)
            if row[1] == "r" == before[1] and len(row) <= 5 < len(before) and row[:5] == before[:5]:
                continue  # opened again, as it was: the hash is its still
            seen[str(row[0])] = row if row[1] != "r" or before[1] == "r" else before
    own = {str(row[0]) for row in found.opened}
    changed, left_bytes = [], _HASHED_BYTES
    for path, (_, mode, size, mtime_ns, *more) in seen.items():
        if mode != "r" or size is None or path in own or path in others:
            continue
        full = os.path.join(project, path)
        try:
            facts = os.stat(full)
        except OSError:
            changed.append(path)
            continue
        if facts.st_size == size and facts.st_mtime_ns != mtime_ns and len(more) > 1 and size <= left_bytes:
            left_bytes -= size
            if input_hashes.hash_of(full) == more[1]:
                continue
        if (facts.st_size, facts.st_mtime_ns) != (size, mtime_ns):
            changed.append(path)
    return changed


def _in_order(part: tuple[PartName, Path]) -> tuple[int, str, int]:
    return part[0].attempt, part[0].writer, part[0].part
