"""`rearview check`: is the store whole, and what can be mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rearview.cli import options
from rearview.cli.shown import output, screen, text
from rearview.errors import EXIT_DAMAGED, EXIT_OK, Damaged, RearviewError
from rearview.model import VersionId

if TYPE_CHECKING:
    from rearview.store.findings import Finding
    from rearview.store.layout import Store


@click.command("check", short_help="Check that the store is whole.")
@click.option("--repair", is_flag=True, help="Mend what can be mended: clear caches and leftovers, never records.")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, repair: bool, as_json: bool, color: str) -> None:
    """Read every byte of the store and say what is damaged; exit code 5 if anything is.

    Notes are no damage: a run that was killed leaves an unfinished last write, an interrupted command leaves
    temporary files.
    """
    from rearview.cli import opening
    from rearview.store import check

    store = opening.store_for_repair() if repair else opening.store()
    with screen.progress("checking the store"):
        mended = check.repair(store) if repair else []
        findings = [*check.check(store, deep=True), *_versions(store)]
    damaged = [finding for finding in findings if finding.severity == "damage"]
    if as_json:
        output.write("rearview.check/1", whole=not damaged, findings=output.facts(findings), repaired=output.facts(mended))
    else:
        view = screen.of_stdout(color)
        lines = [view.paint("mended  ", "good") + text.escape(line) for line in mended]
        for finding in findings:
            mark = view.paint("damage  ", "bad") if finding.severity == "damage" else view.paint("note    ", "dim")
            lines.append(f"{mark}{text.escape(str(finding.path))}: {text.escape(finding.problem)}")
        lines.append(_verdict(len(damaged), len(list(check.set_aside(store))), str(store.root), view))
        screen.write(lines)
    ctx.exit(EXIT_DAMAGED if damaged else EXIT_OK)


def _versions(store: Store) -> list[Finding]:
    """Versions that runs need and that are not whole: what the source objects are for is known above the store."""
    from rearview.store import findings, runs
    from rearview.versions import read

    needed = {*read.versions(store)}
    for run in runs.list_runs(store):
        try:
            needed.add(VersionId(str(runs.read_run(store, run)["version"])))
        except (Damaged, OSError, KeyError):
            continue  # said already
    found = []
    for version in sorted(needed - {VersionId("None")}):
        try:
            problems = read.verify(store, version)
        except RearviewError as problem:
            problems = [str(problem)]
        found += [findings.damage(store.code, f"version {version[:13]}: {problem}") for problem in problems]
    return found


def _verdict(damaged: int, aside: int, root: str, view: screen.Screen) -> str:
    if damaged:
        return view.paint(f"{text.count(damaged, 'thing')} damaged in {text.escape(root)}", "bad")
    if aside:
        files = f"{text.count(aside, 'damaged file')} {'was' if aside == 1 else 'were'} set aside"
        return f"{text.escape(root)} is {view.paint('whole', 'good')} but for what was lost before it was mended: {files}"
    return f"{text.escape(root)} is {view.paint('whole', 'good')}"
