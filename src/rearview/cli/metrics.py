"""A metric of one run in a line: how it went, first, last, least, greatest, how many. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rearview.cli import output, sparkline, tables, text
from rearview.cli.screen import Screen
from rearview.cli.series import as_number


@dataclass(frozen=True, slots=True)
class Metric:
    """All recorded values of one name in one run, in order."""

    name: str
    values: Sequence[object]
    volatile: bool = False

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def first(self) -> object:
        return self.values[0] if self.values else None

    @property
    def last(self) -> object:
        return self.values[-1] if self.values else None

    def numbers(self) -> list[float | None]:
        """The values on an axis; None for what is no number."""
        return [None if isinstance(value, bool) else as_number(value) for value in self.values]

    @property
    def is_numeric(self) -> bool:
        """Whether there is anything to draw."""
        return any(number is not None for number in self.numbers())

    def _finite(self) -> list[float]:
        return [number for number in self.numbers() if number is not None and not math.isnan(number)]

    @property
    def minimum(self) -> float | None:
        """The least value that is not NaN."""
        return min(self._finite(), default=None)

    @property
    def maximum(self) -> float | None:
        """The greatest value that is not NaN."""
        return max(self._finite(), default=None)


def as_json(metric: Metric) -> output.Json:
    """A metric in JSON: the figures, not the values."""
    return {
        "name": metric.name,
        "count": metric.count,
        "first": output.plain(metric.first),
        "last": output.plain(metric.last),
        "minimum": output.plain(metric.minimum),
        "maximum": output.plain(metric.maximum),
        "volatile": metric.volatile,
    }


def table(metrics: Sequence[Metric], view: Screen) -> list[str]:
    """A line per metric, with a sparkline where there are numbers."""
    if not metrics:
        return ["nothing was logged"]
    spark = 12 if view.width < 100 else 24
    columns = [
        tables.Column("metric", least=8),
        tables.Column("", least=6, weight=3, style="place"),
        tables.Column("count", align="right", least=5, weight=2),
        tables.Column("first", align="right", least=8, weight=4),
        tables.Column("last", align="right", least=9),
        tables.Column("min", align="right", least=8, weight=1),
        tables.Column("max", align="right", least=8, weight=1),
    ]
    rows = [
        [
            metric.name + (" (volatile)" if metric.volatile else ""),
            sparkline.draw(metric.numbers(), spark) if metric.is_numeric else "",
            str(metric.count),
            *(text.shorten(text.value(value), 24) for value in (metric.first, metric.last, metric.minimum, metric.maximum)),
        ]
        for metric in metrics
    ]
    return tables.draw(columns, rows, view).lines
