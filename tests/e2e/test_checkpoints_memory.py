"""Checkpoints where there is hardly any memory: the training goes on, and ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rearview import past

PROGRAM = """
import os, resource
import numpy as np
import rearview as rv

weights, draws = np.zeros(4_000_000), np.random.default_rng(0)
for _ in range(2):
    weights += draws.normal(size=weights.size)
used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (used + 90_000_000, resource.RLIM_INFINITY))
with rv.checkpointing(weights=weights):
    for epoch in rv.loop("epoch", range(4)):
        for _ in rv.loop("step", range(2)):
            weights += draws.normal(size=weights.size)
        rv.log("total", float(weights.sum()))
print(repr(float(weights.sum())))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is on addresses, which Linux counts")
def test_a_limit_on_addresses_is_kept_to_and_said_once(project: Path, python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    plain = python(PROGRAM, env={"REARVIEW": "off"}, check=True)
    done = python(PROGRAM, env={"REARVIEW_EVERY": "1"}, check=True)
    assert done.stdout == plain.stdout
    assert done.stderr.count("there is no memory for a copy of 32 MB: the training waits while a checkpoint is written") == 1
    assert "Traceback" not in done.stderr
    (manifest,) = (project / ".rearview").glob("runs/*/checkpoints/*-a1-000004-iteration.json")
    assert json.loads(manifest.read_text())["complete"]
    assert repr(float(past.checkpoint("last")["weights"].sum())) == plain.stdout.strip()
