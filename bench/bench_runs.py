"""The list of 1,000 runs: in a fresh interpreter, everything included, once they are sealed; and the first time.

The baseline, in turn with it, is an interpreter that only lists the folders and reads every `run.json`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import harness
from rearview.testing.stores import StoreBuilder

RUNS = 1000
TIMES = 15

LIST = """
import sys
from pathlib import Path
from rearview.catalog import Catalog
from rearview.store.layout import open_store

with Catalog(open_store(Path(sys.argv[1]))) as catalog:
    found = catalog.runs(sys.argv[2] if len(sys.argv) > 2 else None)
assert len(found) == RUNS and found[0].status == "finished" and found[0].last["acc"] == 0.5, found[:1]
assert len(sys.argv) > 2 or "duckdb" not in sys.modules
""".replace("RUNS", str(RUNS))

FIRST = LIST.replace('assert len(sys.argv) > 2 or "duckdb" not in sys.modules\n', "")

BASELINE = """
import json, os, sys

for entry in os.scandir(os.path.join(sys.argv[1], "runs")):
    with open(os.path.join(entry.path, "run.json")) as file:
        json.load(file)
    os.listdir(entry.path)
"""


def make_store(folder: Path) -> Path:
    """Runs of 5 epochs with two arguments."""
    builder = StoreBuilder(folder)
    for number in range(RUNS):
        process = builder.run(f"r{number:012d}", name=f"run {number}").process()
        process.arg("lr", 0.001 * number)
        process.arg("batch", 32)
        for _ in process.loop("epoch", range(5)):
            process.log("loss", 1.0 / (number + 1))
            process.log("acc", 0.5)
        process.end()
    return builder.store.root


def seconds(code: str, *arguments: str) -> float:
    """How long one interpreter takes from start to end."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    return time.perf_counter() - begin


def command_seconds(folder: str) -> float:
    """How long a person waits for `rearview runs`."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "rearview", "runs"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder))
        first = []
        for _ in range(3):
            shutil.rmtree(store / "segments", ignore_errors=True)
            first.append(seconds(FIRST, str(store)))
        listed, chosen, baseline, command = [], [], [], []
        for _ in range(TIMES):
            listed.append(seconds(LIST, str(store)))
            chosen.append(seconds(LIST, str(store), "max(acc) >= 0.5"))
            baseline.append(seconds(BASELINE, str(store)))
            command.append(command_seconds(folder))
    measured = harness.figures(command_s=command, list_s=listed, list_where_s=chosen, first_s=first, run_json_alone_s=baseline)
    measured["over_run_json_alone"] = harness.ratio(listed, baseline)
    harness.report("runs", measured, limits={"command_s.median": 0.5})


if __name__ == "__main__":
    main()
