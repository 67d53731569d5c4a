"""What every benchmark shares: repeat, summarise, compare within one run, print one JSON object.

Absolute times are noisy on shared machines; what is held are ratios between two things measured in turn in one process,
and every figure comes with its spread. A benchmark is a module `bench/bench_*.py` that ends with

    if __name__ == "__main__":
        harness.report("log", harness.figures(log_us=times), limits={"log_us.median": 3.0})
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def repeat(work: Callable[[], object], *, times: int = 7, warmup: int = 1) -> list[float]:
    """Seconds that each of several calls took, after some that do not count, with the collector at rest."""
    for _ in range(warmup):
        work()
    taken = []
    was_on = gc.isenabled()
    gc.disable()
    try:
        for _ in range(times):
            begin = time.perf_counter()
            work()
            taken.append(time.perf_counter() - begin)
    finally:
        if was_on:
            gc.enable()
    return taken


def in_turn(*works: Callable[[], object], times: int = 7, warmup: int = 1) -> list[list[float]]:
    """Seconds of several works, one call of each after the other, so that a slow moment of the machine hits all alike."""
    taken: list[list[float]] = [[] for _ in works]
    for round_number in range(times + warmup):
        for work, times_of_it in zip(works, taken, strict=True):
            seconds = repeat(work, times=1, warmup=0)
            if round_number >= warmup:
                times_of_it += seconds
    return taken


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def summary(values: Iterable[float]) -> dict[str, float]:
    """Median, p99, the extremes, and the spread: half the distance between the quartiles, as a part of the median."""
    known = list(values)
    median = statistics.median(known)
    spread = (percentile(known, 75) - percentile(known, 25)) / 2
    return {
        "median": rounded(median),
        "p99": rounded(percentile(known, 99)),
        "min": rounded(min(known)),
        "max": rounded(max(known)),
        "spread": rounded(spread / median if median else 0.0),
        "n": len(known),
    }


def ratio(measured: Sequence[float], baseline: Sequence[float]) -> dict[str, float]:
    """How many times longer: the median of the pairs of one run, with the spread of the pairs."""
    return summary(a / b for a, b in zip(measured, baseline, strict=True))


def figures(**series: Iterable[float]) -> dict[str, dict[str, float]]:
    """A summary of each named series; put the unit in the name (`log_us`)."""
    return {name: summary(values) for name, values in series.items()}


def rounded(value: float, digits: int = 4) -> float:
    """As many digits as mean something."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


def machine() -> dict[str, Any]:
    """Where it was measured, as far as it matters."""
    return {"python": platform.python_version(), "system": platform.system(), "cpus": os.cpu_count()}


def report(name: str, results: Mapping[str, Any], *, limits: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Print one JSON object: the results, the figures to hold (`{"log_us.median": 3.0}`) and which do not hold."""
    over = {path: limit for path, limit in (limits or {}).items() if not lookup(results, path) <= limit}
    answer = {"bench": name, **results, "limits": dict(limits or {}), "over": sorted(over), "holds": not over, "machine": machine()}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return answer


def lookup(results: Mapping[str, Any], path: str) -> float:
    """A figure by its dotted path."""
    found: Any = results
    for key in path.split("."):
        found = found[key]
    return float(found)
