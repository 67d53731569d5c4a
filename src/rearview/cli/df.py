"""`rearview df`: logged values as one table over all runs."""

from __future__ import annotations

from pathlib import Path

import click

from rearview.cli import options
from rearview.cli.shown import screen, text
from rearview.errors import EXIT_DIFFERENCES, EXIT_NOTHING_MATCHED, EXIT_OK, UsageError


@click.command("df", short_help="Show logged values as a table, over all runs.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@options.where
@options.in_run
@click.option("--provenance", is_flag=True, help="Add to each name where its values came from (recorded, replayed) and their verdict.")
@options.limit(None, "At most N rows; 0 for all. On the screen the first and last ones, 40 unless told; else the first N, all unless told.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV; text that a spreadsheet would run gets a leading apostrophe.")
@options.as_json
@click.option("--parquet", metavar="FILE", type=click.Path(path_type=Path), help="Write a Parquet file; no other file is overwritten.")
@options.color
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    where: str | None,
    run_ref: str | None,
    provenance: bool,
    limit: int | None,
    as_csv: bool,
    as_json: bool,
    parquet: Path | None,
    color: str,
) -> None:
    """Show a column per NAME beside projid, run, tstamp, filename and one column per loop.

    One row per log call. An arg or a per-run value repeats down the rows of its run, a per-epoch value down its
    steps. --where filters rows. The exit code is 1 if something was never logged or bytes are damaged, 3 if there is
    no row at all.
    """
    from rearview.catalog.tables.result import TRACES
    from rearview.cli import opening, target
    from rearview.cli.shown import damage, tabular

    if as_csv + as_json + (parquet is not None) > 1:
        raise UsageError("--csv, --json and --parquet exclude each other: choose one")
    if parquet is not None and limit is not None:
        raise UsageError("--limit does not go with --parquet: use --where to write less")
    if parquet is not None:
        target.check(parquet, ".parquet")
    with opening.catalog() as catalog:
        table = catalog.table(list(names), where=where, run=run_ref, provenance=provenance)
        tabular.notes(table)
        if parquet is not None:
            with target.written(parquet):
                table.write_parquet(parquet)
            screen.note(f"wrote {text.count(len(table), 'row')} to {text.escape(str(parquet))}")
        elif as_csv:
            tabular.write_csv(table, limit)
        elif as_json:
            tabular.write_json("rearview.table/1", table, limit)
        else:
            screen.write(tabular.show(table, screen.of_stdout(color), limit))
        hurt = damage.concerning(catalog, None if run_ref is None else [catalog.run(run_ref).run])
        of_names = len(names) * (1 + len(TRACES) if provenance else 1)
        unknown = set(names) - {known.name for known in catalog.names()} - set(table.names[:-of_names])
    damage.tell(hurt, already_told=table.notes)
    if hurt:  # also without a row: there may have been some
        ctx.exit(EXIT_DIFFERENCES)
    ctx.exit(EXIT_NOTHING_MATCHED if not len(table) else EXIT_DIFFERENCES if unknown else EXIT_OK)
