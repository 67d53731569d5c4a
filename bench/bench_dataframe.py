"""A dataframe of 1,000,000 records, two loops deep: first time with sealing, then from segments, alone and with more columns.

Each measurement is a fresh interpreter with pandas already imported, and reports its peak memory. The baseline, in turn with it, is
what nothing over Parquet can be faster than: the same million numbers and their coordinates read from one Parquet file by
DuckDB alone.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import harness
from rearview.testing.stores import StoreBuilder

EPOCHS, STEPS = 100, 10_000
PART_EPOCHS = 8
"""A part of 80,000 records is about as large as parts get."""
TIMES = 7
FIRSTS = 3

CHILD = """
import json, resource, sys, time
from pathlib import Path
import pandas
from rearview.catalog import Catalog
from rearview.store.layout import open_store

begin = time.perf_counter()
with Catalog(open_store(Path(sys.argv[1]))) as catalog:
    frame = catalog.table(sys.argv[2:]).to_pandas()
seconds = time.perf_counter() - begin
assert len(frame) == RECORDS and "torch" not in sys.modules, len(frame)
print(json.dumps({"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
""".replace("RECORDS", str(EPOCHS * STEPS))

BASELINE = """
import json, sys, time
import pandas, duckdb

begin = time.perf_counter()
frame = duckdb.connect().execute(f"SELECT b, it, f FROM '{sys.argv[1]}'").df()
print(json.dumps({"seconds": time.perf_counter() - begin}))
"""


def make_store(folder: Path) -> Path:
    """One run: an argument, a loss per step, an accuracy per epoch."""
    builder = StoreBuilder(folder)
    process = builder.run().process()
    process.arg("lr", 0.01)
    rng = random.Random(1)
    for epoch in process.loop("epoch", range(EPOCHS)):
        for _ in process.loop("step", range(STEPS)):
            process.log("loss", rng.random())
        if epoch % PART_EPOCHS == PART_EPOCHS - 1:
            process.rotate()
        process.log("acc", rng.random())
    process.end()
    return builder.store.root


def child(code: str, *arguments: str) -> dict[str, Any]:
    """Run one measurement in its own interpreter."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder))
        first = []
        for _ in range(FIRSTS):
            shutil.rmtree(store / "segments", ignore_errors=True)
            first.append(child(CHILD, str(store), "loss"))
        parquet = str(next((store / "segments").glob("records-*.parquet")))
        one, three, baseline = [], [], []
        for _ in range(TIMES):
            one.append(child(CHILD, str(store), "loss"))
            three.append(child(CHILD, str(store), "lr", "loss", "acc"))
            baseline.append(child(BASELINE, parquet)["seconds"])
    every = [*first, *one, *three]
    measured = harness.figures(
        first_s=[m["seconds"] for m in first],
        sealed_s=[m["seconds"] for m in one],
        sealed_with_epoch_and_arg_s=[m["seconds"] for m in three],
        peak_mb=[m["peak_mb"] for m in every],
        parquet_alone_s=baseline,
    )
    measured["over_parquet_alone"] = harness.ratio([m["seconds"] for m in one], baseline)
    limits = {"first_s.median": 5.0, "sealed_s.median": 1.0, "sealed_with_epoch_and_arg_s.median": 1.0, "peak_mb.max": 500.0}
    harness.report("dataframe", measured, limits=limits)


if __name__ == "__main__":
    main()
