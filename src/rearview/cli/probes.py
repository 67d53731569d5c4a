"""`rearview probes`: the statements that have been asked in hindsight, and how far each is answered."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import click

from rearview.cli import options
from rearview.cli.shown import output, screen, tables, text
from rearview.errors import EXIT_NOTHING_MATCHED, EXIT_OK

if TYPE_CHECKING:
    from rearview.replay.question.probing import Coverage


@click.command("probes", short_help="List what has been asked in hindsight, and how far it is answered.")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, as_json: bool, color: str) -> None:
    """List the statements that have been asked, each with how many runs answered, logged it themselves, cannot, or were not asked yet.

    `rearview replay --missing` asks those.
    """
    from rearview.cli import opening
    from rearview.replay.question import probing
    from rearview.store import probes

    damage: list[str] = []
    with opening.catalog() as catalog:
        every = probes.every(catalog.store, damage)
        runs = catalog.runs() if every else []
        found = [probing.coverage(catalog.store, one, runs) for one in every]
    for sentence in damage:
        screen.note(f"rearview: {text.escape(sentence)}")
    if as_json:
        output.write("rearview.probes/1", probes=[output.facts(one) for one in found])
    elif not found:
        screen.note("rearview: nothing was asked yet: add a log statement and `rearview replay` it")
    else:
        screen.write(_listing(found, screen.of_stdout(color)))
    ctx.exit(EXIT_OK if found else EXIT_NOTHING_MATCHED)


def _listing(found: list[Coverage], view: screen.Screen) -> list[str]:
    now = dt.datetime.now(dt.UTC)
    columns = [
        tables.Column("asked", least=8, weight=3),
        tables.Column("names", least=8, style="place"),
        tables.Column("statement", least=12, wish=30, weight=2),
        *(tables.Column(title, align="right", least=6) for title in ("answered", "recorded", "cannot", "not yet")),
    ]
    rows: list[list[tables.Cell]] = [
        [
            text.when(one.probe.when, now), ", ".join(one.probe.names), "; ".join(one.probe.statements),
            str(one.answered), str(one.recorded), str(one.cannot), str(one.left),
        ]
        for one in found
    ]  # fmt: skip
    lines = tables.draw(columns, rows, view).lines
    for title, why_of in (("cannot", [one.reasons for one in found]), ("answered in part", [one.in_part for one in found])):
        reasons = {f"{version[:8]}: {why}" for whys in why_of for version, why in whys.items()}
        if reasons:
            lines += ["", view.paint(title, "odd")]
            lines += [f"  {piece}" for one in sorted(reasons)[:20] for piece in tables.wrap(text.escape(one), view.width - 2)]
    if any(one.left for one in found):
        lines += ["", "`rearview replay --missing` asks the runs that have not been asked yet"]
    return lines
