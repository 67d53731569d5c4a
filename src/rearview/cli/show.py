"""`rearview show`: everything about one run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from rearview.cli import options, runs
from rearview.cli.shown import attempts, cadence, metrics, output, screen, tables, text
from rearview.errors import EXIT_DIFFERENCES, EXIT_OK

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog
    from rearview.catalog.detail import RunDetail
    from rearview.catalog.runs import RunInfo

TRACEBACK_LINES = 12
PACKAGE_LINES = 4
Facts = list[tuple[str, tables.Cell]]


@click.command("show", short_help="Show everything about one run.")
@options.run_argument()
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, run_ref: str, as_json: bool, color: str) -> None:
    """Show everything about one run: how it was started and ended, its source, metrics, environment, bytes on disk.

    The exit code is 1 if bytes of the run are damaged.
    """
    from rearview.cli import opening

    with opening.catalog() as catalog:
        run = catalog.run(run_ref)
        detail = catalog.run_detail(run.run)
        found = metrics.of(detail, catalog.replays(run.run))
        others = _only_others(catalog, detail, found)
    if as_json:
        facts = output.facts(detail)
        assert isinstance(facts, dict)
        rest = {name: fact for name, fact in facts.items() if name not in ("info", "series")}
        output.write(
            "rearview.show/1", run=runs.as_facts(run), metrics=[metrics.as_json(one) for one in found], other_names=list(others), **rest
        )
    else:
        screen.write(page(run, detail, found, screen.of_stdout(color), others))
    ctx.exit(EXIT_DIFFERENCES if detail.damage else EXIT_OK)


def _only_others(catalog: Catalog, detail: RunDetail, found: Sequence[metrics.Metric]) -> list[str]:
    """The names that processes other than the main one logged, and it did not: metrics are the main process's."""
    if len({one.process for one in detail.processes}) < 2:
        return []
    rows = catalog.sql(f"SELECT DISTINCT value_name FROM logs WHERE run = '{detail.info.run}' AND NOT is_arg").rows()
    return sorted({name for (name,) in rows} - {one.name for one in found})


def page(run: RunInfo, detail: RunDetail, found: Sequence[metrics.Metric], view: screen.Screen, others: Sequence[str] = ()) -> list[str]:
    """The page, section by section; a section with nothing to say is left out."""
    inner = _narrower(view)
    given = {True: "", False: "  (default)"}
    args: Facts = [(name, text.shorten(_typed(value), 400) + given[name in run.given]) for name, value in run.args.items()]
    lines = tables.facts(_header(run, detail), view)
    lines += _section("args", tables.facts(args, inner), view)
    also = tables.wrap(f"also logged by other processes: {', '.join(map(text.escape, others))}", inner.width) if others else []
    lines += _section("metrics", metrics.table(found, inner) + also, view)
    lines += _section("attempts", attempts.listing(detail.attempts, runs.how_it_ended(run), inner), view)
    lines += _section("checkpoints", cadence.lines(detail, inner), view)
    lines += _section("exception", _exception(detail), view)
    lines += _section("environment", tables.facts(_environment(detail.environment, inner.width), inner, label=14), view)
    lines += _section("processes", _processes(detail, inner), view)
    return lines + _section("worth knowing", _remarks(detail, inner), view)


def _typed(value: object) -> str:
    return repr(value) if isinstance(value, str) or value is None else text.value(value)


def _section(title: str, lines: Sequence[str], view: screen.Screen) -> list[str]:
    return ["", view.paint(title, "head"), *(f"  {line}" for line in lines)] if lines else []


def _narrower(view: screen.Screen) -> screen.Screen:
    return screen.Screen(view.width - 2, view.height, view.terminal, view.colour)


def _header(run: RunInfo, detail: RunDetail) -> Facts:
    took = f" after {text.duration(run.duration_s)}" if run.duration_s is not None else ""
    facts: Facts = [
        ("run", tables.Styled(run.run, "place")),
        ("name", run.name or ""),
        ("tags", ", ".join(run.tags)),
        ("notes", run.notes or ""),
        ("began", text.moment(run.tstamp)),
        ("ended", tables.Styled(runs.how_it_ended(run) + took, runs.STATUS_STYLES.get(run.status, ""))),
        ("script", f"{run.filename or ''} ({run.how})"),
        ("argv", shlex.join(run.argv)),
        ("version", run.version or "(none)"),
        ("git", _git(detail.git)),
        ("parent", run.parent or ""),
        ("place", f"run {run.place + 1} of its process" if run.place else ""),
        ("project", run.projid or ""),
        ("recorded", _recorded(run, detail)),
    ]
    return [(name, cell) for name, cell in facts if cell]


def _recorded(run: RunInfo, detail: RunDetail) -> tables.Cell:
    kept = f"{text.count(run.records, 'record')}, {text.size(detail.size_bytes)} on disk"
    if not run.lost:
        return kept
    return tables.Styled(f"{kept}; {text.count(run.lost, 'record')} could not be written", "odd")


def _git(git: Mapping[str, object] | None) -> str:
    if not git:
        return ""
    head = str(git["head"])[:12] if git.get("head") else "no commit yet"
    branch = git.get("branch")
    dirty = "with changes that were not committed" if git.get("dirty") else "clean"
    return f"{head} on {branch}, {dirty}" if branch else f"{head} (detached), {dirty}"


def _exception(detail: RunDetail) -> list[str]:
    if not detail.exception:
        return []
    tail = text.escape_lines(str(detail.exception.get("traceback") or "").rstrip("\n"))
    shown = tail[-TRACEBACK_LINES:] if tail != [""] else []
    if len(tail) > len(shown) and shown:
        shown = [f"... {text.count(len(tail) - len(shown), 'line')} above, --json has them", *shown]
    kind, message = detail.exception.get("exception"), detail.exception.get("message")
    return shown or ([text.escape(f"{kind}: {message or ''}")] if kind else [])


def _environment(environment: Mapping[str, object], width: int) -> Facts:
    facts: Facts = []
    for name, value in environment.items():
        if name == "packages" and isinstance(value, Mapping):
            listed = ", ".join(f"{package} {version}" for package, version in value.items())
            facts.append((name, text.shorten(text.escape(listed), PACKAGE_LINES * (width - 20))))
        elif isinstance(value, Mapping):
            facts.append((name, " ".join(f"{key}={text.value(item)}" for key, item in value.items())))
        else:
            facts.append((name, text.value(value)))
    return [(name, cell) for name, cell in facts if cell]


def _processes(detail: RunDetail, view: screen.Screen) -> list[str]:
    """A line per process, where there is more than the one process of one attempt."""
    if len(detail.processes) < 2 and all(one.attempt == 1 for one in detail.processes):
        return []
    columns = [
        tables.Column("process"),
        *(tables.Column(title, align="right", weight=1) for title in ("attempt", "rank")),
        tables.Column("host", weight=2),
        *(tables.Column(title, align="right", weight=1) for title in ("pid", "records", "size")),
    ]
    rows = [
        [
            one.process,
            str(one.attempt),
            "" if one.rank is None else str(one.rank),
            one.host,
            "" if one.pid is None else str(one.pid),
            f"{one.records:,}",
            text.size(one.size_bytes),
        ]
        for one in detail.processes
    ]
    return tables.draw(columns, rows, view).lines


def _remarks(detail: RunDetail, view: screen.Screen) -> list[str]:
    """What did not go as one might think: one sentence each."""
    said = attempts.sentences(detail.overlap, detail.info.status == "finished") + attempts.inexact(detail.inexact)
    said += [f"{one.get('name')} could not be stored: {one.get('type')}" for one in detail.unstorable]
    if detail.unasked:
        said.append(f"given, but the program never asked for it: {', '.join(detail.unasked)}")
    said += [f"{one.get('path')}: {one.get('why')}" for one in detail.sources]
    said += [f"the version became {str(one.get('version'))[:8]}: {one.get('why')}" for one in detail.versions]
    said += [f"damaged: {line}" for line in detail.damage]
    return [piece for line in said for piece in tables.wrap(text.escape(line), view.width)]
