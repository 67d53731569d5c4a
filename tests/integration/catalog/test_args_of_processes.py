"""An argument belongs to the process that asked for it: ranks may differ, workers show what their rank has."""

from __future__ import annotations

from pathlib import Path

import pytest

from rearview.catalog import Catalog
from rearview.testing.stores import StoreBuilder


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    builder = StoreBuilder(tmp_path)
    run = builder.run()
    for number, seed in (("0", 100), ("1", 101), ("0.2", None), ("1.1.1", None), ("2", None)):
        process = run.process(number)
        if seed is not None:
            process.arg("lr", 0.1)
            process.arg("seed", seed)
        process.log("x", 1)
        process.end()
    return builder


def test_rows_show_the_value_of_their_process(builder: StoreBuilder) -> None:
    with Catalog(builder.store) as catalog:
        rows = catalog.table(["x", "seed", "lr"]).dicts()
        assert {row["process"]: row["seed"] for row in rows} == {"0": 100, "0.2": 100, "1": 101, "1.1.1": 101, "2": 100}
        assert len(rows) == 5 and {row["lr"] for row in rows} == {0.1}
        assert len(catalog.table(["x"], where="seed = 101")) == 2
        assert len(catalog.runs(where="seed = 101")) == 1 and catalog.runs(where="seed = 102") == []
        assert catalog.run("last").args == {"lr": 0.1, "seed": 100}
        wide = catalog.sql("SELECT process, seed FROM wide ORDER BY ALL").rows()
        assert wide == [("0", 100), ("0.2", 100), ("1", 101), ("1.1.1", 101), ("2", 100)]


def test_arguments_alone(builder: StoreBuilder) -> None:
    with Catalog(builder.store) as catalog:
        table = catalog.table(["lr"])
        assert "process" not in table.names and [row["lr"] for row in table.dicts()] == [0.1]
        rows = catalog.table(["lr", "seed"]).dicts()
        assert [(row["process"], row["lr"], row["seed"]) for row in rows] == [("0", 0.1, 100), ("1", 0.1, 101)]
        assert [row["seed"] for row in catalog.table(["seed"], where="seed = 101").dicts()] == [101]


def test_the_view_names_the_process(builder: StoreBuilder) -> None:
    with Catalog(builder.store) as catalog:
        rows = catalog.sql("SELECT process, value FROM args WHERE name = 'seed' ORDER BY process").rows()
    assert rows == [("0", 100), ("1", 101)]


def test_a_process_that_logs_nothing_keeps_its_argument(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    run = builder.run()
    for number in ("0", "1"):
        process = run.process(number)
        process.arg("seed", int(number))
        if number == "0":
            process.log("x", 1)
        process.end()
    with Catalog(builder.store) as catalog:
        rows = catalog.table(["x", "seed"]).dicts()
    assert [(row["process"], row["x"], row["seed"]) for row in rows] == [("0", 1, 0), ("1", None, 1)]
