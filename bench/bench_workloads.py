"""What recording costs eight small trainings shaped like those of the Flor paper (`bench/workloads`).

Twice: *accounted*, the stall and the processor time of what runs in the background, over the time of the training, as the checkpoints
say themselves; and from *pairs* of trainings with and without rearview in turn, with the interval that 90 of 100 resamplings give.
Beside it each epoch kept whatever it costs (adaptivity off: the paper's Figure 6), and the writing done while the training waits
(background off: Figure 5.2 of the thesis). Every training is a process of its own. BENCH_LONG=1 for figures to be written down.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import random
import statistics
import tempfile
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench import harness
from bench.workloads import NAMES
from bench.workloads.training import ADAPTIVE, EVERY, EVERY_SERIAL, PLAIN, SERIAL, measure

LONG = bool(os.environ.get("BENCH_LONG"))
PAIRS = int(os.environ.get("BENCH_PAIRS", "5" if LONG else "2"))
PART = 1.0 if LONG else 0.3
"""Of the epochs."""
BESIDE = (EVERY, SERIAL, EVERY_SERIAL) if LONG else (EVERY, SERIAL)
EPS = 1 / 15
LIMITS = {"accounted_percent.average": 1.0, "accounted_percent.highest": 100 * EPS, "pairs_percent.average": 1.0}


def _child(answer: Connection, *arguments: Any) -> None:
    try:
        answer.send(measure(*arguments))
    except BaseException:  # noqa: BLE001 (told by the parent)
        answer.send({"failed": traceback.format_exc()})


def train(name: str, means: str) -> dict[str, Any]:
    """One training in a child: torch is loaded here already, and unused, so that a child may begin with it."""
    epochs = max(2, round(importlib.import_module(f"bench.workloads.{name}").EPOCHS * PART))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        child = context.Process(target=_child, args=(theirs, name, means, epochs, Path(folder).absolute()))
        child.start()
        theirs.close()
        found: dict[str, Any] = ours.recv()
        child.join()
    if "failed" in found:
        raise RuntimeError(f"{name}, {means}: {found['failed']}")
    return found


def workload(name: str) -> dict[str, Any]:
    """All that is measured of one workload."""
    pairs = []
    for number in range(PAIRS):
        order = (PLAIN, ADAPTIVE) if number % 2 else (ADAPTIVE, PLAIN)
        found = {means: train(name, means) for means in order}
        if found[PLAIN]["result"] != found[ADAPTIVE]["result"]:
            raise RuntimeError(f"{name}: recording changed the training: {found}")
        pairs.append(found)
    beside = {means: train(name, means) for means in BESIDE}
    ours = [pair[ADAPTIVE] for pair in pairs]
    return {
        "seconds": harness.rounded(statistics.median(pair[PLAIN]["seconds"] for pair in pairs)),
        "state_mb": harness.rounded(max(one["state_bytes"] for one in [*ours, *beside.values()]) / 1e6),
        "checkpoints": statistics.median(one["checkpoints"] for one in ours),
        "accounted_percent": harness.rounded(100 * statistics.median(share(one) for one in ours)),
        "stall_percent": harness.rounded(100 * statistics.median(one["stall_s"] / one["seconds"] for one in ours)),
        "pairs_percent": [harness.rounded(100 * (pair[ADAPTIVE]["seconds"] / pair[PLAIN]["seconds"] - 1)) for pair in pairs],
        "pairs_cpu_percent": [harness.rounded(100 * (pair[ADAPTIVE]["cpu_s"] / pair[PLAIN]["cpu_s"] - 1)) for pair in pairs],
        **{f"{means}_percent": harness.rounded(100 * share(one)) for means, one in beside.items()},
        **{f"{means}_checkpoints": one["checkpoints"] for means, one in beside.items()},
    }


def share(found: dict[str, Any]) -> float:
    """What the checkpoints took of the time the training would have taken without what they held it for."""
    return float(found["lost_s"] / (found["seconds"] - found["stall_s"]))


def interval(by_workload: list[list[float]]) -> dict[str, float]:
    """The average over workloads of their median pair, and where it lies when the pairs are drawn anew."""
    draw = random.Random(1)
    several = sorted(statistics.mean(statistics.median(draw.choices(pairs, k=len(pairs))) for pairs in by_workload) for _ in range(2000))
    average = statistics.mean(statistics.median(pairs) for pairs in by_workload)
    return {"average": harness.rounded(average), "low": harness.rounded(several[100]), "high": harness.rounded(several[-101])}


def main() -> None:
    """Measure each workload."""
    import numpy  # noqa: F401 (so that no child has to load it)
    import torch  # noqa: F401

    began = time.perf_counter()
    found = {name: workload(name) for name in (os.environ.get("BENCH_ONLY", "").split(",") if os.environ.get("BENCH_ONLY") else NAMES)}
    shares = [one["accounted_percent"] for one in found.values()]
    results: dict[str, Any] = {
        "workloads": found,
        "accounted_percent": {"average": harness.rounded(statistics.mean(shares)), "highest": max(shares)},
        "pairs_percent": interval([one["pairs_percent"] for one in found.values()]),
        "pairs_cpu_percent": interval([one["pairs_cpu_percent"] for one in found.values()]),
        "beside_percent": {
            means: {"average": harness.rounded(statistics.mean(ones)), "highest": max(ones)}
            for means in BESIDE
            for ones in [[one[f"{means}_percent"] for one in found.values()]]
        },
        "seconds": harness.rounded(time.perf_counter() - began),
    }
    harness.report("workloads", results, limits=LIMITS)


if __name__ == "__main__":
    main()
