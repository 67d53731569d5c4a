"""What a question costs in hindsight, on six of the workloads: against running the training again, and against what cannot be saved.

Like Figure 7 of the Flor paper: the speed-up over re-execution for a statement in the outer and in the inner loop, beside the bound. The
bound of an outer one is process start, the code before the loop, the restores and the outer bodies; that of an inner one on two workers
is the whole training over the largest share. Predicted and actual seconds of every replay, by scan (Figure 10 of FlorDB). All
trainings with one thread, each epoch kept. BENCH_LONG=1 for figures to be written down.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import harness

LONG = bool(os.environ.get("BENCH_LONG"))
NAMES = ("cifr", "rsnt", "wiki", "jasp", "imgn", "rnnt")
PART = 1.0 if LONG else 0.5
WORKLOADS = Path(__file__).resolve().parent / "workloads"
ASKED = "float(sum(p.detach().norm() for p in net.parameters()))"
"""Of what it takes itself, no prediction can know."""
LIMITS = {
    "outer_to_bound.median": 1.2, "again_s.median": 1.0, "prediction_error.median": 0.05, "prediction_error.max": 0.15,
    "inner_ideal_to_actual_missed.median": 0.05,
}  # fmt: skip


class Project:
    """A workload in a folder of its own, as a program."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        shutil.copytree(WORKLOADS, folder / "bench" / "workloads", ignore=shutil.ignore_patterns("__pycache__"))
        self._module = folder / "bench" / "workloads" / f"{name}.py"
        text = self._module.read_text(encoding="utf-8")
        text = text.replace("def train(rv: Any, epochs", "def train(epochs")
        text = text.replace("\nimport torch\n", "\nimport rearview as rv\nimport torch\n", 1)
        self._text = text
        found = re.search(r"^EPOCHS = (\d+)", text, re.MULTILINE)
        assert found is not None
        self.epochs = max(4, round(int(found[1]) * PART))
        self._module.write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", str(folder)], check=True)  # a project of its own, also inside of this repository
        (folder / "train.py").write_text(
            f"import random\nimport torch\nrandom.seed(1)\ntorch.set_num_threads(1)\nfrom bench.workloads.{name} import train\n"
            f"if __name__ == '__main__':\n    train({self.epochs})\n",
            encoding="utf-8",
        )

    def ask(self, site: str) -> None:
        """Add the statement of a site, and no other."""
        lines = self._text.splitlines(keepends=True)
        logs = [k for k, line in enumerate(lines) if 'rv.log("loss"' in line]
        loop = next(k for k, line in enumerate(lines) if 'rv.loop("epoch"' in line)
        inside = next(k for k, line in enumerate(lines) if "rv.checkpointing" in line)
        end = next(k for k, line in enumerate(lines) if k > loop and line.startswith("    return"))
        at, indent = {
            "before": (inside, 4), "outer": (end, 12), "inner": (logs[-1] + 1, 16), "halves": (logs[-1] + 1, 16), "after": (end, 4),
        }[site]  # fmt: skip
        lines.insert(at, " " * indent + f'rv.log("{site}", {ASKED})\n')
        self._module.write_text("".join(lines), encoding="utf-8")

    def run(self, *words: str, **env: str) -> float:
        """Run something in the project; seconds."""
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "REARVIEW_QUIET": "1", "REARVIEW_EVERY": "1", **env}
        environ["PYTHONPATH"] = os.pathsep.join([str(WORKLOADS.parent.parent / "src"), str(self.folder)])
        began = time.perf_counter()
        done = subprocess.run([sys.executable, *words], cwd=self.folder, env=environ, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{self.name}: {words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return seconds

    def replay(self, site: str, *words: str) -> tuple[float, dict[str, Any]]:
        """Ask; seconds, and what was published."""
        self.ask(site)
        before = set(self._published())
        seconds = self.run("-m", "rearview", "replay", site, "--yes", *words)
        new = [path for path in self._published() if path not in before]
        return seconds, json.loads(new[0].read_text(encoding="utf-8")) if new else {}

    def _published(self) -> list[Path]:
        return sorted((self.folder / ".rearview").glob("runs/*/replays/*/replay.json"))

    def timing(self) -> tuple[list[float], list[float]]:
        """Seconds of each recorded epoch, and of the nested block in it."""
        from rearview.record.resume.past import facts_in
        from rearview.store import runs
        from rearview.store.journal import parts_of
        from rearview.store.layout import Store

        store = Store(self.folder / ".rearview")
        total: list[float] = []
        nested: list[float] = []
        for _, path in sorted(parts_of(store.run(runs.list_runs(store)[-1])), key=lambda part: str(part[0])):
            for fact in facts_in(path, "timing"):
                total += fact["total"]
                nested += fact["nested"]
        return total, nested


def workload(name: str, folder: Path) -> dict[str, Any]:
    """All that is measured of one workload."""
    project = Project(folder, name)
    recorded_s = project.run("train.py")
    project.ask("outer")
    again_s = project.run("train.py", REARVIEW="off")
    predicted: list[list[Any]] = []

    def ask(site: str, *words: str) -> float:
        found = project.replay(site, *words)[1]
        predicted.append([found.get("scan"), found.get("predicted_s"), found.get("seconds")])
        return float(found["seconds"])

    before_s = ask("before")  # process start and the code before the loop
    outer_s = ask("outer")
    inner_s = ask("inner", "--workers", "1")
    halves_s = ask("halves", "--workers", "2")  # the same by another name
    after_s = ask("after")
    asked_again_s = project.replay("after")[0]
    total, nested = project.timing()
    put_back = _measured(folder, "put_back")
    bound_s = before_s + put_back + sum(total) - sum(nested)
    share = max(sum(total[: -(-len(total) // 2)]), sum(total[-(-len(total) // 2) :]))
    return {
        "epochs": len(total), "recorded_s": recorded_s, "reexecution_s": again_s, "before_s": before_s, "outer_s": outer_s,
        "outer_bound_s": bound_s, "inner_s": inner_s, "inner_2_workers_s": halves_s, "after_s": after_s, "asked_again_s": asked_again_s,
        "speedup": {
            "outer": again_s / outer_s, "inner": again_s / inner_s, "inner_2_workers": again_s / halves_s, "after": again_s / after_s,
        },
        "outer_to_bound": outer_s / bound_s,
        "inner_ideal": inner_s / (inner_s - sum(total) + share),
        "inner_actual": inner_s / halves_s,
        "predicted": predicted,
    }  # fmt: skip


def _measured(folder: Path, kind: str) -> float:
    """Seconds that the replays of a project spent on something, in the one that did it most."""
    most = 0.0
    for path in (folder / ".rearview").glob("runs/*/replays/*/replay.json"):
        rows = json.loads(path.read_text(encoding="utf-8")).get("measured") or []
        most = max(most, sum(seconds for what, _, seconds in rows if what == kind))
    return most


def main() -> None:
    """Measure and report."""
    found: dict[str, Any] = {}
    subprocess.run([sys.executable, "-c", "import torch"], check=True)  # read from the disk once, not by the first training
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for name in NAMES:
            found[name] = workload(name, Path(folder).absolute() / name)
    rows = [row for one in found.values() for row in one["predicted"] if row[1]]
    errors = [abs(predicted - actual) / actual for _, predicted, actual in rows]
    by_scan: dict[str, list[float]] = {}
    for (scan, _, _), error in zip(rows, errors, strict=True):
        by_scan.setdefault(str(scan), []).append(error)
    results = {
        "workloads": found,
        "outer_to_bound": harness.summary(one["outer_to_bound"] for one in found.values()),
        "speedup_outer": harness.summary(one["speedup"]["outer"] for one in found.values()),
        "speedup_inner_2_workers": harness.summary(one["speedup"]["inner_2_workers"] for one in found.values()),
        "inner_ideal_to_actual_missed": harness.summary(1 - one["inner_actual"] / one["inner_ideal"] for one in found.values()),
        "again_s": harness.summary(one["asked_again_s"] for one in found.values()),
        "prediction_error": harness.summary(errors),
        "prediction_error_by_scan": {scan: harness.rounded(statistics.median(values)) for scan, values in by_scan.items()},
    }
    harness.report("replay", results, limits=LIMITS)


if __name__ == "__main__":
    main()
