"""`rearview runs`: one line per run, the newest last, nearest to the prompt."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rearview.cli import options
from rearview.cli.shown import output, screen, tables, text
from rearview.errors import EXIT_DIFFERENCES, EXIT_NOTHING_MATCHED, EXIT_OK
from rearview.store.runs import list_runs

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo

LIMIT = 20
STATUS_STYLES = {"running": "busy", "finished": "good", "failed": "bad", "killed": "odd"}

_ENDED = 27
"""`failed ModuleNotFoundError` and `killed SIGKILL, 50,081 lost` are shown whole wherever a table of runs makes sense."""


@click.command("runs", short_help="List the runs.")
@options.where
@options.limit(LIMIT, f"At most N runs, the newest; 0 for all.  [default: {LIMIT}]")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, where: str | None, limit: int, as_json: bool, color: str) -> None:
    """List the runs: when, name, script, version, how it ended, how long it took, args, last values.

    The newest run is the last row, nearest to the prompt. With --where, a run is listed if any of its rows satisfies
    the expression; aggregates such as "max(acc) > 0.9" are per run. The exit code is 1 if bytes of a
    listed run are damaged.
    """
    from rearview.cli import opening
    from rearview.cli.shown import damage

    with opening.catalog() as catalog:
        # Runs are described one by one: without a clause only those that are shown, the others are merely counted.
        found = catalog.runs(where=where, limit=(limit or None) if where is None else None)
        total = len(found) if where is not None else len(list_runs(catalog.store))
        shown = found[: limit or None][::-1]
        # A clause has looked at every run, and may have left one out for a value that is lost.
        hurt = damage.concerning(catalog, [run.run for run in shown] if where is None else None)
    if as_json:
        output.write("rearview.runs/1", total=total, runs=[as_facts(run) for run in shown])
    elif not found:
        screen.note("rearview: no run satisfies the expression" if where else "rearview: no runs yet: `rearview run SCRIPT` records one")
    else:
        view = screen.of_stdout(color)
        screen.write(listing(shown, total - len(shown), view, dt.datetime.now(dt.UTC)))
    damage.tell(hurt)
    ctx.exit(EXIT_DIFFERENCES if hurt else EXIT_OK if found else EXIT_NOTHING_MATCHED)


def as_facts(run: RunInfo) -> output.Json:
    """A run in JSON; values of args and metrics as `docs/reference/cli.md` says."""
    facts = output.facts(run)
    assert isinstance(facts, dict)
    return {**facts, "args": output.plain(run.args), "last": output.plain(run.last)}


def how_it_ended(run: RunInfo, brief: bool = False) -> str:
    """`failed ValueError`, `killed SIGKILL`, `finished, 12 lost`; in brief, the type of an exception without its module."""
    detail = run.detail.rsplit(".", 1)[-1] if brief and run.status == "failed" else run.detail
    ended = f"{run.status} {detail}".rstrip()
    return f"{ended}, {run.lost:,} lost" if run.lost else ended


def given_first(run: RunInfo) -> dict[str, object]:
    """The arguments, those that somebody chose before those left at their default: there may be room for few."""
    return dict(sorted(run.args.items(), key=lambda pair: pair[0] not in run.given))


def listing(runs: Sequence[RunInfo], earlier: int, view: screen.Screen, now: dt.datetime) -> list[str]:
    """The runs as a table, oldest first; columns that are empty for all of them are left out."""
    short = text.short_ids(run.run for run in runs)
    columns = [
        tables.Column("run", least=13, style="place"),
        tables.Column("when", least=12, weight=3),
        tables.Column("name", least=6, weight=4, share=0.2),
        tables.Column("script", least=10, weight=8, keep="end"),
        tables.Column("version", least=8, weight=9),
        tables.Column("ended", least=_ENDED if view.width >= 60 else 14),
        tables.Column("took", align="right", least=6, weight=7),
        tables.Column("args", least=8, wish=18, weight=5, keep="words"),
        tables.Column("last values", least=9, wish=22, weight=6, keep="words"),
    ]
    rows: list[list[tables.Cell]] = [
        [
            short(run.run),
            text.when(run.tstamp, now),
            run.name or "",
            run.filename or "",
            (run.version or "")[:8],
            tables.Styled(how_it_ended(run, brief=True), "odd" if run.lost else STATUS_STYLES.get(run.status, "")),
            text.duration(run.duration_s),
            text.pairs(given_first(run), digits=4),
            text.pairs(run.last, digits=4),
        ]
        for run in runs
    ]
    used = [k for k, column in enumerate(columns) if column.weight == 0 or any(row[k] for row in rows)]
    drawn = tables.draw([columns[k] for k in used], [[row[k] for k in used] for row in rows], view)
    if not earlier:
        return drawn.lines
    return [view.paint(f"... {text.count(earlier, 'earlier run')}, --limit 0 for all", "dim"), *drawn.lines]
