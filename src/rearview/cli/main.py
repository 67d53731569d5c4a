"""The `rearview` command: which commands there are, and nothing of what they do.

`rearview --help` imports click alone: the table below carries each command's one line, and a command's module is
imported when that command is used.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from rearview.cli import errors

COMMANDS: dict[str, str] = {
    "run": "Run a script or module and record it from the beginning.",
    "resume": "Go on with a run that was killed or failed.",
    "replay": "Fill columns from statements added in hindsight.",
    "propagate": "Place a statement of one version of a file into another.",
    "verify": "Does a run replay to itself?",
    "runs": "List the runs.",
    "show": "Show everything about one run.",
    "df": "Show logged values as a table, over all runs.",
    "replays": "List what was replayed.",
    "probes": "List what has been asked in hindsight, and how far it is answered.",
    "sql": "Query runs, logs, loops and args with SQL.",
    "plot": "Draw logged values, one line per run.",
    "versions": "List the versions: what changed from one to the next.",
    "diff": "Compare two runs, or the code of two versions.",
    "code": "Show the source that a run executed.",
    "watch": "Follow a run while it goes on.",
    "checkpoints": "List the checkpoints of a run.",
    "export": "Write the state of a checkpoint to a file.",
    "pin": "Keep checkpoints whatever the policy says.",
    "gc": "Drop the bytes of checkpoints that need not be kept.",
    "check": "Check that the store is whole.",
    "rm": "Remove runs.",
    "config": "Show each setting and where it came from.",
}
"""Name -> one line. The module is `rearview.cli.<name>`, its command `command`."""


class Commands(click.Group):
    """A group that imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"rearview.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command meant; an unknown one is told with the nearest known."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{_near(args[0])}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command chosen."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise errors.ReaderGone from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _near(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"; did you mean {close[0]!r}?" if close else "; `rearview --help` lists them"


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from rearview import __version__

        click.echo(f"rearview {__version__}")
        ctx.exit()


@click.command("rearview", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A setting for this command; `rearview config` lists them.")
@click.pass_context
def rearview(ctx: click.Context, pairs: tuple[str, ...]) -> None:
    """Record training runs, and ask them questions later.

    RUN is a run id or its beginning, a run's name, `last`, or `last~2` (the run two before it). Reading commands use
    the store of the current folder or the nearest above; REARVIEW_DIR names another.
    """
    if pairs:
        _set(ctx, pairs)


def _set(ctx: click.Context, pairs: Sequence[str]) -> None:
    """Settings given as flags go before all others, also for the script of `rearview run`: as variables of this process."""
    import os

    from rearview import config

    for variable, text in config.flags(pairs).items():
        before = os.environ.get(variable)
        os.environ[variable] = text
        ctx.call_on_close(lambda v=variable, b=before: os.environ.pop(v) if b is None else os.environ.__setitem__(v, b))


@contextmanager
def _ints_of_any_length() -> Iterator[None]:
    """Let ints of any size be written while the command runs: what was logged is shown whole, or shortened by us."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: the console script."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    with _ints_of_any_length():
        return errors.guarded(lambda: rearview.main(args=arguments, prog_name="rearview", standalone_mode=False))
