"""`rearview rm`: remove runs, after asking."""

from __future__ import annotations

import sys

import click

from rearview.cli import options
from rearview.cli.shown import screen, text
from rearview.errors import UsageError


@click.command("rm", short_help="Remove runs.")
@click.argument("run_refs", metavar="RUN...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@options.as_json
def command(run_refs: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove runs with everything they recorded. There is no way back.

    Asks first. A run that is still running is refused. Versions of the source stay: other runs may share them.
    """
    from rearview.cli import opening, runs
    from rearview.cli.shown import output
    from rearview.store import check

    with opening.catalog() as catalog:
        chosen = {run.run: run for run in map(catalog.run, run_refs)}
    going_on = [run for run in chosen.values() if run.status == "running"]
    if going_on:
        raise UsageError(f"run {going_on[0].run} is still running: end it first; nothing was removed")
    if not yes:
        for run in chosen.values():
            facts = [run.run, run.name or "", text.moment(run.tstamp), runs.how_it_ended(run), text.size(run.size_bytes)]
            screen.note("  " + "  ".join(text.escape(fact) for fact in facts if fact))
        if not sys.stdin.isatty():
            raise UsageError("rm asks before it removes, and there is nobody to ask: add --yes")
        if not click.confirm(f"Remove {text.count(len(chosen), 'run')} for good?", err=True):
            return
    store = opening.store()
    freed = sum(run.size_bytes + check.remove_run(store, run.run) for run in chosen.values())
    if as_json:
        output.write("rearview.rm/1", removed=list(chosen), freed_bytes=freed)
    else:
        screen.write([f"removed {text.count(len(chosen), 'run')}, freed {text.size(freed)}"])
