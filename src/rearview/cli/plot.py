"""`rearview plot`: logged values as lines, in the terminal or as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rearview.cli import options
from rearview.cli.shown import chart, output, screen, text
from rearview.cli.shown.series import Drawable
from rearview.errors import NotFound, UsageError

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog
    from rearview.catalog.runs import RunInfo

LIMIT = 12
NAME, ARGS = 28, 36
"""Columns that a run's name and its args may take in the label of a line: a legend must leave room for the picture."""
COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue", "bright_cyan", "bright_yellow", "bright_magenta", "bright_green")


@click.command("plot", short_help="Draw logged values, one line per run.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--x", "x", metavar="NAME", help="Draw against this loop or logged name.")
@options.in_run
@options.where
@options.limit(LIMIT, f"At most N runs, the newest; 0 for all.  [default: {LIMIT}]")
@click.option("-o", "--output", "to", metavar="FILE", type=click.Path(path_type=Path), help="Write a .png, .svg or .html file instead.")
@options.as_json
@options.color
def command(
    names: tuple[str, ...],
    x: str | None,
    run_ref: str | None,
    where: str | None,
    limit: int,
    to: Path | None,
    as_json: bool,
    color: str,
) -> None:
    """Draw a chart per NAME with one line per run.

    Across goes the innermost loop if its numbers rise within each run, else the number of the value in its run; --x
    names another. Pictures need matplotlib (`pip install rearview-ml[plot]`).
    """
    from rearview.cli import opening, target
    from rearview.cli.shown import figure

    if to is not None and as_json:
        raise UsageError("--json and -o exclude each other: choose one")
    kind = figure.kind_of(to) if to is not None else ""
    if to is not None:
        target.check(to, kind)
    with opening.catalog() as catalog:
        drawables = [_drawable(catalog, name, x, run_ref, where, limit) for name in names]
        drawn = {series.run for drawable in drawables for series in drawable.series}
        runs = {str(run.run): run for run in catalog.runs() if run.run in drawn}
    if not drawn:
        raise NotFound(_nothing(drawables, bool(where or run_ref)))
    for note in (note for drawable in drawables for note in _left_out(drawable)):
        screen.note(f"rearview: {note}")
    labels = _labels(runs)
    if as_json:
        output.write("rearview.plot/1", charts=[_as_json(drawable) for drawable in drawables])
    elif to is not None:
        panels = [figure.Panel(d.name, d.x_title, _lines(d, labels)) for d in drawables]
        picture = figure.render(panels, kind)
        with target.written(to):
            to.write_bytes(picture)
        screen.note(f"wrote {text.escape(str(to))}")
    else:
        view = screen.of_stdout(color)
        for drawable in drawables:
            screen.write(_in_terminal(drawable, labels, view))


def _drawable(catalog: Catalog, name: str, x: str | None, run: str | None, where: str | None, limit: int) -> Drawable:
    from rearview.cli.shown import series, tabular

    asked = [name]
    table = catalog.table(asked, where=where, run=run)
    if x is not None and x not in table.names:  # no loop around the name, so a name that was logged too
        if not _was_logged(catalog, x):  # a loop around other names
            beside = series.drawable(asked, table.names, table.rows(), None)
            return Drawable(name, x, [], beside.not_numbers, sum(len(one.points) for one in beside.series))
        asked = [name, x]
        table = catalog.table(asked, where=where, run=run)
    tabular.notes(table)
    found = series.drawable(asked, table.names, table.rows(), x)
    runs = list(dict.fromkeys(one.run for one in found.series))
    newest = set(runs[-limit:] if limit else runs)
    if len(newest) < len(runs):
        earlier = text.count(len(runs) - len(newest), "earlier run")
        screen.note(f"rearview: {earlier} of {text.escape(name)} not drawn, --limit 0 for all")
    shown = [one for one in found.series if one.run in newest]
    return Drawable(found.name, found.x_title, shown, found.not_numbers, found.off_axis)


def _was_logged(catalog: Catalog, x: str) -> bool:
    """Whether a name was logged; if not, it is a loop somewhere, or it is not known at all and said to be so."""
    import difflib

    known = catalog.names()
    logged = {one.name for one in known}
    loops = {loop for one in known for loop in one.shape}
    if x in logged or x in loops:
        return x in logged
    near = difflib.get_close_matches(x, sorted(logged | loops), 3)
    hint = f"did you mean {', '.join(near)}?" if near else "`rearview show last` lists what the newest run logged"
    raise NotFound(f"nothing was logged as {x!r}, and no loop is called so: {hint}")


def _nothing(drawables: Sequence[Drawable], chosen: bool) -> str:
    there = " there" if chosen else ""
    beside = [drawable.name for drawable in drawables if drawable.off_axis]
    if beside:
        return f"nothing to draw: {drawables[0].x_title} has no numbers beside {', '.join(beside)}{there}"
    return f"nothing to draw: no numbers were logged as {', '.join(drawable.name for drawable in drawables)}{there}"


def _left_out(drawable: Drawable) -> list[str]:
    why = {"not a number": drawable.not_numbers, f"no number of {text.escape(drawable.x_title)} beside them": drawable.off_axis}
    return [f"{text.count(many, 'value')} of {text.escape(drawable.name)} left out: {reason}" for reason, many in why.items() if many]


def _labels(runs: Mapping[str, RunInfo]) -> dict[str, str]:
    """What tells the lines apart: id, name, and the args in which the runs differ."""
    short = text.short_ids(runs)
    names = {name for run in runs.values() for name in run.args}
    differ = [name for name in sorted(names) if len({repr(run.args.get(name)) for run in runs.values()}) > 1]
    labels = {}
    for key, run in runs.items():
        args = text.pairs({name: run.args[name] for name in differ if name in run.args}, ARGS)
        labels[key] = "  ".join(part for part in (short(key), text.shorten(text.escape(run.name or ""), NAME), args) if part)
    return labels


def _lines(drawable: Drawable, labels: Mapping[str, str]) -> list[chart.Line]:
    return [chart.Line(labels[one.run] + (f"  process {one.process}" if one.process else ""), one.points) for one in drawable.series]


def _as_json(drawable: Drawable) -> output.Json:
    series = [
        {"run": one.run, "process": one.process or None, "x": [x for x, _ in one.points], "y": [y for _, y in one.points]}
        for one in drawable.series
    ]
    return {"name": drawable.name, "x": drawable.x_title, "series": output.facts(series)}


def _in_terminal(drawable: Drawable, labels: Mapping[str, str], view: screen.Screen) -> list[str]:
    lines = _lines(drawable, labels)
    across = text.shorten(text.escape(drawable.x_title), view.width // 3)
    title = f"{text.shorten(text.escape(drawable.name), view.width - text.width(across) - 5)}  by {across}"
    height = max(6, min(16, view.height - len(lines) - 6))
    paint = (lambda char, k: view.paint(char, COLOURS[k % len(COLOURS)])) if view.colour else None
    return [view.paint(title, "head"), *chart.draw(lines, view.width, height, paint), *_legend(lines, view)]


def _legend(lines: Sequence[chart.Line], view: screen.Screen) -> list[str]:
    shown = []
    for k, line in enumerate(lines):
        letter = chart.LETTERS[k % len(chart.LETTERS)] if len(lines) > 1 and not view.colour else "━━"
        label = text.shorten(text.escape(line.label), view.width - 6)
        shown.append(f"  {view.paint(letter, COLOURS[k % len(COLOURS)])} {label}")
    if len(lines) > 1 and not view.colour:
        shown.append("  * several of them")
    return shown
