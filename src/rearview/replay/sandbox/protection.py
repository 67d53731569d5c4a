"""What a replay will be protected by, told before it runs: the sandbox is entered by a child that does nothing and ends.

For the plan. The worker's own answer (`sandbox.enter`) is what counts; this is the same question asked earlier.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rearview.replay.sandbox import entering as sandbox
from rearview.replay.sandbox import scratch as sandbox_scratch
from rearview.replay.sandbox.entering import Protection, Spec
from rearview.store.layout import Store

OVERLAY, LANDLOCK, COPIES = sandbox.OVERLAY, sandbox.LANDLOCK, sandbox.COPIES


class Forecasts:
    """Forecasts of one look at many runs: those that wrote the same files in the same folder are asked once."""

    def __init__(self, store: Store, project: Path) -> None:
        self._store, self._project = store, project
        self._known: dict[tuple[Path, frozenset[str]], Protection] = {}

    def of(self, cwd: Path, written: Iterable[str]) -> Protection:
        """For a run in a folder that wrote some files. One that is not there any more needs no protection."""
        there = frozenset(path for path in written if os.path.lexists(path))
        if (cwd, there) not in self._known:
            self._known[cwd, there] = forecast(self._store, self._project, cwd, sorted(there))
        return self._known[cwd, there]


def forecast(store: Store, project: Path, cwd: Path, written: Iterable[str] = ()) -> Protection:
    """What keeps the user's files as they are in a replay of a run that wrote these absolute paths."""
    folder = sandbox_scratch.make(store, f"forecast-{os.urandom(6).hex()}")
    try:
        spec = Spec(project, folder / "unit-0", cwd, tuple(written), store.root)
        return _ask(spec)
    finally:
        sandbox_scratch.remove(folder)


def _ask(spec: Spec) -> Protection:
    hear, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads are not there in the child, which uses none
        child = os.fork()
    if child == 0:
        _answer(spec, hear, tell)
    os.close(tell)
    with open(hear, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    try:
        return _read(json.loads(data))
    except ValueError:
        return Protection(COPIES, spec.cwd, unprotected=["what protects the user's files could not be found out"])


def _answer(spec: Spec, hear: int, tell: int) -> None:
    """In the child. Never returns."""
    try:
        os.close(hear)
        found = sandbox.enter(spec, dry=True)
        with open(tell, "wb") as answer:
            answer.write(json.dumps(asdict(found), default=str).encode())
    except OSError as problem:
        found = Protection(COPIES, spec.cwd, unprotected=[f"no protected folder could be made: {problem.strerror or problem}"])
        with open(tell, "wb") as answer:
            answer.write(json.dumps(asdict(found), default=str).encode())
    finally:
        os._exit(0)


def _read(facts: dict[str, Any]) -> Protection:
    work = facts.pop("work")
    return Protection(**{**facts, "cwd": Path(facts["cwd"]), "work": Path(work) if work else None})


def sentences(found: Protection) -> list[str]:
    """For the plan: what is protected, then what is not."""
    return [*found.protected, *(f"not protected: {one}" for one in found.unprotected)]
