"""`rearview watch`: follow a run while it goes on."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from rearview.cli import options, runs
from rearview.cli.shown import metrics, output, screen, text
from rearview.errors import NotFound

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo

EVERY_S = 1.0

Look = Callable[[], "tuple[RunInfo, list[metrics.Metric]]"]


@click.command("watch", short_help="Follow a run while it goes on.")
@options.run_argument(required=False)
@click.option(
    "--every", "every_s", type=click.FloatRange(min=0.1), metavar="SECONDS", default=EVERY_S, help="How often to look.  [default: 1]"
)
@options.as_json
@options.color
def command(run_ref: str | None, every_s: float, as_json: bool, color: str) -> None:
    """Follow a run until it ends: the newest running one unless RUN is given.

    On a terminal a small view is refreshed in place; elsewhere a line is printed whenever something was recorded, with
    --json a JSON document per line. Ctrl-C stops watching, never the run.
    """
    run = _chosen(run_ref)
    states = _states(lambda: _look(run), every_s)
    view = screen.of_stdout(color)
    if as_json:
        for info, _ in states:
            screen.write([output.line("rearview.watch/1", run=runs.as_facts(info))])
    elif view.terminal:
        _live(states, color)
    else:
        for info, _ in states:
            screen.write([_line(info, dt.datetime.now(dt.UTC))])


def _chosen(ref: str | None) -> str:
    from rearview.cli import opening

    with opening.catalog() as catalog:
        if ref is not None:
            return catalog.run(ref).run
        for run in catalog.runs():
            if run.status == "running":
                return run.run
    raise NotFound("no run is running: `rearview runs` lists those that have ended, `rearview show last` shows the newest")


def _look(run: str) -> tuple[RunInfo, list[metrics.Metric]]:
    from rearview.cli import opening

    with opening.catalog(quiet=True) as catalog:
        info = catalog.run(run)
        return info, metrics.of(catalog.run_detail(info.run))


def _states(look: Look, every_s: float) -> Iterator[tuple[RunInfo, list[metrics.Metric]]]:
    """What the run looks like, whenever something was recorded, and once more when it has ended."""
    before: tuple[int, str] | None = None
    while True:
        info, found = look()
        if (info.records, info.status) != before:
            before = info.records, info.status
            yield info, found
        if info.status != "running":
            return
        time.sleep(every_s)


def _line(run: RunInfo, now: dt.datetime) -> str:
    parts = [text.local(now).strftime("%H:%M:%S"), run.run, runs.how_it_ended(run), text.count(run.records, "record"), text.pairs(run.last)]
    return "  ".join(text.escape(part) for part in parts if part)


def _live(states: Iterator[tuple[RunInfo, list[metrics.Metric]]], color: str) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for info, found in states:
            view = screen.of_stdout(color)  # asked anew: the window may have been resized
            live.update(Text("\n").join(Text.from_ansi(line) for line in frame(info, found, view)), refresh=True)


def frame(run: RunInfo, found: list[metrics.Metric], view: screen.Screen) -> list[str]:
    """One picture of a run that goes on, no higher than the screen."""
    status = view.paint(text.escape(runs.how_it_ended(run)), runs.STATUS_STYLES.get(run.status, ""))
    name = f"  {text.escape(run.name)}" if run.name else ""
    head = f"{view.paint(run.run, 'place')}{name}  {text.escape(run.filename or '')}  {status}"
    facts = [text.duration(run.duration_s), text.count(run.records, "record"), text.size(run.size_bytes)]
    lines = [head, view.paint("  ".join(fact for fact in facts if fact), "dim")]
    if run.args:
        lines.append(text.pairs(run.args, view.width))
    room = view.height - len(lines) - 3
    shown = metrics.table(found[:room], view)
    if len(found) > room:
        shown.append(view.paint(f"... {text.count(len(found) - room, 'more metric')}, `rearview show` has all", "dim"))
    return [*lines, "", *shown]
