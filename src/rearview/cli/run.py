"""`rearview run`: start a script with recording from the beginning, and pass on how it ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from rearview import config
from rearview.cli import starting
from rearview.errors import NotFound, UsageError
from rearview.record import arguments
from rearview.store import layout

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
        return ["[OPTIONS]", "SCRIPT|-m MODULE|-", "[ARGS]..."]


@click.command("run", cls=_RunCommand, short_help="Run a script or module and record it from the beginning.")
@click.option("--name", help="A name for the run.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be given several times.")
@click.option("--notes", help="A sentence about the run.")
@click.option("--arg", "pairs", multiple=True, metavar="NAME=VALUE", help="The value of an rv.arg; may be given several times.")
@click.pass_context
def command(ctx: click.Context, name: str | None, tags: tuple[str, ...], notes: str | None, pairs: tuple[str, ...]) -> None:
    """Run SCRIPT (or -m MODULE, or - for standard input) with its arguments untouched, recorded from the beginning.

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
    piped = target == starting.PIPE and not is_module
    if piped and sys.stdin.isatty():
        raise UsageError("standard input is a terminal: give a script, -m MODULE, or pipe a program in, as in `rearview run - < it.py`")
    if not is_module and not piped and not Path(target).is_file():
        raise UsageError(f"there is no script {target!r} here: give the path of a Python file, or -m MODULE")
    wishes: dict[str, object] = {"arg": arguments.parse_pairs(pairs, "--arg"), "name": name, "tags": list(tags), "notes": notes}
    start = Path(target).resolve().parent if not is_module and not piped else Path.cwd()
    _check(start)
    ctx.exit(starting.pass_on(starting.supervise_child(starting.Start(target, rest, is_module, wishes, start))))


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
