"""`rearview sql`: a query over the views of the catalog."""

from __future__ import annotations

import click

from rearview.cli import options
from rearview.cli.shown import screen
from rearview.errors import EXIT_DIFFERENCES, EXIT_OK, UsageError


@click.command("sql", short_help="Query runs, logs, loops and args with SQL.")
@click.argument("query", metavar="QUERY")
@options.limit(None, "At most N rows; 0 for all. On the screen the first and last ones, 40 unless told; else the first N, all unless told.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV; text that a spreadsheet would run gets a leading apostrophe.")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, query: str, limit: int | None, as_csv: bool, as_json: bool, color: str) -> None:
    """Run one SELECT (DuckDB's SQL) over the views runs, logs, loops, args and wide.

    Read-only, without access to files, limited in time. The exit code is 1 if bytes in the store are damaged.
    """
    from rearview.cli import opening
    from rearview.cli.shown import damage, tabular

    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other: choose one")
    with opening.catalog() as catalog:
        table = catalog.sql(query)
        tabular.notes(table)
        if as_csv:
            tabular.write_csv(table, limit)
        elif as_json:
            tabular.write_json("rearview.sql/1", table, limit)
        else:
            screen.write(tabular.show(table, screen.of_stdout(color), limit))
        hurt = damage.concerning(catalog)
    damage.tell(hurt, already_told=table.notes)
    ctx.exit(EXIT_DIFFERENCES if hurt else EXIT_OK)
