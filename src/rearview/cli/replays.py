"""`rearview replays`: what was replayed, with which statement, when, and how far its values can be trusted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rearview.cli import options
from rearview.cli.shown import output, screen, tables, text
from rearview.errors import EXIT_DIFFERENCES, EXIT_OK, NotFound

if TYPE_CHECKING:
    from rearview.store.replays import Replay

STYLES = {"identical": "good", "close": "good", "volatile": "odd", "unverified": "odd", "divergent": "bad"}
"""Verdict to its colour."""


@click.command("replays", short_help="List what was replayed.")
@options.run_argument(required=False)
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, run_ref: str | None, as_json: bool, color: str) -> None:
    """List the replays of a run, or of all: names, statement, scan, verdict, how long it took.

    The values are in the rows of their runs (`rearview df`); `rearview replay --forget NAME` takes them out. Those of a divergent
    replay are in no table; `rearview sql "SELECT * FROM replayed"` shows them. The exit code is 1 if one is damaged.
    """
    from rearview.cli import opening
    from rearview.cli.shown import damage

    with opening.catalog() as catalog:
        listed = catalog.replays(run_ref)
        runs = [catalog.run(run_ref).run] if run_ref is not None else None
        hurt = [sentence for sentence in damage.concerning(catalog, runs) if "/replays/" in sentence]
    if as_json:
        output.write("rearview.replays/1", replays=[as_facts(one) for one in listed])
    elif listed:
        screen.write(page(listed, screen.of_stdout(color), dt.datetime.now(dt.UTC)))
    damage.tell(hurt)
    if not listed and not hurt:
        of = f"of run {run_ref} " if run_ref is not None else ""
        raise NotFound(f"nothing {of}was replayed yet: add a log statement to the script, then `rearview replay NAME`")
    ctx.exit(EXIT_DIFFERENCES if hurt else EXIT_OK)


def as_facts(replay: Replay) -> output.Json:
    """A replay in JSON."""
    return {
        "id": replay.id,
        "run": replay.run,
        "created": replay.created,
        "names": list(replay.names),
        "statement": replay.statement,
        "probes": output.facts(replay.probes),
        "scan": replay.scan,
        "rung": replay.rung,
        "covers": output.facts(replay.covers),
        "verdict": replay.verdict,
        "verdicts": output.facts(replay.verdicts),
        "why": list(replay.why),
        "compared": output.facts(replay.compared),
        "volatile": list(replay.volatile),
        "first_difference": output.facts(replay.first_difference),
        "seconds": replay.seconds,
    }


def page(listed: Sequence[Replay], view: screen.Screen, now: dt.datetime) -> list[str]:
    """The table, and below it the reasons of those that are not simply identical."""
    columns = [
        tables.Column("replay", least=9, style="place"),
        tables.Column("run", least=8, weight=3),
        tables.Column("when", least=8, weight=5),
        tables.Column("names", least=8),
        tables.Column("statement", least=12, wish=40, weight=4),
        tables.Column("scan", least=6, weight=6),
        tables.Column("verdict", least=9),
        tables.Column("took", align="right", least=6, weight=7),
    ]
    short, short_run = text.short_ids(one.id for one in listed), text.short_ids(one.run for one in listed)
    rows: list[list[tables.Cell]] = [
        [
            short(one.id),
            short_run(one.run),
            text.when(one.when, now),
            ", ".join(one.names),
            " ".join(one.statement.split()),
            one.scan,
            _verdict(one),
            text.duration(one.seconds),
        ]
        for one in listed
    ]
    used = [k for k, column in enumerate(columns) if column.weight == 0 or any(row[k] for row in rows)]
    lines = tables.draw([columns[k] for k in used], [[row[k] for k in used] for row in rows], view).lines
    for one in listed:
        if one.verdict != "identical" and one.why:
            lines += ["", view.paint(f"{short(one.id)}: {one.verdict}", "head")]
            lines += [f"  {piece}" for why in one.why for piece in tables.wrap(text.escape(why), view.width - 2)]
    return lines


def _verdict(replay: Replay) -> tables.Cell:
    """The verdict of the whole; those of its names, where they have their own."""
    said = sorted({replay.verdict_of(name) for name in replay.names} or {replay.verdict}, key=list(STYLES).index)
    return tables.Styled(", ".join(said), STYLES[said[-1]])


def forget(names: Sequence[str], run_ref: str | None = None) -> list[tuple[str, Replay]]:
    """Take what was replayed under some names (or by some ids) out of the store: (name, replay) of what went."""
    from rearview.cli import opening
    from rearview.replay import publish

    with opening.catalog() as catalog:
        store, listed = catalog.store, catalog.replays(run_ref)
    gone: list[tuple[str, Replay]] = []
    for name in names:
        for run in dict.fromkeys(one.run for one in listed):
            gone += [(name, one) for one in publish.forget(store, run, name)]
    if not gone:
        raise NotFound(f"nothing was replayed as {', '.join(names)}: `rearview replays` lists what was")
    return gone
