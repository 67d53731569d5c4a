"""The metrics of one run, a line each: how it went, first, last, least, greatest, how many.

Knows what the catalog says of a run's series. Must not know how a page is put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rearview.cli.shown import output, sparkline, tables, text
from rearview.cli.shown.screen import Screen

if TYPE_CHECKING:
    from rearview.catalog.detail import RunDetail, Series
    from rearview.store.replays import Replay


@dataclass(frozen=True, slots=True)
class Metric:
    """What is known of one name at one place in the loops of a run."""

    name: str
    loops: tuple[str, ...] = ()
    """The loops around it, outermost first."""
    count: int | None = None
    """None if only the last value is known: of what is no number."""
    first: object = None
    last: object = None
    minimum: float | None = None
    """The least finite value."""
    maximum: float | None = None
    points: Sequence[float] = ()
    """The values, thinned: enough to draw."""
    volatile: bool = False
    """Not expected to repeat."""
    replayed: str = ""
    """The verdict of what a replay filled in; nothing for what the run recorded itself."""

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """What makes it the same metric in another run."""
        return self.name, self.loops


def of(detail: RunDetail, replays: Sequence[Replay] = ()) -> list[Metric]:
    """The metrics of a run: those with numbers, then those of which only the last value is shown. `replays`: those of the run."""
    verdicts: dict[str, dict[str, None]] = {}
    for replay in replays:
        for name in replay.names if replay.verdict != "divergent" else ():
            verdicts.setdefault(name, {})[replay.verdict_of(name)] = None
    return [replace(one, replayed=", ".join(verdicts.get(one.name, ()))) for one in _recorded(detail)]


def _recorded(detail: RunDetail) -> list[Metric]:
    last, volatile = detail.info.last, detail.volatile
    names = [one.name for one in detail.series]
    found = [_metric(one, last.get(one.name) if names.count(one.name) == 1 else None, one.name in volatile) for one in detail.series]
    return found + [Metric(name, last=value, volatile=name in volatile) for name, value in last.items() if name not in names]


def _metric(series: Series, last: object, volatile: bool) -> Metric:
    """`last`: what was logged last under the name, where that may be no number."""
    return Metric(
        series.name,
        tuple(series.shape),
        series.count,
        series.first,
        series.last if last is None else last,
        series.minimum,
        series.maximum,
        series.values,
        volatile,
    )


def as_json(metric: Metric) -> output.Json:
    """A metric in JSON: the figures, not the values."""
    return {
        "name": metric.name,
        "loops": list(metric.loops),
        "count": metric.count,
        "first": output.plain(metric.first),
        "last": output.plain(metric.last),
        "minimum": output.plain(metric.minimum),
        "maximum": output.plain(metric.maximum),
        "volatile": metric.volatile,
        "replayed": metric.replayed or None,
    }


def _mark(metric: Metric) -> str:
    """What is not simply recorded."""
    if metric.replayed:
        return f" (replayed, {metric.replayed})"
    return " (volatile)" if metric.volatile else ""


def table(metrics: Sequence[Metric], view: Screen) -> list[str]:
    """A line per metric, with a sparkline where there are numbers."""
    if not metrics:
        return ["nothing was logged"]
    narrow = view.width < 100
    spark, digits, room = (12, 4, 16) if narrow else (24, 6, 24)
    columns = [
        tables.Column("metric", least=16),
        tables.Column("in", least=6, weight=5),
        tables.Column("", least=spark, weight=3, style="place"),  # half a sparkline would lie
        tables.Column("count", align="right", least=5, weight=2),
        tables.Column("first", align="right", least=10, weight=4),
        tables.Column("last", align="right", least=10),
        tables.Column("min", align="right", least=10, weight=1),
        tables.Column("max", align="right", least=10, weight=1),
    ]
    rows = [
        [
            metric.name + _mark(metric),
            "/".join(metric.loops),
            sparkline.draw(metric.points, spark),
            "" if metric.count is None else str(metric.count),
            *(text.shorten(text.value(value, digits), room) for value in (metric.first, metric.last, metric.minimum, metric.maximum)),
        ]
        for metric in metrics
    ]
    used = [k for k, column in enumerate(columns) if column.weight == 0 or any(row[k] for row in rows)]
    return tables.draw([columns[k] for k in used], [[row[k] for k in used] for row in rows], view).lines
