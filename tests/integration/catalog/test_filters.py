"""A filter takes rows away. It never makes rows or columns, whatever else it mentions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rearview.catalog import Catalog
from rearview.testing.stores import StoreBuilder


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    builder = StoreBuilder(tmp_path)
    for number in range(2):
        process = builder.run(name=f"n{number}").process()
        process.arg("lr", 0.1 * number)
        for epoch in process.loop("epoch", range(3)):
            for step in process.loop("step", range(2)):
                process.log("loss", epoch + step / 2)
            process.log("acc", 0.5)
            if epoch == 2:
                process.log("acc", 0.5)
        for k in process.loop("eval", range(4)):
            process.log("b", 10 * number + k)
        process.end()
    empty = builder.run(name="empty").process()
    empty.end()
    with Catalog(builder.store) as catalog:
        yield catalog


def rows(catalog: Catalog, where: str | None, run: str | None = "n1") -> list[tuple[object, object]]:
    table = catalog.table(["acc"], where=where, run=run)
    assert table.names == ["projid", "run", "tstamp", "filename", "epoch", "acc"]
    return [(row["epoch"], row["acc"]) for row in table.dicts()]


def test_aggregates_of_other_names(catalog: Catalog) -> None:
    plain = [(0, 0.5), (1, 0.5), (2, 0.5), (2, 0.5)]
    assert rows(catalog, None) == rows(catalog, "max(b) > 10") == rows(catalog, "max(loss) = 2.5 and lr > 0") == plain
    assert len(rows(catalog, "max(b) > 10", None)) == 4 and rows(catalog, "max(b) > 10", "n0") == []
    assert rows(catalog, "epoch = 1 and sum(b) = 46 and count(loss) = 6") == [(1, 0.5)]
    assert rows(catalog, "count(acc) = 4 and avg(loss) = 1.25 and avg(acc) = 0.5") == plain, "each over its own rows"


def test_deeper_rows_decide(catalog: Catalog) -> None:
    assert rows(catalog, "loss < 1") == [(0, 0.5)]
    assert rows(catalog, "loss >= 1.5") == [(1, 0.5), (2, 0.5), (2, 0.5)]
    assert rows(catalog, "step = 1 and loss = 2") == [] and rows(catalog, "step = 0 and loss = 2") == [(2, 0.5), (2, 0.5)]
    assert rows(catalog, "loss > 0 and acc > 0.5") == [] and rows(catalog, "b > 10") == []
    assert rows(catalog, "loss = 0 or count(b) > 100") == [(0, 0.5)]


def test_arguments_by_what_was_logged(catalog: Catalog) -> None:
    def args(where: str) -> list[object]:
        return [row["lr"] for row in catalog.table(["lr"], where=where).dicts()]

    assert args("b > 12") == [0.1] and args("loss > 1") == [0.0, 0.1] and args("epoch = 2") == [0.0, 0.1] and args("epoch = 3") == []
    assert args("max(b) < 10") == [0.0] and args("process = '0'") == [0.0, 0.1]


def test_runs_by_process_and_by_count(catalog: Catalog) -> None:
    def names(where: str) -> list[str | None]:
        return [run.name for run in catalog.runs(where=where, newest_first=False)]

    assert names("process = '0'") == ["n0", "n1"] and names("process = '0' and lr = 0.1") == ["n1"] and names("process = '1'") == []
    (count,) = {count for (count,) in catalog.sql("SELECT count(*) FROM wide GROUP BY run").rows()}
    assert names(f"count(*) = {count}") == ["n0", "n1"] and names("count(*) = 0") == ["empty"]
    assert names(f"count(*) = {count} and max(b) > 10") == ["n1"] and names("count(b) = 4 and b = 3") == ["n0"]
    assert names("max(epoch) = 2") == ["n0", "n1"]
