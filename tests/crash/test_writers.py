"""Many processes record into one store at once: none lost, none twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.conftest import environment
from tests.integration.record.reading import read_all

WRITERS, RECORDS = (int(part) for part in os.environ.get("REARVIEW_TEST_WRITERS", "8x500").split("x"))

PROGRAM = """
import os, sys
import rearview as rv
writers, records = int(sys.argv[1]), int(sys.argv[2])

def work(k, explicit):
    def log():
        for step in rv.loop("step", range(records)):
            rv.log("x", float(k * records + step))
    if explicit:
        with rv.run(name=f"w{k}"):
            log()
    else:
        log()

def start(explicit):
    pids = []
    for k in range(writers):
        pid = os.fork()
        if pid == 0:
            work(k, explicit)
            os._exit(0)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * writers

start(True)     # a run each, in a store that nobody has made yet
start(False)    # all in one run, begun by whoever is first
rv.log("done", 1)
"""


def test_writers(project: Path, tally: Callable[[str, int], None]) -> None:
    (project / "many.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "many.py", str(WRITERS), str(RECORDS)],
        env={**environment(None), "REARVIEW_QUIET": "1"}, capture_output=True, text=True, timeout=120 + WRITERS * RECORDS / 1000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = read_all(project)
    assert not [run.damage for run in found if run.damage]
    own = {run.json["name"]: run for run in found if run.json["name"]}
    for k in range(WRITERS):
        assert own[f"w{k}"].values("x") == [float(k * RECORDS + step) for step in range(RECORDS)]
    (shared,) = [run for run in found if not run.json["name"]]
    assert sorted(shared.values("x")) == [float(n) for n in range(WRITERS * RECORDS)]
    assert len({rec.identity for rec in shared.records}) == len(shared.records)
    assert len(shared.processes) == WRITERS + 1
    tally("records by processes at once", 2 * WRITERS * RECORDS)
