"""`rearview versions`: the history of the source as the store saw it, the newest version last, nearest to the prompt."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from rearview.cli import options
from rearview.cli.shown import output, screen, tables, text
from rearview.errors import EXIT_DIFFERENCES, EXIT_NOTHING_MATCHED, EXIT_OK

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo
    from rearview.versions.changes import Changes

LIMIT = 20
COMMIT_DIGITS = 8
_NAMED_FILES = 8
"""More changed files are counted, not named."""


@dataclass(slots=True)
class Version:
    """A version and the runs that it had."""

    version: str
    runs: list[RunInfo] = field(default_factory=list)
    """Oldest first; never empty in a history."""
    before: str | None = None
    """The version before it in time, of the same script."""

    @property
    def when(self) -> dt.datetime | None:
        """When its first run began."""
        return self.runs[0].tstamp

    @property
    def scripts(self) -> list[str]:
        """What ran it, first come first."""
        return list(dict.fromkeys(run.filename for run in self.runs))

    @property
    def commit(self) -> Mapping[str, object] | None:
        """The user's own commit of this source: where it ran without other changes, else where its first run began."""
        known = [run.git for run in self.runs if run.git and run.git.get("head")]
        return next((git for git in known if git.get("dirty") is False), known[0] if known else None)


@click.command("versions", short_help="List the versions: what changed from one to the next.")
@options.limit(LIMIT, f"At most N versions, the newest; 0 for all.  [default: {LIMIT}]")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, limit: int, as_json: bool, color: str) -> None:
    """List the versions of the source that runs executed: when first, how many runs, what changed, the commit.

    A version is compared with the one before it in time that the same script ran. A commit with * had changes that were not
    committed when the version first ran; `rearview code` and `rearview diff` take versions as they take runs.
    """
    from rearview.cli import opening
    from rearview.model import VersionId
    from rearview.versions.changes import changes

    with opening.catalog() as catalog:
        runs = catalog.runs(newest_first=False)
        history = of_runs(runs)
        shown = history[-limit:] if limit else history
        pairs = [(VersionId(one.before), VersionId(one.version)) for one in shown if one.before]
        compared = iter(changes(catalog.store, pairs))
    changed: list[Changes | None] = [next(compared) if one.before else None for one in shown]
    without = sum(not run.version for run in runs)
    if as_json:
        listed = [as_facts(one, what) for one, what in zip(shown, changed, strict=True)]
        output.write("rearview.versions/1", total=len(history), versions=listed, runs_without_version=without)
    elif not history:
        screen.note("rearview: no versions yet: `rearview run SCRIPT` records a run, and with it the version that it executes")
    else:
        lines = listing(shown, changed, len(history) - len(shown), screen.of_stdout(color), dt.datetime.now(dt.UTC))
        screen.write(lines + ([f"{text.count(without, 'run')} without a version"] if without else []))
    hurt = [what.problem for what in changed if what is not None and what.problem]
    for problem in dict.fromkeys(hurt):
        screen.note(f"rearview: {text.escape(problem)}")
    ctx.exit(EXIT_DIFFERENCES if hurt else EXIT_OK if history else EXIT_NOTHING_MATCHED)


def of_runs(runs: Sequence[RunInfo]) -> list[Version]:
    """The versions of some runs (oldest first), in the order of their first runs."""
    found: dict[str, Version] = {}
    latest: dict[str, str] = {}
    """Script -> the version that it came to last for the first time."""
    for run in runs:
        if not run.version:
            continue
        one = found.get(run.version)
        if one is None:
            one = found[run.version] = Version(run.version, before=latest.get(run.filename))
        if run.filename not in one.scripts:
            latest[run.filename] = run.version
        one.runs.append(run)
    return list(found.values())


def as_facts(one: Version, changed: Changes | None) -> output.Json:
    """A version in JSON."""
    known = changed if changed is not None and not changed.problem else None
    return {
        "version": one.version,
        "first_run": output.facts(one.when),
        "runs": [run.run for run in one.runs],
        "scripts": output.facts(one.scripts),
        "before": one.before,
        "files_changed": output.facts(known.files) if known else None,
        "lines_added": known.added if known else None,
        "lines_removed": known.removed if known else None,
        "commit": output.facts(one.commit),
        "problem": changed.problem or None if changed else None,
    }


def listing(
    versions: Sequence[Version], changed: Sequence[Changes | None], earlier: int, view: screen.Screen, now: dt.datetime
) -> list[str]:
    """The versions as a table, oldest first; columns that say nothing are left out."""
    short = text.short_ids((one.version for one in versions), at_least=8)
    columns = [
        tables.Column("version", least=8, style="place"),
        tables.Column("when", least=12, weight=3),
        tables.Column("runs", align="right", least=4),
        tables.Column("script", least=10, weight=4, keep="end"),
        *(tables.Column(title, align="right", least=7) for title in ("files", "added", "removed")),
        tables.Column("changed", least=12, wish=24, weight=5, keep="words"),
        tables.Column("commit", least=9, weight=2),
    ]
    several = len({script for one in versions for script in one.scripts}) > 1
    rows: list[list[tables.Cell]] = [
        [
            short(one.version),
            text.when(one.when, now),
            f"{len(one.runs):,}",
            ", ".join(one.scripts) if several else "",
            *_counts(what),
            _which(one, what),
            _commit(one.commit),
        ]
        for one, what in zip(versions, changed, strict=True)
    ]
    used = [k for k, column in enumerate(columns) if column.weight == 0 or any(row[k] for row in rows)]
    drawn = tables.draw([columns[k] for k in used], [[row[k] for k in used] for row in rows], view)
    if not earlier:
        return drawn.lines
    return [view.paint(f"... {text.count(earlier, 'earlier version')}, --limit 0 for all", "dim"), *drawn.lines]


def _counts(changed: Changes | None) -> list[tables.Cell]:
    if changed is None or changed.problem:
        return ["" if changed is None else "?"] * 3
    return [f"{len(changed.files):,}", tables.Styled(f"+{changed.added:,}", "added"), tables.Styled(f"-{changed.removed:,}", "removed")]


def _which(one: Version, changed: Changes | None) -> tables.Cell:
    if changed is None:
        return tables.Styled(f"first of {one.scripts[0]}", "dim")
    if changed.problem:
        return tables.Styled("damaged", "odd")
    more = f" and {len(changed.files) - _NAMED_FILES:,} more" if len(changed.files) > _NAMED_FILES else ""
    return ", ".join(changed.files[:_NAMED_FILES]) + more


def _commit(git: Mapping[str, object] | None) -> str:
    """`1a2b3c4d`, with * if the tree had other changes, with ? if that could not be told."""
    if git is None:
        return ""
    mark = "?" if git.get("dirty") is None else "*" if git["dirty"] else ""
    return str(git["head"])[:COMMIT_DIGITS] + mark
