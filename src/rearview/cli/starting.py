"""Starting the user's program and staying beside it: signals handed through, how it ended noted and passed on.

The program runs in a child of its own, so that even a kill is seen. Must not know what it is started for.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import click

from rearview.errors import RearviewError
from rearview.record import supervise

PIPE = "-"
"""In the place of a script: the program comes through standard input."""
_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")


def this_interpreter() -> list[str]:
    """The interpreter of this process with its flags."""
    return [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Start:
    """What is started, and how."""

    target: str
    """The script, or the module; `-`: what comes through standard input."""
    arguments: Sequence[str]
    is_module: bool
    wishes: Mapping[str, object]
    """What the launcher is told besides."""
    looked_from: Path
    """The folder whose project it belongs to, should it not come to say so itself."""
    interpreter: Sequence[str] = field(default_factory=this_interpreter)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    cwd: Path | None = None


def supervise_child(start: Start) -> int:
    """Start the program, hand signals through, note how it ended if it did not say so itself. Gives its code, or minus the signal."""
    launcher = str(Path(supervise.__file__).with_name("launch.py"))
    hear, tell = os.pipe()  # the launcher says which store it found
    os.set_inheritable(tell, True)
    told = json.dumps({**start.wishes, "interpreter": list(start.interpreter), "tell": tell, "launcher": os.getppid()})
    environ = dict(start.environ)
    # An unset hash seed cannot be learned afterwards: choose it here, as the interpreter would, and it is recorded.
    environ.setdefault("PYTHONHASHSEED", str(random.SystemRandom().randrange(1, 2**32)))
    began = time.time()
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if number in (signal.SIGINT, signal.SIGQUIT) and _at_a_terminal():
            return  # the terminal sends it to the script as well
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    for name in _FORWARDED:
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup`: the script is to ignore it too
            signal.signal(number, forward)
    mode = "module" if start.is_module else "pipe" if start.target == PIPE else "script"
    words = [*start.interpreter, launcher, told, mode, start.target, *start.arguments]
    child = subprocess.Popen(words, env=environ, cwd=start.cwd, close_fds=False)  # what was opened for it (`3<file`, `<(...)`) stays open
    os.close(tell)
    for number in early:
        child.send_signal(number)
    code = child.wait()
    try:
        supervise.note_exit(os.fsdecode(_read(hear)), start.looked_from, child.pid, began, code)
    except (OSError, RearviewError) as problem:
        click.echo(f"rearview: how the run ended could not be noted: {problem}", err=True)
    return code


def _read(hear: int) -> bytes:
    """What the launcher said. It let go of its end before the script began, so this never waits."""
    with open(hear, "rb") as pipe:
        return pipe.read()


def _at_a_terminal() -> bool:
    """Whether this process is in the foreground of a terminal: then the script, in the same group, gets Ctrl-C by itself."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def pass_on(code: int) -> int:
    """Exit as the script did; die of the signal it died of."""
    if code >= 0:
        return code
    number = -code
    sys.stdout.flush()
    sys.stderr.flush()
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core dump is enough
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
