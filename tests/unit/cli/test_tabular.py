"""A table of values on a screen: what a narrow one leaves out first."""

from __future__ import annotations

from rearview.catalog.tables.table import Column, RowData, Table
from rearview.cli import screen, tabular

COLUMNS = {"projid": "project", "run": "rcrxabx424yqb", "filename": "train.py", "epoch": 0, "acc": 0.583984, "acc.origin": "recorded",
           "grad_norm": 0.190788, "grad_norm.origin": "replayed", "grad_norm.verdict": "identical"}  # fmt: skip


def drawn(width: int) -> list[str]:
    table = Table([Column(name, "text", None) for name in COLUMNS], RowData(len(COLUMNS), [tuple(COLUMNS.values())]), [])
    return tabular.show(table, screen.Screen(width, 24, terminal=False, colour=False), None)


def test_a_verdict_stays_where_its_origin_has_no_room() -> None:
    head, row, *foot = drawn(80)
    assert "grad_norm.verdict" in head and row.endswith("identical") and max(map(len, (head, row))) <= 80
    assert "grad_norm.origin" not in head and "grad_norm.origin" in " ".join(foot)
    assert "grad_norm.origin" in drawn(120)[0]
