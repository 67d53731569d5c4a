"""What whoever resumes a run agrees with the process that goes on with it: which attempt, from which checkpoint, which files.

The agreement of an attempt lies in its folder (`runs/<run>/aside/<name>/`), where every rank of a launch reads the same one;
the variable REARVIEW_RESUME says where. Knows nothing of how a state is put back.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.errors import CheckpointError, Damaged, UsageError
from rearview.model import ProcessIdentity, RunId
from rearview.store import atomic, processes
from rearview.store.journal import parts_of
from rearview.store.layout import Store

VARIABLE = "REARVIEW_RESUME"
FILE = "agreement.json"
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Handshake:
    """How a process goes on with a run."""

    store: Path
    run: RunId
    """The run whose checkpoint is restored."""
    attempt: int
    """The attempt of that run which begins now; 0 for a new run that names it as its parent."""
    checkpoint: dict[str, str] = field(default_factory=dict)
    """Process number -> file name of its manifest. Empty: from the beginning."""
    aside: Path | None = None
    """The folder with copies of the run's output files."""
    files: list[dict[str, Any]] = field(default_factory=list)
    """How each output file is brought back (`record/resume/aside`)."""
    origin: dict[str, Any] = field(default_factory=dict)
    """Where the attempt begins, for the fact `resumed`: attempt, number, part, path, place (in words), taken_at, lost_s; and `anyway`, if
    its state is gone on with however it comes back."""

    @property
    def is_new_run(self) -> bool:
        """The edited code goes on: a run of its own, with the same state."""
        return self.attempt == 0

    @property
    def anyway(self) -> bool:
        """The state is gone on with even where it does not come back exactly."""
        return bool(self.origin.get("anyway"))

    def facts(self) -> dict[str, Any]:
        """What the journal of the attempt says about its beginning: the fact `resumed`."""
        return {"run": self.run, "attempt": self.attempt, "checkpoint": dict(self.checkpoint), **self.origin}

    def text(self) -> str:
        """The value of REARVIEW_RESUME. Files are left to the folder: there may be too many for a variable."""
        aside = str(self.aside) if self.aside else None
        told = {"store": str(self.store), "run": self.run, "attempt": self.attempt, "checkpoint": self.checkpoint, "aside": aside}
        return json.dumps(told)


def write(store: Store, shake: Handshake) -> None:
    """Lay the agreement down where the process, and every other rank, finds it."""
    assert shake.aside is not None
    facts = {
        "run": shake.run, "attempt": shake.attempt, "checkpoint": shake.checkpoint, "files": shake.files, "origin": shake.origin,
    }  # fmt: skip
    atomic.publish(shake.aside / FILE, json.dumps(facts, indent=1).encode() + b"\n", tmp=store.tmp)


def read(store: Store, aside: Path) -> Handshake:
    """The agreement that lies in a folder."""
    try:
        facts = json.loads((aside / FILE).read_bytes())
        return Handshake(
            store.root, RunId(str(facts["run"])), int(facts["attempt"]), dict(facts["checkpoint"]), aside, list(facts["files"]),
            dict(facts["origin"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as problem:
        raise Damaged(f"{aside / FILE} is damaged: resume the run once more") from problem


def take(environ: MutableMapping[str, str]) -> Handshake | None:
    """What this process is told, and its children are not: the variable goes. None if it is told nothing."""
    text = environ.pop(VARIABLE, None)
    if not text:
        return None
    try:
        told = json.loads(text)
        store, aside = Store(Path(told["store"])), told.get("aside")
        known = Handshake(store.root, RunId(str(told["run"])), int(told["attempt"]), dict(told["checkpoint"]))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(f"{VARIABLE} is what `rearview resume` tells the program it starts, and this text is not: unset it") from problem
    return known if aside is None else read(store, Path(aside))


# -- which attempt ------------------------------------------------------------------------------------------------------


MARK = ".attempt"
"""Of the file that says who took an attempt."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A process's turn to go on with a run."""

    attempt: int
    aside: Path
    first: bool
    """Nobody else of this launch was here before: this process decides, the others follow its agreement."""


def last_attempt(store: Store, run: RunId) -> int:
    """The number of the last attempt that has written anything."""
    return max((name.attempt for name, _ in parts_of(store.run(run))), default=0)


def claim(store: Store, run: RunId, launch: str | None, *, new_run: bool = False) -> Turn:
    """Take the next attempt of a run, or join the one that another rank of this launch took. Two resumes at once exclude each other."""
    begun = None if new_run else joined(store, run, launch)
    if begun is not None:
        return begun
    attempt = last_attempt(store, run) + 1
    while True:
        name = f"new-{launch or os.urandom(4).hex()}" if new_run else f"a{attempt}"
        who = processes.identity()
        facts = {"launch": launch, "host": who.host, "boot_id": who.boot_id, "pid": who.pid, "started": who.started}
        mark = store.tmp / f"{run}-{name}{MARK}"
        mark.parent.mkdir(parents=True, exist_ok=True)
        turn = Turn(0 if new_run else attempt, store.run(run) / "aside" / name, True)
        if atomic.publish(mark, json.dumps(facts).encode(), tmp=store.tmp, durable=False, replace=False):
            return turn
        theirs = claimed_by(mark)
        if launch is not None and theirs.get("launch") == launch:
            return Turn(turn.attempt, turn.aside, False)
        if lives(theirs, mark):
            raise UsageError(
                f"run {run} is being resumed already, by process {theirs.get('pid')} on {theirs.get('host')}: wait for it, or end it first"
            )
        attempt += 1  # whoever took it died before it began


def joined(store: Store, run: RunId, launch: str | None) -> Turn | None:
    """The attempt that another rank of this launch has begun already: this one comes late. None if there is none."""
    attempt = last_attempt(store, run)
    mark = store.tmp / f"{run}-a{attempt}{MARK}"
    if launch is None or claimed_by(mark).get("launch") != launch:
        return None
    return Turn(attempt, store.run(run) / "aside" / f"a{attempt}", False)


def claimed_by(mark: Path) -> Mapping[str, Any]:
    """Who took an attempt."""
    try:
        facts = json.loads(mark.read_bytes())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def lives(facts: Mapping[str, Any], mark: Path) -> bool:
    """Whether the process that took an attempt is alive."""
    try:
        who = ProcessIdentity(str(facts["host"]), str(facts["boot_id"]), int(facts["pid"]), float(facts["started"]))
        return processes.lives(who, mark.stat().st_mtime)
    except (OSError, KeyError, TypeError, ValueError):
        return False


def follow(store: Store, turn: Turn) -> Handshake:
    """The agreement that the first rank of this launch makes, once it is there."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (turn.aside / FILE).exists():
        if time.monotonic() > deadline:
            raise CheckpointError(f"the rank that took {turn.aside.name} did not say where to go on: end the other ranks and resume again")
        time.sleep(0.05)
    return read(store, turn.aside)
