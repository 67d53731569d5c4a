"""What recording costs the training thread: a record, an iteration, a short step, the import, and 24 processes at once."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import harness

RECORDS = 200_000
STEPS = 10_000
STEP_S = 0.0003
WRITERS = 24
RECORDS_EACH = 4_000
FORBIDDEN = ("torch", "numpy", "pandas", "duckdb", "click", "rich")


def log_two_loops_deep(rv: Any) -> list[float]:
    """Microseconds of each of many `rv.log` calls."""
    taken = []
    clock = time.perf_counter_ns
    for _ in rv.loop("epoch", range(2)):
        for _ in rv.loop("step", range(RECORDS // 2)):
            begin = clock()
            rv.log("loss", 0.5)
            taken.append((clock() - begin) / 1000)
    return taken


def plain_write(folder: Path) -> list[float]:
    """Microseconds of a bare write call of as many bytes as a record has: what no design can go below."""
    fd = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    data = bytes(58)
    taken = []
    clock = time.perf_counter_ns
    for _ in range(RECORDS // 2):
        begin = clock()
        os.write(fd, data)
        taken.append((clock() - begin) / 1000)
    os.close(fd)
    return taken


def empty_iterations(rv: Any) -> list[float]:
    """Microseconds that `rv.loop` adds to an iteration in which nothing happens."""
    count = 200_000

    def recorded() -> None:
        for _ in rv.loop("x", range(count)):
            pass

    def plain() -> None:
        for _ in range(count):
            pass

    with_loop, without = harness.in_turn(recorded, plain, times=9)
    return [(a - b) / count * 1e6 for a, b in zip(with_loop, without, strict=True)]


def short_steps(rv: Any) -> dict[str, float]:
    """A training of 10,000 steps of 0.3 ms with a record in each, against the same without."""
    chunk = STEPS // 20

    def step() -> None:
        until = time.perf_counter() + STEP_S
        x = 0
        while time.perf_counter() < until:
            x += 1

    def recorded() -> None:
        for _ in rv.loop("short", range(chunk)):
            step()
            rv.log("loss", 0.25)

    def plain() -> None:
        for _ in range(chunk):
            step()

    return harness.ratio(*harness.in_turn(recorded, plain, times=20))


def import_cost() -> dict[str, Any]:
    """Seconds that `import rearview` adds to the start of an interpreter, and what it must not load."""
    code = "import time; t = time.perf_counter(); import rearview; d = time.perf_counter() - t; import sys; print(d, *sys.modules)"
    taken, loaded = [], set[str]()
    for _ in range(11):
        words = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        taken.append(float(words[0]))
        loaded |= set(words[1:])
    return {"import_s": harness.summary(taken), "loaded_frameworks": len(loaded & set(FORBIDDEN))}


def _writer(number: int, results: Any) -> None:
    import rearview as rv

    taken = []
    clock = time.perf_counter_ns
    for step in rv.loop("step", range(RECORDS_EACH)):
        begin = clock()
        rv.log("value", float(number * RECORDS_EACH + step))
        taken.append((clock() - begin) / 1000)
    results.put(taken)


def many_writers() -> dict[str, Any]:
    """24 processes recording into one store at once: the slowest records, and whether all are there, once."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=_writer, args=(k, results)) for k in range(WRITERS)]
    for child in children:
        child.start()
    taken = [us for _ in children for us in results.get()]
    for child in children:
        child.join()
    import rearview as rv

    seen = [row["value"] for row in rv.sql("SELECT value_float AS value FROM logs WHERE value_name = 'value'")]
    expected = WRITERS * RECORDS_EACH
    return {"writers_us": harness.summary(taken), "lost": expected - len(set(seen)), "twice": len(seen) - len(set(seen))}


def main() -> None:
    """Measure everything in a project of its own."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        os.environ["REARVIEW_DIR"] = folder
        os.environ["REARVIEW_QUIET"] = "1"
        writers = many_writers()
        import rearview as rv

        with rv.run(name="bench"):
            results = harness.figures(log_us=log_two_loops_deep(rv), write_us=plain_write(Path(folder)), loop_us=empty_iterations(rv))
            results["log_to_write"] = {"median": harness.rounded(results["log_us"]["median"] / results["write_us"]["median"])}
            results["training_ratio"] = short_steps(rv)
        everything: dict[str, Any] = {**results, **import_cost(), **writers}
        limits = {
            "log_us.median": 3.0, "log_us.p99": 30.0, "loop_us.median": 0.5, "training_ratio.median": 1.05,
            "import_s.median": 0.1, "loaded_frameworks": 0, "writers_us.p99": 50.0, "lost": 0, "twice": 0,
        }  # fmt: skip
        harness.report("record", everything, limits=limits)


if __name__ == "__main__":
    main()
