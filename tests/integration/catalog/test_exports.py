"""Values on their way out: Parquet, Arrow and polars; ints of any size."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from rearview.catalog import Catalog
from rearview.testing.stores import StoreBuilder

HUGE = 10**5000


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    return StoreBuilder(tmp_path)


def test_containers_leave_as_json_and_durations_whole(builder: StoreBuilder, tmp_path: Path) -> None:
    import pyarrow.parquet

    process = builder.run().process()
    process.log("d", {"a": [1, None, True], "b": "x" * 20_000})
    process.log("t", (1, 2.5))
    process.log("p", dt.timedelta(days=1, microseconds=1))
    process.log("long", dt.timedelta.max)
    process.log("mixed", "text")
    process.log("mixed", [1])
    process.end()
    with Catalog(builder.store) as catalog:
        table = catalog.table(["d", "t", "p", "long", "mixed"])
        table.write_parquet(tmp_path / "t.parquet")
        parquet, arrow, polars = pyarrow.parquet.read_table(tmp_path / "t.parquet"), table.to_arrow(), table.to_polars()
        for got in (parquet["d"][0].as_py(), arrow["d"][0].as_py(), polars["d"][0]):
            assert json.loads(got) == {"a": [1, None, True], "b": "x" * 20_000}
        for got in (parquet["t"][0].as_py(), arrow["t"][0].as_py(), polars["t"][0]):
            assert json.loads(got) == {"$tuple": [1, 2.5]}
        assert arrow["p"][0].as_py() == polars["p"][0] == dt.timedelta(days=1, microseconds=1)
        assert parquet["p"][0].as_py() == 86_400_000_001
        assert parquet["mixed"].to_pylist() == arrow["mixed"].to_pylist() == ["text", "[1]"]
        assert parquet["long"][0].as_py() == arrow["long"][0].as_py()
        assert catalog.sql("SELECT value_text FROM logs WHERE value_name = 't'").rows() == [('{"$tuple": [1, 2.5]}',)]


def test_ints_of_any_size_raise_nowhere(builder: StoreBuilder, tmp_path: Path) -> None:
    process = builder.run().process()
    process.arg("h", HUGE)
    for value in (1, HUGE):
        process.log("m", value)
    process.log("c", {"k": [HUGE]})
    process.log("x", "t")
    process.log("x", HUGE)
    for _ in process.loop("i", [HUGE]):
        process.log("inner", 1)
    process.end()
    with Catalog(builder.store) as catalog:
        table = catalog.table(["m", "c", "h", "x", "inner"])
        assert HUGE in [row["m"] for row in table.dicts()]
        assert len(table.to_pandas()) == len(table.to_polars()) == len(table.to_arrow()) == len(table)
        table.write_parquet(tmp_path / "t.parquet")
        for view in ("logs", "args", "loops", "wide", "runs"):
            assert catalog.sql(f"SELECT * FROM {view}").rows()
        assert catalog.run("last").last["x"] == HUGE


def test_ints_beyond_floats_are_exact_and_left_out_of_what_is_drawn(builder: StoreBuilder) -> None:
    process = builder.run().process()
    for value in (10**400, 3, 2**70 + 1, 10**400 + 1):
        process.log("big", value)
    process.log("only", -(10**400))
    process.end()
    with Catalog(builder.store) as catalog:
        big, only = sorted(catalog.run_detail("last").series, key=lambda series: series.name)
        assert (big.count, big.minimum, big.maximum, big.values) == (4, 3, 10**400 + 1, [3.0, float(2**70)])
        assert big.last == 10**400 + 1 and (only.count, only.minimum, only.values, only.last) == (1, -(10**400), [], -(10**400))
