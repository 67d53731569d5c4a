"""A table of values on a screen: what a narrow one leaves out first."""

from __future__ import annotations

import datetime as dt

from rearview.catalog.tables.table import Column, RowData, Table
from rearview.cli.shown import screen, tabular

COLUMNS = {"projid": "project", "run": "rcrxabx424yqb", "filename": "train.py", "epoch": 0, "acc": 0.583984, "acc.origin": "recorded",
           "grad_norm": 0.190788, "grad_norm.origin": "replayed", "grad_norm.verdict": "identical"}  # fmt: skip


def drawn(width: int, columns: dict[str, object] = COLUMNS) -> list[str]:
    table = Table([Column(name, "text", None) for name in columns], RowData(len(columns), [tuple(columns.values())]), [])
    return tabular.show(table, screen.Screen(width, 24, terminal=False, colour=False), None)


def test_a_verdict_stays_where_its_origin_has_no_room() -> None:
    head, row, *foot = drawn(80)
    assert "grad_norm.verdict" in head and row.endswith("identical") and max(map(len, (head, row))) <= 80
    assert "grad_norm.origin" not in head and "grad_norm.origin" in " ".join(foot)
    assert "grad_norm.origin" in drawn(120)[0]


def test_a_moment_and_a_heading_of_a_dimension_are_whole_or_not_there() -> None:
    moment = dt.datetime(2001, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    columns = {"run": "rcrxabx424yqb", "tstamp": moment, "filename": "train.py", "grad_norm": 0.190788, "seen": moment}
    for width in range(20, 90):
        head, row, *foot = drawn(width, columns)
        assert "…" not in head, head
        assert (row.count(str(moment.year)) == head.count("seen") + head.count("tstamp")) and "2001…" not in row and "-…" not in row, row
        told = head.split() + " ".join(foot).replace(",", "").split()
        assert set(columns) <= set(told)
