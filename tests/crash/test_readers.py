"""Reading beside writers: what was acknowledged is there, nothing twice, nothing that was not logged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rearview.catalog import Catalog
from rearview.store import layout

SRC = Path(__file__).parents[2] / "src"
WRITERS = 4
RECORDS = 400
SCRIPT = f"""
import sys, time, rearview as rv
n = int(sys.argv[1])
for step in rv.loop("step", range({RECORDS})):
    rv.log("x", float(n * {RECORDS} + step))
    if step % 40 == 0:
        print(step, flush=True)
        time.sleep(0.02)
"""


def test_readers_beside_writers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "w.py").write_text(SCRIPT)
    environ = {**os.environ, "PYTHONPATH": str(SRC), "REARVIEW_QUIET": "1"}
    words = [sys.executable, "w.py"]
    children = [subprocess.Popen([*words, str(k)], cwd=project, env=environ, stdout=subprocess.PIPE, text=True) for k in range(WRITERS)]
    acknowledged = [0] * WRITERS
    before = 0
    while any(child.poll() is None for child in children):
        for k, child in enumerate(children):
            assert child.stdout is not None
            line = child.stdout.readline()
            acknowledged[k] = int(line) + 1 if line else RECORDS if child.wait() == 0 else -1
        with Catalog(layout.open_store(project / ".rearview")) as catalog:
            table = catalog.table(["x"])
            seen = [row["x"] for row in table.dicts()]
        assert len(seen) == len(set(seen))
        assert len(seen) >= max(sum(acknowledged), before)
        assert all(row["x"] % RECORDS == row["step"] for row in table.dicts())
        before = len(seen)
    for child in children:
        child.communicate()
    with Catalog(layout.open_store(project / ".rearview")) as catalog:
        final = catalog.table(["x"]).dicts()
    assert sorted(row["x"] for row in final) == [float(k) for k in range(WRITERS * RECORDS)]
