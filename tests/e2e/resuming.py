"""A toy trainer without torch, killed where a test says, and the words to resume it. Five milliseconds a step."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import RunsProgram, environment

TRAIN = '''
import csv, glob, os, random, resource, signal, sys, time
import rearview as rv
from model import Model

def maybe_die(epoch, step):
    """Die where the test says, once a checkpoint is there if it wants one."""
    if os.environ.get("DIE_AT") == f"{epoch},{step}":
        wanted, patience = int(os.environ.get("DIE_AFTER", "1")), time.monotonic() + 20
        while len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) < wanted and time.monotonic() < patience:
            time.sleep(0.01)
        if os.environ.get("DIE_OF") == "memory":
            held = [int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize")]
            resource.setrlimit(resource.RLIMIT_AS, (held[0] + (32 << 20), resource.RLIM_INFINITY))
            more = [bytearray(1 << 20) for _ in range(1 << 20)]
        os.kill(os.getpid(), int(os.environ.get("DIE_OF", "9")))
        time.sleep(60)

def main():
    random.seed(int(rv.arg("seed", 3)))
    model = Model(float(sys.argv[1]) if len(sys.argv) > 1 else 0.5)
    rng = random.Random(7)
    log = open("log.csv", "w")
    rows = csv.writer(log)
    rows.writerow(["epoch", "step", "loss"])
    if os.environ.get("DIE_BEFORE") == "9":
        log.flush()
        os.kill(os.getpid(), 9)
    assert "DIE_BEFORE" not in os.environ, "before the loop"
    best = 1e9
    with rv.checkpointing(model=model):
        for epoch in rv.loop("epoch", range(1, 6)):
            total = 0.0
            for step in rv.loop("step", range(8)):
                loss = model.step(rng.random(), random.random())
                total += loss
                rv.log("loss", loss)
                rows.writerow([epoch, step, repr(loss)])
                maybe_die(epoch, step)
                time.sleep(0.005)
            rv.log("acc", total)
            if total < best:
                best = total
                with open("best.json", "w") as file:
                    file.write(f"{epoch} {best!r}")
    log.close()
    print("final", model.weights, total, best, random.random(), rng.random())

main()
'''

MODEL = """
class Model:
    def __init__(self, rate):
        self.rate = rate
        self.weights = [1.0, 2.0, 3.0]
        self.seen = set()

    def step(self, a, b):
        self.weights = [w - self.rate * (w - a) * b for w in self.weights]
        self.seen.add(round(a, 3))
        return sum(w * w for w in self.weights) + len(self.seen) * 1e-9
"""


def write_trainer(project: Path) -> None:
    (project / "train.py").write_text(TRAIN)
    (project / "model.py").write_text(MODEL)


def uninterrupted(folder: Path, *args: str) -> dict[str, Any]:
    """What the trainer gives when nobody stops it, without recording: its output, its files, its losses."""
    folder.mkdir()
    write_trainer(folder)
    words = [sys.executable, "train.py", *args]
    done = subprocess.run(words, cwd=folder, env=environment({"REARVIEW": "off"}), capture_output=True, text=True, timeout=60, check=True)
    return {"stdout": done.stdout, **files_of(folder)}


def files_of(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in ("log.csv", "best.json")}


def killed(project: Path, cli: RunsProgram, at: str = "3,4", *args: str, after: int = 2, of: int = signal.SIGKILL) -> str:
    """Run the trainer and let it die; gives the run's id."""
    if not (project / "train.py").exists():
        write_trainer(project)
    told = {"DIE_AT": at, "DIE_AFTER": str(after), "DIE_OF": str(int(of)), "REARVIEW_EVERY": "1"}
    done = cli("run", "train.py", *args, env=told)
    assert done.returncode == -of, done.stderr
    return newest(cli)["run"]


def plainly(project: Path, env: dict[str, str]) -> int:
    """The trainer by the interpreter itself, which chooses a hash seed that nobody knows."""
    told = {key: value for key, value in environment(env).items() if key != "PYTHONHASHSEED"}
    return subprocess.run([sys.executable, "train.py"], cwd=project, env=told, capture_output=True, timeout=60, check=False).returncode


def newest(cli: RunsProgram) -> dict[str, Any]:
    """The newest run, as the list has it."""
    found: dict[str, Any] = json.loads(cli("runs", "--json", "--limit", "1", check=True).stdout)["runs"][0]
    return found


def losses(log: str) -> list[tuple[int, int, float]]:
    """Epoch, step and loss of each row that the trainer wrote by itself."""
    return [(int(epoch), int(step), float(loss)) for epoch, step, loss in (line.split(",") for line in log.split()[1:])]


def logged(cli: RunsProgram, run: str = "last") -> list[tuple[int, int, float]]:
    """Epoch, step and loss of each row of the table."""
    told = json.loads(cli("df", "loss", "--run", run, "--json", check=True).stdout)["rows"]
    return [(row["epoch"], row["step"], row["loss"]) for row in told]
