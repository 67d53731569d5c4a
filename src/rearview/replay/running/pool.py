"""Worker processes: started with the recorded interpreter, arguments and folder, watched, ended. Starts the user's program.

Must not know what a unit means, or what becomes of its values.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rearview.record import supervise
from rearview.replay.running import units
from rearview.replay.running.units import Unit

_GRACE_S = 3.0
"""Between asking a worker to end and ending it."""


@dataclass(frozen=True, slots=True)
class Program:
    """What every worker of a run starts."""

    target: str
    is_module: bool
    arguments: Sequence[str]
    interpreter: Sequence[str]
    environ: Mapping[str, str]
    cwd: Path
    wishes: Mapping[str, object] = field(default_factory=dict)
    """What the launcher is told besides."""
    text: str = ""
    """For what was no file: `cells`, `command` or `stdin`."""


class Slots:
    """How many workers may run at once, over all runs that are replayed at the same time; and whether somebody wants them to stop."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(max(1, count))
        self.stop = threading.Event()

    def take(self) -> bool:
        """Whether one more may be started."""
        return self._free.acquire(blocking=False)

    def give_back(self) -> None:
        """One has ended."""
        self._free.release()


@dataclass(slots=True)
class Worker:
    """A process and its unit."""

    unit: Unit
    process: subprocess.Popen[bytes]
    output: Path
    """What the program printed."""
    began_s: float
    """By the monotonic clock."""
    began_wall: float

    @property
    def code(self) -> int | None:
        """Its exit code, or minus the signal; None while it runs."""
        return self.process.poll()

    def printed(self, most_lines: int = 40) -> str:
        """The end of what the program printed."""
        try:
            lines = self.output.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-most_lines:])


def start(program: Program, unit: Unit) -> Worker:
    """Start a worker for a unit. Its output goes to a file: it belongs to the recorded run, and is shown only if something fails."""
    folder = Path(unit.scratch)
    units.write(folder / units.FILE, unit)
    output = folder / "output.txt"
    environ = {**program.environ, units.VARIABLE: str(folder / units.FILE), units.IN_REPLAY: "1"}
    launcher = str(Path(supervise.__file__).with_name("launch.py"))
    tell = os.open(os.devnull, os.O_WRONLY)  # nobody asks a worker where its store is
    try:
        told = json.dumps({**program.wishes, "interpreter": list(program.interpreter), "tell": tell, "launcher": os.getpid()})
        mode = program.text or ("module" if program.is_module else "script")
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*program.interpreter, launcher, told, mode, program.target, *program.arguments],
                env=environ, cwd=program.cwd, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                pass_fds=(tell,), start_new_session=True,
            )  # fmt: skip
    finally:
        os.close(tell)
    return Worker(unit, process, output, time.monotonic(), time.time())


def end(workers: Sequence[Worker]) -> None:
    """End workers and all that they started: first asked, then not."""
    living = [worker for worker in workers if worker.code is None]
    for worker in living:
        _signal(worker, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    for worker in living:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(max(0.0, deadline - time.monotonic()))
    for worker in living:
        _signal(worker, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(_GRACE_S)


def reap(worker: Worker) -> None:
    """A worker has ended: what it started and left behind ends too."""
    _signal(worker, signal.SIGKILL)


def _signal(worker: Worker, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid, number)
