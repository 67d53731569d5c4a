"""ENOSPC, EIO or SIGKILL at each write-side system call of sealing: never a wrong answer, and the next one is whole."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rearview.store import check, layout

SRC = Path(__file__).parents[2] / "src"
RECORD = "import rearview as rv\nfor k in rv.loop('step', range(5)):\n    rv.log('x', k / 2)\n    rv.log('t', 'text')\n"
ASK = """
import sys
import rearview as rv
try:
    print([(row["step"], row["x"], row["t"]) for row in rv.dataframe("x", "t", as_="rows")])
except rv.RearviewError as problem:
    sys.exit(f"refused: {problem}")
"""
TRUTH = str([(k, k / 2, "text") for k in range(5)]) + "\n"
CALLS = ("write", "pwrite64", "openat", "fsync", "rename", "link", "mkdir", "unlink", "ftruncate")
POINTS = 10_000 if os.environ.get("REARVIEW_TEST_LONG") else 3


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "REARVIEW_QUIET": "1"}
    return subprocess.run([*words], cwd=project, env=environ, capture_output=True, text=True, timeout=120, check=False)


def forget(project: Path) -> None:
    for folder in ("segments", "tmp"):
        shutil.rmtree(project / layout.FOLDER / folder, ignore_errors=True)


def points_of(project: Path) -> list[tuple[str, int]]:
    """(call, its number among the main thread's calls of that kind) for each call that writes to the store."""
    watched = f"trace={','.join(CALLS)}"
    assert run(project, "strace", "-f", "-qq", "-y", "-e", watched, "-o", "calls", sys.executable, "ask.py").stdout == TRUTH
    lines = (project / "calls").read_text().splitlines()
    counts: dict[str, int] = {}
    found = []
    for line in lines:
        pid, _, rest = line.partition(" ")
        call = rest.strip().partition("(")[0]
        if pid != lines[0].split()[0] or call not in CALLS:
            continue
        counts[call] = counts.get(call, 0) + 1
        reads = call == "openat" and "O_WRONLY" not in rest and "O_RDWR" not in rest and "O_DIRECTORY" not in rest
        if "/.rearview/" in rest and not reads:
            found.append((call, counts[call]))
    return found


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
@pytest.mark.parametrize("fault", ["ENOSPC", "EIO", "SIGKILL"])
def test_a_fault_while_sealing(project: Path, fault: str, tally: Callable[[str, int], None]) -> None:
    (project / "r.py").write_text(RECORD)
    (project / "ask.py").write_text(ASK)
    assert run(project, sys.executable, "r.py").returncode == 0
    points = points_of(project)
    assert len(points) > 5
    how = f"signal={fault}" if fault.startswith("SIG") else f"error={fault}"
    chosen = points if len(points) <= POINTS else random.sample(points, POINTS)
    for call, when in chosen:
        forget(project)
        inject = f"inject={call}:{how}:when={when}"
        done = run(project, "strace", "-f", "-qq", "-o", "/dev/null", "-e", inject, sys.executable, "ask.py")
        where = f"{fault} at {call} number {when} of {len(points)}: {done}"
        if done.returncode == 0:
            assert done.stdout == TRUTH, where
        elif fault != "SIGKILL" and "duckdb::InternalException" not in done.stderr:  # DuckDB 2.0 aborts if its own file gives EIO
            assert done.stdout == "", where
            assert done.stderr.startswith("refused: "), where
        assert run(project, sys.executable, "ask.py").stdout == TRUTH, where
        store = layout.open_store(project / layout.FOLDER)
        assert not [finding for finding in check.check(store) if finding.severity == "damage"], where
    tally("faults at system calls of sealing", len(chosen))
