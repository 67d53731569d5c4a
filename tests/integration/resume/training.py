"""Trainings that tests start, kill and resume: programs of `tests/programs` in a project of their own, and what they came to."""

from __future__ import annotations

import atexit
import functools
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.catalog.catalog import Catalog
from rearview.record.resume import handshake, past, restore_points, resuming
from rearview.record.resume.restore_points import RestorePoint
from rearview.store import layout, runs
from rearview.store.layout import Store
from tests import forked
from tests.conftest import environment

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"
QUIET = {"REARVIEW_QUIET": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
EACH = {"REARVIEW_EVERY": "1"}
"""A checkpoint at the end of each outer iteration."""
INSIDE = {**EACH, "REARVIEW_RISK": "0.000001"}
"""And inside the nested loop, as often as the one before is written."""
WAITING = """
from rearview.record.checkpoints.materialize import Materializer
Materializer.busy = property(lambda self: not self.wait())
"""
"""Code that a program begins with: a checkpoint that is due waits for the one before instead of being left out."""
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Done:
    """How a program ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """What it printed."""
        return self.stdout.splitlines()

    @property
    def digest(self) -> str:
        """What its state came to: the last line."""
        assert self.code == 0, f"ended with {self.code}\n{self.stdout[-2000:]}\n--- stderr\n{self.stderr}"
        assert self.lines and self.lines[-1].startswith("digest "), self.stdout[-2000:] + self.stderr
        return self.lines[-1].removeprefix("digest ")


class Child:
    """A program that is running."""

    def __init__(self, folder: Path, pid: int, wait: Any) -> None:
        self.pid = pid
        self._folder = folder
        self._wait = wait

    @property
    def stdout(self) -> str:
        return (self._folder / "stdout").read_text()

    def kill_after(self, lines: int, signal_number: int = signal.SIGKILL, more_s: float = 0.0) -> Done:
        """Send a signal to the program and all it started, once it has printed so many lines and a moment has gone by."""
        deadline = time.monotonic() + PATIENCE_S
        while self.stdout.count("\n") < lines and time.monotonic() < deadline and _lives(self.pid):
            time.sleep(0.001)
        time.sleep(more_s)
        try:
            os.killpg(self.pid, signal_number)
        except ProcessLookupError:
            pass  # it was quicker
        return self.wait()

    def wait(self) -> Done:
        code = self._wait()
        try:
            os.killpg(self.pid, signal.SIGKILL)  # workers that outlive a killed program
        except (ProcessLookupError, PermissionError):
            pass
        deadline = time.monotonic() + PATIENCE_S
        while _group_lives(self.pid) and time.monotonic() < deadline:  # a run whose process still ends is a running one
            time.sleep(0.001)
        return Done(code, self.stdout, (self._folder / "stderr").read_text())


def _lives(pid: int) -> bool:
    return _stat(pid)[0] not in "XZ"


def _group_lives(group: int) -> bool:
    found = [_stat(int(one.name)) for one in Path("/proc").iterdir() if one.name.isdigit()]
    return any(state not in "XZ" and its_group == group for state, its_group in found)


def _stat(pid: int) -> tuple[str, int]:
    """The state of a process, and its group."""
    try:
        state, _, group, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return state, int(group)


class Nursery(forked.Nursery):
    """Forks programs of a project from a process that has imported torch."""

    def __init__(self) -> None:
        super().__init__(environment(QUIET), forked.TORCH)

    def start(self, project: Path, program: str, *args: str, env: Mapping[str, str] | None = None, before: str = "") -> Child:
        """Run a program of the project; `before` is code of the test that runs first, in the same process."""
        return self._start(project, [str(project / program), *args], env, before)

    def command(self, project: Path, *words: str, env: Mapping[str, str] | None = None) -> Child:
        """`rearview WORDS`; the program that it starts is forked too."""
        return self._start(project, ["-m", "rearview", *words], env, "")

    def _start(self, project: Path, words: Sequence[str], env: Mapping[str, str] | None, before: str) -> Child:
        address, outputs = self.address, Path(tempfile.mkdtemp(dir=self.folder))
        with open(os.devnull, "rb") as null, open(outputs / "stdout", "wb") as out, open(outputs / "stderr", "wb") as err:
            streams = (null.fileno(), out.fileno(), err.fileno())
            child = forked.fork(address, words, environment({**QUIET, **(env or {})}), project, streams, before=before)
        return Child(outputs, child.pid, child.wait)

    def run(self, project: Path, program: str, *args: str, env: Mapping[str, str] | None = None, before: str = "") -> Done:
        """The same, to its end."""
        return self.start(project, program, *args, env=env, before=before).wait()


@functools.cache
def with_torch() -> Nursery:
    """One for all tests of this process."""
    made = Nursery()
    atexit.register(made.close)
    return made


# -- projects ------------------------------------------------------------------------------------------------------------


def project_in(home: Path, name: str) -> Path:
    """A project with all the programs in it."""
    folder = home / name
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, folder)
    return folder


def store_of(project: Path) -> Store:
    return layout.open_store(project / layout.FOLDER)


def table(project: Path, *names: str) -> list[dict[str, Any]]:
    """The table of the project's runs, without what differs from run to run."""
    with Catalog(store_of(project), timeout_s=60) as catalog:
        rows = catalog.table(list(names)).dicts()
    return [{name: _plain(value) for name, value in row.items() if name not in ("run", "tstamp", "projid")} for row in rows]


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, float) else value  # a NaN equals itself, and -0.0 is not 0.0


def points(project: Path) -> list[RestorePoint]:
    """The checkpoints that the one run of a project can go on from, oldest first."""
    store = store_of(project)
    (run,) = runs.list_runs(store)
    found, damaged = restore_points.of_run(store, run)
    assert not damaged
    return found[::-1]


def go_on_from(project: Path, point: RestorePoint) -> dict[str, str]:
    """What `rearview resume` would tell the program it starts, for any checkpoint, of a finished run too."""
    store = store_of(project)
    found = resuming.prospect(store, project, past.look(store, point.run), [point])
    assert found.point is point, found.passed_over
    shake = resuming.agree(store, found, handshake.claim(store, point.run, None))
    return {handshake.VARIABLE: shake.text()}


def resume(project: Path, env: Mapping[str, str] | None = None, *words: str) -> Child:
    """`rearview resume --yes`, as a user would."""
    return with_torch().command(project, "resume", "--yes", *words, env=env)


# -- comparing -----------------------------------------------------------------------------------------------------------


def goes_on(whole: Sequence[str], lines: Sequence[str], reached: int = 0) -> int:
    """How far a program has come that goes on at a line not after `reached`: each line it prints is the whole's, none is left out.

    Lines of the whole are all different. A kill may have cut the last one.
    """
    if lines and lines[-1] not in whole:
        lines = lines[:-1]
    if not lines:
        return reached
    begins = list(whole).index(lines[0])
    assert begins <= reached, f"{begins - reached} lines were never printed"
    assert list(lines) == list(whole[begins : begins + len(lines)])
    return max(reached, begins + len(lines))


def chance(seed: int | None = None) -> random.Random:
    """Randomness of a test, its seed in the output."""
    seed = random.randrange(1 << 30) if seed is None else seed
    print("seed", seed)
    return random.Random(seed)
