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


@pytest.fixture
def alike(tmp_path: Path) -> Iterator[Catalog]:
    """A loop that is called like a name which other runs logged: at the top, and as an argument."""
    builder = StoreBuilder(tmp_path)
    loop = builder.run(name="loop").process()
    loop.arg("lr", 0.1)
    for epoch in loop.loop("epoch", range(3)):
        loop.log("m", 10 * epoch)
    loop.end()
    value = builder.run(name="value").process()
    value.log("epoch", 7)
    value.log("m", 70)
    value.end()
    arg = builder.run(name="arg").process()
    arg.arg("epoch", 9)
    arg.log("m", 90)
    arg.end()
    with Catalog(builder.store) as catalog:
        yield catalog


def test_a_loop_called_like_a_name_of_another_run(alike: Catalog) -> None:
    """Each run by its own table: what others logged neither hides nor adds anything."""

    def names(where: str) -> list[str | None]:
        return [run.name for run in alike.runs(where=where, newest_first=False)]

    assert names("epoch = 1") == names("epoch = 1 and lr < 1") == names("EPOCH = 1") == ["loop"]
    assert names("epoch = 1 and m = 10") == ["loop"] and names("epoch = 1 and m = 20") == []
    assert names("epoch = 7") == names("epoch = 7 and m = 70") == names("epoch_value = 7") == ["value"]
    assert names("epoch = 9") == names("m = 90 and epoch > 8") == ["arg"]
    assert names("max(epoch) = 2") == ["loop"] and names("max(epoch) = 7") == ["value"]
    assert names("max(epoch) > 1") == ["loop", "value", "arg"]
    assert names("epoch IS NULL") == [] and names("not epoch = 1") == ["loop", "value", "arg"]


def test_the_table_has_the_loop_if_it_has_one(alike: Catalog) -> None:
    def values(name: str, where: str) -> list[object]:
        return [row[name] for row in alike.table([name], where=where).dicts()]

    assert values("m", "epoch = 1") == [10] and values("m", "epoch = 7") == [] and values("m", "epoch_value = 7") == [70]
    assert values("m", "max(epoch) = 2") == [0, 10, 20], "also inside an aggregate"
    assert values("epoch", "epoch > 7") == [9] and values("epoch", "max(epoch) = 7") == [7]
