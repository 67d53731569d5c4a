"""`rearview diff`: what differs between two runs; between two versions, or a run and a version, the code alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rearview.cli import options, reference
from rearview.cli.shown import compare, metrics, output, patch, screen, tables, text
from rearview.cli.shown.series import DIMENSIONS, as_number
from rearview.errors import EXIT_DIFFERENCES, EXIT_OK, RearviewError

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog
    from rearview.catalog.runs import RunInfo
    from rearview.store.layout import Store

BY_CHANCE = frozenset({"variables.PYTHONHASHSEED"})
"""Shown, but no difference: `rearview run` draws a hash seed for each run where none is set."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side."""

    left: RunInfo
    right: RunInfo
    args: list[compare.Difference]
    environment: list[compare.Difference]
    code: str
    """A unified diff, empty if the versions are the same."""
    code_problem: str
    """Why the code could not be compared, or empty."""
    metrics: list[compare.MetricPair]

    @property
    def differs(self) -> bool:
        """Whether anything differs that was expected to repeat."""
        expected = [pair for pair in self.metrics if pair.differs and not pair.volatile]
        meant = [one for one in self.environment if one.name not in BY_CHANCE]
        return bool(self.args or meant or self.code or self.code_problem or expected)


@click.command("diff", short_help="Compare two runs, or the code of two versions.")
@options.run_argument("left_ref", metavar="RUN|VERSION")
@options.run_argument("right_ref", metavar="RUN|VERSION")
@click.option("--full", is_flag=True, help="Show new and removed files whole, and on a terminal lines that are wider than it.")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, left_ref: str, right_ref: str, full: bool, as_json: bool, color: str) -> None:
    """Compare two runs: args, environment, code as a unified diff, metrics side by side.

    With a version (v and at least four digits of its id) on either side, the code alone. Exit code 0 if nothing differs, 1 if
    something does. Values marked volatile and the hash seed are shown but do not count.
    """
    from rearview.cli import opening

    with opening.catalog() as catalog:
        left, right = reference.meant(catalog, left_ref), reference.meant(catalog, right_ref)
        if left.run is None or right.run is None:
            ctx.exit(_code_alone(catalog.store, left, right, screen.of_stdout(color), full, as_json))
        found = _compared(catalog, left.run, right.run)
    if as_json:
        _write_json(found)
    else:
        screen.write(_page(found, screen.of_stdout(color), full))
    ctx.exit(EXIT_DIFFERENCES if found.differs else EXIT_OK)


def _code_alone(store: Store, left: reference.Meant, right: reference.Meant, view: screen.Screen, full: bool, as_json: bool) -> int:
    """Show how two versions differ; the exit code."""
    from rearview.versions import read

    versions = [reference.source_of(one) for one in (left, right)]
    diff = read.diff(store, versions[0], versions[1])
    if as_json:
        sides = [{"run": one.run.run if one.run else None, "version": one.version} for one in (left, right)]
        output.write("rearview.code-diff/1", left=output.facts(sides[0]), right=output.facts(sides[1]), differs=bool(diff), diff=diff)
        return EXIT_DIFFERENCES if diff else EXIT_OK
    heads = [f"version {one.version}{f'  of run {one.run.run}' if one.run else ''}" for one in (left, right)]
    lines = [f"{view.paint(side, 'dim')}  {head}" for side, head in zip(("left ", "right"), heads, strict=True)]
    screen.write([*lines, "", *(patch.lines(diff, view, full) or ["the same code"])])
    return EXIT_DIFFERENCES if diff else EXIT_OK


def _compared(catalog: Catalog, left: RunInfo, right: RunInfo) -> Comparison:
    details = [catalog.run_detail(run.run) for run in (left, right)]
    ran_in = [compare.flat(detail.environment) for detail in details]
    series = [metrics.of(detail) for detail in details]
    dimensions = len(DIMENSIONS)

    def differ(name: str) -> bool:
        tables_of = [catalog.table([name], run=run.run) for run in (left, right)]
        ours, theirs = ([row[dimensions:] for row in table.rows()] for table in tables_of)
        return tables_of[0].names != tables_of[1].names or compare.rows_differ(ours, theirs)

    code, problem = _code(catalog.store, left, right)
    return Comparison(
        left,
        right,
        compare.differences(left.args, right.args),
        compare.differences(*ran_in),
        code,
        problem,
        compare.pair_metrics(series[0], series[1], differ),
    )


def _code(store: Store, left: RunInfo, right: RunInfo) -> tuple[str, str]:
    from rearview.model import VersionId
    from rearview.versions import read

    if left.version == right.version:
        return "", ""
    if not left.version or not right.version:
        return "", f"run {left.run if not left.version else right.run} has no version"
    try:
        return read.diff(store, VersionId(left.version), VersionId(right.version)), ""
    except RearviewError as problem:  # the rest of the comparison stands without it
        return "", str(problem)


def _write_json(found: Comparison) -> None:
    def sides(differences: Sequence[compare.Difference]) -> output.Json:
        return [{"name": one.name, **there(one), **({"by_chance": True} if one.name in BY_CHANCE else {})} for one in differences]

    def there(one: compare.Difference) -> dict[str, output.Json]:
        has = {"left": one.has_left, "right": one.has_right}
        return {side: output.plain(getattr(one, side)) for side in has if has[side]}

    def side(metric: metrics.Metric | None) -> output.Json:
        return None if metric is None else metrics.as_json(metric)

    output.write(
        "rearview.diff/1",
        left=found.left.run,
        right=found.right.run,
        differs=found.differs,
        args=sides(found.args),
        environment=sides(found.environment),
        code={"left": found.left.version, "right": found.right.version, "diff": found.code, "problem": found.code_problem or None},
        metrics=[
            {"name": pair.name, "differs": pair.differs, "volatile": pair.volatile, "left": side(pair.left), "right": side(pair.right)}
            for pair in found.metrics
        ],
    )


def _page(found: Comparison, view: screen.Screen, full: bool) -> list[str]:
    lines = [_heading("left ", found.left, view), _heading("right", found.right, view)]
    lines += _section("args", _sides(found.args, view), view)
    lines += _section("environment", [*_sides(found.environment, view), *_by_chance(found.environment, view)], view)
    lines += _section("code", _code_lines(found, view, full), view)
    return lines + _section("metrics", _metric_lines(found.metrics, view), view)


def _heading(side: str, run: RunInfo, view: screen.Screen) -> str:
    facts = [run.run, text.escape(run.name or ""), text.moment(run.tstamp), text.escape(run.filename or ""), run.status]
    return f"{view.paint(side, 'dim')}  " + text.shorten("  ".join(fact for fact in facts if fact), view.width - 8)


def _section(title: str, lines: Sequence[str], view: screen.Screen) -> list[str]:
    return ["", view.paint(title, "head"), *(f"  {line}" if line else "" for line in lines or ["the same"])]


def _narrower(view: screen.Screen) -> screen.Screen:
    """Room for what stands indented by two."""
    return screen.Screen(view.width - 2, view.height, view.terminal, view.colour)


def _sides(differences: Sequence[compare.Difference], view: screen.Screen) -> list[str]:
    if not differences:
        return []
    columns = [tables.Column("name", least=12, keep="end"), tables.Column("left", least=12), tables.Column("right", least=12)]
    rows: list[list[tables.Cell]] = [
        [
            one.name,
            tables.Styled(_side(one.left, one.has_left), "removed" if one.has_left else "dim"),
            tables.Styled(_side(one.right, one.has_right), "added" if one.has_right else "dim"),
        ]
        for one in differences
    ]
    return tables.draw(columns, rows, _narrower(view)).lines


def _by_chance(differences: Sequence[compare.Difference], view: screen.Screen) -> list[str]:
    drawn = [one.name for one in differences if one.name in BY_CHANCE]
    said = f"{', '.join(drawn)}: drawn for each run, no difference" if drawn else ""
    return [view.paint(line, "dim") for line in tables.wrap(said, view.width - 2)] if said else []


def _side(value: object, there: bool) -> str:
    if not there:
        return "(not there)"
    return "None" if value is None else repr(value) if isinstance(value, str) else text.value(value)


def _code_lines(found: Comparison, view: screen.Screen, full: bool) -> list[str]:
    if found.code_problem:
        return [f"could not be compared: {text.escape(found.code_problem)}"]
    lines = patch.lines(found.code, _narrower(view), full)
    if not lines and found.left.version != found.right.version:
        return ["the same files in two versions"]
    return lines


def _metric_lines(pairs: Sequence[compare.MetricPair], view: screen.Screen) -> list[str]:
    if not pairs:
        return ["none"]
    columns = [
        tables.Column("name", least=10),
        *(tables.Column(title, align="right", least=10) for title in ("last left", "last right")),
        tables.Column("change", align="right", least=10, weight=1),
        *(tables.Column(title, align="right", least=18, weight=weight) for title, weight in (("min", 3), ("max", 2))),
        tables.Column("count", align="right", least=5, weight=4),
        tables.Column("", least=8),
    ]
    return tables.draw(columns, [_metric_row(pair) for pair in pairs], _narrower(view)).lines


def _metric_row(pair: compare.MetricPair) -> list[tables.Cell]:
    sides = (pair.left, pair.right)
    last = [text.shorten(text.value(side.last), 24) if side else "" for side in sides]
    ends = [(side.minimum, side.maximum) if side else (None, None) for side in sides]
    least, most = (_both(*(text.value(end, 4) for end in pair)) for pair in zip(*ends, strict=True))
    verdict = "same" if not pair.differs else "volatile" if pair.volatile else "differs"
    style = {"same": "dim", "volatile": "dim", "differs": "odd"}[verdict]
    count = _both(*("" if side is None or side.count is None else str(side.count) for side in sides))
    return [pair.name, *last, _change(pair), least, most, count, tables.Styled(verdict, style)]


def _both(left: str, right: str) -> str:
    """Both sides in one cell, once if they are the same."""
    return left if left == right else f"{left or '-'} / {right or '-'}"


def _change(pair: compare.MetricPair) -> str:
    """From the left end to the right; between ints exact, whatever their size."""
    if pair.left is None or pair.right is None:
        return ""
    if isinstance(pair.left.last, int) and isinstance(pair.right.last, int):
        by = pair.right.last - pair.left.last
        return f"{'-' if by < 0 else '+'}{text.integer(abs(by))}"
    left, right = as_number(pair.left.last), as_number(pair.right.last)
    return "" if left is None or right is None else f"{right - left:+.4g}"
