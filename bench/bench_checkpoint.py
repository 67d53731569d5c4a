"""What a checkpoint costs a training that keeps both cores busy: how long it waits, how much later it ends, memory, disk.

Each load is trained by `training_load` in a process of its own, with `rv.checkpointing` as a person uses it. *Stall* is how long the
training thread was held; *lost* is how much longer a window of steps took than the windows beside it in which nothing went on. Both
parts of a checkpoint (the end of the nested block and of the iteration around it) count as one; `small_by_step` and `flat_by_step` are
the same loads in a program by step, whose checkpoints have one part: one state, as `torch.save` has. *Stolen* is what the host of a
virtual machine kept from it meanwhile: it also takes the time in which it writes for the machine from the machine's cores. `torch.save`
has nothing written, as its file is removed from the cache in time; so the figures stand twice, the second time without what was stolen.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import harness
from bench.stopwatch import ASYNC, NOTHING, REARVIEW, SAVE
from rearview.model import RunId
from rearview.store import manifests
from rearview.store.layout import Store

MB = 1e6
SPARE_BYTES = 64 << 20
"""Beside one staged copy, at most."""
EPOCHS = 4
LONG = bool(os.environ.get("BENCH_LONG"))
"""More repetitions: for figures to be written down."""

_SMALL: dict[str, Any] = {"turn": [NOTHING, SAVE, NOTHING, REARVIEW], "times": 60 if LONG else 15, "window_s": 0.4}
"""Short windows: a checkpoint of 100 MB is written within one step, and every step more is one more to be disturbed."""
LOADS: dict[str, dict[str, Any]] = {
    "adam": {"turn": [NOTHING, SAVE, NOTHING, ASYNC, NOTHING, REARVIEW], "times": 7 if LONG else 3, "window_s": 4.0, "copies": True},
    "finetune": {"turn": [NOTHING, SAVE, NOTHING, REARVIEW], "times": 30 if LONG else 9, "window_s": 1.0},
    "small": {**_SMALL, "bytes_alone": 9},
    "flat": {**_SMALL, "bytes_alone": 9},
    "small_by_step": {**_SMALL, "load": "small", "by_step": True},
    "flat_by_step": {**_SMALL, "load": "flat", "by_step": True},
}
LIMITS = {
    "adam.stall_to_memcpy.median": 1.2,
    "adam.lost_to_save.ratio": 0.15,
    "finetune.lost_to_save.ratio": 0.05,
    "finetune.stored_to_needed": 1.1,
    "small.lost_to_save.ratio": 0.5,
    "flat.lost_to_save.ratio": 0.5,
    "small_by_step.lost_to_save.ratio": 0.5,
    "flat_by_step.lost_to_save.ratio": 0.5,
    "streams.bytes": 50_000,
    "streams.take_ms.median": 0.5,
    "memory.above_copy_mb": SPARE_BYTES / MB,
}


def child(folder: Path, asked: dict[str, Any], **settings: str) -> dict[str, Any]:
    """What a training in a process of its own measured."""
    here = {"REARVIEW_DIR": str(folder), "REARVIEW_QUIET": "1", "OMP_NUM_THREADS": "2", **settings}
    command = [sys.executable, "-m", "bench.training_load", json.dumps(asked)]
    done = subprocess.run(command, env=os.environ | here, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"{asked['load']} failed: {done.stderr.strip().splitlines()[-1:]}")
    if "rearview:" in done.stderr:  # it had something to say: a checkpoint that was given up, say
        sys.stderr.write(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def stats_of(folder: Path, run: str) -> list[dict[str, float]]:
    """What each checkpoint says of itself, both parts together, in their order."""
    store = Store(folder / ".rearview")
    by_number: dict[int, dict[str, float]] = {}
    for name in manifests.list_of(store, RunId(run)):
        sums = by_number.setdefault(name.number, {})
        for key, value in manifests.read(store, name).stats.items():
            sums[key] = sums.get(key, 0.0) + float(value)
    return [by_number[number] for number in sorted(by_number)]


def lost_by(windows: list[dict[str, Any]], what: str, *, stolen: bool = True) -> list[float]:
    """Seconds by which each window with it took longer than those beside it; with or without what the host kept from the machine."""

    def seconds(window: dict[str, Any]) -> float:
        return float(window["seconds"] - (0.0 if stolen else window["stolen_s"]))

    lost = []
    for place, window in enumerate(windows):
        if window["what"] == what:
            beside = [seconds(w) for w in windows[max(place - 1, 0) : place + 2] if w["what"] == NOTHING]
            lost.append(seconds(window) + window["waited_s"] - statistics.mean(beside))
    return lost


def not_stolen(windows: list[dict[str, Any]], turn: list[str]) -> dict[str, Any]:
    """The same without what was stolen, and how much that was."""
    by_what = {what: lost_by(windows, what, stolen=False) for what in turn if what != NOTHING}
    return {
        "stolen_ms": {what: harness.summary(1000 * w["stolen_s"] for w in windows if w["what"] == what) for what in dict.fromkeys(turn)},
        "lost_not_stolen_ms": {what: harness.summary(1000 * s for s in lost) for what, lost in by_what.items()},
        "lost_not_stolen_to_save": interval(by_what[REARVIEW], by_what[SAVE]),
    }


def cpu_of(ours: list[dict[str, Any]], kept: list[dict[str, float]]) -> list[float]:
    """Processor seconds of each checkpoint, on the training thread and in the background: what other programs cannot disturb much."""
    return [window["cpu_s"] + stats["background_cpu_s"] for window, stats in zip(ours, kept, strict=False)]


def interval(measured: list[float], baseline: list[float]) -> dict[str, float]:
    """The ratio of two medians, and where it lies in 90 of 100 resamplings."""
    draw = random.Random(1)
    several = sorted(
        statistics.median(draw.choices(measured, k=len(measured))) / statistics.median(draw.choices(baseline, k=len(baseline)))
        for _ in range(2000)
    )
    ratio = statistics.median(measured) / statistics.median(baseline)
    low, high = harness.rounded(several[100]), harness.rounded(several[-101])
    return {"ratio": harness.rounded(ratio), "low": low, "high": high, "n": len(measured)}


def load_figures(name: str, folder: Path) -> dict[str, Any]:
    """One load with everything in turn; the first turn is for warming up."""
    asked = dict(LOADS[name])
    turn, times = asked["turn"], asked.pop("times")
    found = child(folder, {"load": name, **asked, "windows": len(turn) * (times + 1) + 2}, REARVIEW_EVERY=str(len(turn)))
    windows = found["windows"][len(turn) :]
    kept = stats_of(folder, found["run"])[1:]
    ours = [window for window in windows if window["what"] == REARVIEW]
    figures: dict[str, Any] = {
        "state_mb": harness.rounded(found["state_bytes"] / MB),
        "window_s": harness.summary(w["seconds"] for w in windows if w["what"] == NOTHING),
        "stall_ms": harness.summary(1000 * w["stall_s"] for w in ours),
        "lost_ms": {what: harness.summary(1000 * s for s in lost_by(windows, what)) for what in turn if what != NOTHING},
        "lost_to_save": interval(lost_by(windows, REARVIEW), lost_by(windows, SAVE)),
        **not_stolen(windows, turn),
        "cpu_to_save": interval(cpu_of(ours, kept), [w["cpu_s"] for w in windows if w["what"] == SAVE]),
        "accounted_ms": harness.summary(1000 * (s["stall_s"] + s["background_cpu_s"]) for s in kept),
        "background_s": harness.summary(s["background_s"] for s in kept),
        "background_cpu_ms": harness.summary(1000 * s["background_cpu_s"] for s in kept),
        "staged_mb": harness.rounded(max(s["staged_bytes"] for s in kept) / MB),
        "written_mb": harness.rounded(statistics.median(s["new_bytes"] for s in kept) / MB),
    }
    if ASYNC in turn:
        figures["async_to_save"] = interval(lost_by(windows, ASYNC), lost_by(windows, SAVE))
    if "bytes_cpu_s" in found:
        figures["bytes_alone_to_save"] = interval(found["bytes_cpu_s"], [w["cpu_s"] for w in windows if w["what"] == SAVE])
    if found["copy_s"]:
        copies = found["copy_s"][-len(ours) :]
        figures["memcpy_ms"] = harness.summary(1000 * s for s in copies)
        figures["parallel_copy_ms"] = harness.summary(1000 * s for s in found["parallel_s"][-len(ours) :])
        figures["stall_to_memcpy"] = harness.ratio([w["stall_s"] for w in ours], copies)
    return figures


def stored(folder: Path) -> dict[str, float]:
    """Bytes on the disk after some epochs of fine-tuning, against the model and what each epoch changed."""
    asked = {"load": "finetune", "turn": [REARVIEW], "windows": EPOCHS, "steps": 1, "warm": 1}
    found = child(folder, asked, REARVIEW_EVERY="1")
    on_disk = sum(path.stat().st_blocks * 512 for path in (folder / ".rearview" / "objects").rglob("*") if path.is_file())
    needed = found["state_bytes"] - found["changed_bytes"] + EPOCHS * found["changed_bytes"]
    checkpoints = len(stats_of(folder, found["run"]))
    if checkpoints != EPOCHS:
        raise RuntimeError(f"{checkpoints} checkpoints were written, not {EPOCHS}")
    return {
        "stored_mb": harness.rounded(on_disk / MB),
        "needed_mb": harness.rounded(needed / MB),
        "stored_to_needed": harness.rounded(on_disk / needed),
    }


def memory(folder: Path) -> dict[str, float]:
    """The highest memory of a training with checkpoints against the same without, and what of that is the staged copy."""
    asked = {"load": "adam", "turn": [REARVIEW], "windows": 3, "steps": 2, "warm": 1}
    found = child(folder, asked, REARVIEW_EVERY="1")
    without = child(folder, asked, REARVIEW_CHECKPOINTS="off")
    staged = max(s["staged_bytes"] for s in stats_of(folder, found["run"]))
    above = found["peak_bytes"] - without["peak_bytes"]
    return {
        "peak_mb": harness.rounded(found["peak_bytes"] / MB),
        "without_mb": harness.rounded(without["peak_bytes"] / MB),
        "staged_mb": harness.rounded(staged / MB),
        "above_copy_mb": harness.rounded((above - staged) / MB),
    }


def streams() -> dict[str, Any]:
    """What noting the global random streams takes, with all three libraries loaded."""
    import random as _random

    import numpy as np
    import torch

    from rearview.state import streams as state
    from rearview.store import encoding

    _random.random(), np.random.rand(), torch.rand(1)
    taken = harness.repeat(state.take, times=501, warmup=5)
    return {"take_ms": harness.summary(1000 * s for s in taken), "bytes": len(encoding.encode(state.take()))}


MODULES, FUNCTIONS = 20, 50
"""Of a project of some size."""


def beside() -> dict[str, Any]:
    """What is taken beside variables, once for each part of a checkpoint: modules of the project, what names mean, what was
    made anew or is remembered, the process."""
    import torch  # noqa: F401 (its modules are looked through, and its settings)

    from rearview.state import bindings, caches, process, remade, scope

    with tempfile.TemporaryDirectory() as folder:
        for number in range(MODULES):
            body = "".join(f"def f{k}(x):\n    pass\nclass C{k}:\n    def f(self):\n        pass\n" for k in range(FUNCTIONS // 2))
            (Path(folder) / f"bench_beside_{number}.py").write_text(body)
            sys.path.insert(0, folder)
            importlib.import_module(f"bench_beside_{number}")
            sys.path.remove(folder)
        project = Path(folder)
        modules, first = list(scope.project_modules(project)), process.now()
        began, remembered = remade.Began(modules), caches.Caches(modules)
        works: dict[str, Callable[[], object]] = {
            "modules_ms": lambda: list(scope.project_modules(project)),
            "names_ms": lambda: bindings.take([], project, modules),
            "made_ms": lambda: began.since(modules, list),
            "caches_ms": lambda: remembered.roots(modules),
            "process_ms": lambda: process.changed(first),
        }
        taken = {name: harness.repeat(work, times=201, warmup=5) for name, work in works.items()}
    figures: dict[str, Any] = {name: harness.summary(1000 * s for s in seconds) for name, seconds in taken.items()}
    return {**figures, "loaded": len(sys.modules), "names": sum(map(len, bindings.take([], project, modules).values()))}


def measured(name: str) -> dict[str, Any]:
    """One section, each part of it in a store of its own, which goes when it is measured."""
    if name == "streams":
        return streams()
    if name == "beside":
        return beside()
    found: dict[str, Any] = {}
    for part in SECTIONS[name]:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            found |= part(name, Path(folder).absolute())
    return found


SECTIONS: dict[str, list[Callable[[str, Path], dict[str, Any]]]] = {
    "streams": [],
    "beside": [],
    "adam": [load_figures],
    "finetune": [load_figures, lambda _, folder: stored(folder)],
    "small": [load_figures],
    "flat": [load_figures],
    "small_by_step": [load_figures],
    "flat_by_step": [load_figures],
    "memory": [lambda _, folder: memory(folder)],
}


def main() -> None:
    """Measure all sections, or those named: `python -m bench.bench_checkpoint small adam`."""
    began = time.perf_counter()
    asked = sys.argv[1:] or list(SECTIONS)
    if unknown := set(asked) - set(SECTIONS):
        sys.exit(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    results: dict[str, Any] = {name: measured(name) for name in SECTIONS if name in asked}
    results["seconds"] = harness.rounded(time.perf_counter() - began)
    harness.report("checkpoint", results, limits={name: limit for name, limit in LIMITS.items() if name.partition(".")[0] in asked})


if __name__ == "__main__":
    main()
