"""`rearview run`: start a script with recording from the beginning, and pass on how it ended.

The script runs in a child of its own, so that even a kill is seen. Signals sent to this process reach it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import click

from rearview import config
from rearview.errors import NotFound, RearviewError, UsageError
from rearview.record import arguments, supervise
from rearview.store import layout

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner", "deepspeed")
_VALUED = ("--name", "--tag", "--arg", "--notes")


def split(words: list[str]) -> tuple[list[str], str | None, list[str], bool]:
    """Our own options, the script or module, its arguments untouched, and whether it is a module.

    >>> split(["--arg", "lr=1", "train.py", "--name", "its own"])
    (['--arg', 'lr=1'], 'train.py', ['--name', 'its own'], False)
    """
    own: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "-m":
            if at + 1 == len(words):
                raise UsageError("-m takes the name of a module")
            return own, words[at + 1], words[at + 2 :], True
        if word == "--":
            at += 1
            break
        if not word.startswith("-") or word == "-":
            break
        own.append(word)
        if word in _VALUED and at + 1 < len(words):
            at += 1
            own.append(words[at])
        at += 1
    target = words[at] if at < len(words) else None
    return own, target, words[at + 1 :], False


class _RunCommand(click.Command):
    """Stops reading options at the script: what follows is the script's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, target, rest, is_module = split(args)
        ctx.meta["target"] = (target, rest, is_module)
        return super().parse_args(ctx, own)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "SCRIPT|-m MODULE", "[ARGS]..."]


@click.command("run", cls=_RunCommand, short_help="Run a script or module and record it from the beginning.")
@click.option("--name", help="A name for the run.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be given several times.")
@click.option("--notes", help="A sentence about the run.")
@click.option("--arg", "pairs", multiple=True, metavar="NAME=VALUE", help="The value of an rv.arg; may be given several times.")
@click.pass_context
def command(ctx: click.Context, name: str | None, tags: tuple[str, ...], notes: str | None, pairs: tuple[str, ...]) -> None:
    """Run SCRIPT (or -m MODULE) with its arguments untouched, recorded from the beginning.

    The exit code, or the signal that ended it, is passed on.
    """
    target, rest, is_module = ctx.meta["target"]
    if target is None:
        raise UsageError("`rearview run` needs a script: rearview run [OPTIONS] SCRIPT [ARGS]..., or -m MODULE")
    if is_module and target in _LAUNCHERS:
        raise UsageError(
            f"{target} starts other programs, and those are what is to be recorded: put `rearview run` behind it, as in "
            "`torchrun --nproc-per-node 2 -m rearview run train.py`"
        )
    if not is_module and not Path(target).is_file():
        raise UsageError(f"there is no script {target!r} here: give the path of a Python file, or -m MODULE")
    wishes: dict[str, object] = {"arg": arguments.parse_pairs(pairs, "--arg"), "name": name, "tags": list(tags), "notes": notes}
    start = Path(target).resolve().parent if not is_module else Path.cwd()
    _check(start)
    ctx.exit(_pass_on(_supervise(wishes, target, rest, is_module, start)))


def _check(start: Path) -> None:
    """Say now what would stop the recording: a setting that does not exist, a store of a later rearview."""
    if config.recording_is_off(os.environ):
        return
    project, _ = layout.find_project(start, os.environ.get("REARVIEW_DIR"), Path.home())
    config.load(project)
    try:
        layout.locate(start)
    except NotFound:
        pass  # the script makes one


def _supervise(wishes: dict[str, object], target: str, rest: list[str], is_module: bool, start: Path) -> int:
    """Start the script, hand signals through, note how it ended if it did not say so itself."""
    interpreter = [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]
    launcher = str(Path(supervise.__file__).with_name("launch.py"))
    hear, tell = os.pipe()  # the launcher says which store it found
    os.set_inheritable(tell, True)
    told = json.dumps({**wishes, "interpreter": interpreter, "tell": tell, "launcher": os.getppid()})
    environ = dict(os.environ)
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
    words = [*interpreter, launcher, told, "module" if is_module else "script", target, *rest]
    child = subprocess.Popen(words, env=environ, close_fds=False)  # what was opened for the script (`3<file`, `<(...)`) stays open
    os.close(tell)
    for number in early:
        child.send_signal(number)
    code = child.wait()
    try:
        supervise.note_exit(os.fsdecode(_read(hear)), start, child.pid, began, code)
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


def _pass_on(code: int) -> int:
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
