"""`rearview show`: everything about one run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from rearview.cli import metrics, options, output, runs, screen, tables, text

if TYPE_CHECKING:
    from rearview.catalog.detail import RunDetail
    from rearview.catalog.runs import RunInfo

TRACEBACK_LINES = 12
Facts = list[tuple[str, tables.Cell]]


@click.command("show", short_help="Show everything about one run.")
@options.run_argument()
@options.as_json
@options.color
def command(run_ref: str, as_json: bool, color: str) -> None:
    """Show everything about one run: how it was started and ended, its source, metrics, environment, bytes on disk."""
    from rearview.cli import opening

    with opening.catalog() as catalog:
        run = catalog.run(run_ref)
        detail = catalog.run_detail(run.run)
    found = list(metrics.of(detail).values())
    if as_json:
        facts = output.facts(detail)
        assert isinstance(facts, dict)
        facts.pop("info", None)
        facts.pop("series", None)
        output.write("rearview.show/1", run=runs.as_facts(run), metrics=[metrics.as_json(one) for one in found], detail=facts)
    else:
        screen.write(page(run, detail, found, screen.of_stdout(color)))


def page(run: RunInfo, detail: RunDetail, found: Sequence[metrics.Metric], view: screen.Screen) -> list[str]:
    """The page, section by section; a section with nothing to say is left out."""
    lines = tables.facts(_header(run, detail), view)
    lines += _section("args", [text.pairs({name: value}, each=400) for name, value in run.args.items()], view)
    lines += _section("metrics", metrics.table(found, _narrower(view)), view)
    lines += _section("ended with an exception", _exception(detail), view)
    lines += _section("environment", tables.facts(_environment(detail.environment), _narrower(view)), view)
    lines += _section("processes", _processes(detail, view), view)
    lines += _section("worth knowing", _remarks(detail, _narrower(view)), view)
    return lines


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
        ("recorded", f"{text.count(run.records, 'record')}, {text.size(run.size_bytes)} on disk"),
    ]
    return [(name, cell) for name, cell in facts if cell]


def _git(git: Mapping[str, object] | None) -> str:
    if not git:
        return ""
    head = str(git.get("head") or "no commit yet")[:12]
    branch = git.get("branch")
    dirty = "with changes that were not committed" if git.get("dirty") else "clean"
    return f"{head} on {branch}, {dirty}" if branch else f"{head} (detached), {dirty}"


def _exception(detail: RunDetail) -> list[str]:
    if not detail.exception:
        return []
    tail = text.escape_lines((detail.traceback or "").rstrip("\n"))
    shown = tail[-TRACEBACK_LINES:] if tail != [""] else []
    if len(tail) > len(shown) and shown:
        shown = [f"... {text.count(len(tail) - len(shown), 'line')} above, --json has them", *shown]
    return shown or [text.escape(f"{detail.exception}: {detail.message or ''}")]


def _environment(environment: Mapping[str, object]) -> Facts:
    facts: Facts = []
    for name, value in environment.items():
        if name == "packages" and isinstance(value, Mapping):
            facts.append((name, ", ".join(f"{package} {version}" for package, version in value.items())))
        elif isinstance(value, Mapping):
            facts.append((name, " ".join(f"{key}={text.value(item)}" for key, item in value.items())))
        else:
            facts.append((name, text.value(value)))
    return [(name, cell) for name, cell in facts if cell]


def _processes(detail: RunDetail, view: screen.Screen) -> list[str]:
    return [str(process) for process in detail.processes]


def _remarks(detail: RunDetail, view: screen.Screen) -> list[str]:
    """What did not go as one might think: one sentence each."""
    said = [f"{name} could not be stored: {kind}" for name, kind in detail.unstorable]
    if detail.unasked:
        said.append(f"given but never asked for: {', '.join(detail.unasked)}")
    said += [f"damaged: {line}" for line in detail.damage]
    return [piece for line in said for piece in tables.wrap(text.escape(line), view.width)]
