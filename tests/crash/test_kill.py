"""Random SIGKILL while recording: what was acknowledged is there, and the store can be opened, read and appended to."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.conftest import environment
from tests.integration.record.reading import read_all

KILLS = int(os.environ.get("REARVIEW_TEST_KILLS", "50"))

NURSERY = '''
"""Forks one toy training after the other and kills each at a random time; prints what each had acknowledged."""
import json, mmap, os, random, signal, struct, sys, time
import rearview as rv
from rearview.record import recorder

seed, kills = int(sys.argv[1]), int(sys.argv[2])
chance = random.Random(seed)
recorder.PART_FRAMES = chance.choice([50, 10_000])
board = mmap.mmap(-1, 16)

def train(k):
    with rv.run(name=f"t{k}"):
        rv.arg("lr", 0.1)
        board[8] = 1
        n = 0
        for epoch in rv.loop("epoch", "abcdefgh"):
            for step in rv.loop("step", range(1000)):
                rv.log("n", n if n % 3 else float(n))
                n += 1
                board[:8] = struct.pack("<Q", n)  # acknowledged; one copy, so that a kill never finds half of it
                if n % 7 == 0:
                    rv.log("text", "x" * (n % 50))
        time.sleep(10)

for k in range(kills):
    board[:] = bytes(16)
    pid = os.fork()
    if pid == 0:
        train(k)
        os._exit(0)
    if chance.random() < 0.25:
        time.sleep(chance.random() * 0.03)   # while the run begins
    else:
        until = time.monotonic() + 5
        while not board[8] and time.monotonic() < until:
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print(json.dumps([k, struct.unpack_from("<Q", board, 0)[0]]), flush=True)
'''


def check_run(values: list[float], places: list[str], acknowledged: int) -> None:
    assert acknowledged <= len(values) <= acknowledged + 1
    assert values == list(range(len(values)))
    assert places == [f"epoch{n // 1000}/step{n % 1000}" for n in range(len(values))]


def test_nothing_acknowledged_is_lost(project: Path, tally: Callable[[str, int], None]) -> None:
    (project / "toy.py").write_text(NURSERY)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    env = {**environment(None), "REARVIEW_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "toy.py", str(seed), str(KILLS)], env=env, capture_output=True, text=True, timeout=60 + KILLS
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    acknowledged = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(acknowledged) == KILLS
    found = {run.json["name"]: run for run in read_all(project)}
    kept = 0
    for k, count in acknowledged.items():
        run = found.get(f"t{k}")
        if run is None:
            assert count == 0, "a run that had acknowledged records is gone"
            continue
        assert not run.damage
        check_run(run.values("n"), run.at("n"), count)
        assert run.how is None, "nobody said how it ended"
        kept += len(run.records)
    assert kept > 0
    again = subprocess.run(
        [sys.executable, "-c", "import rearview as rv; rv.log('after', 1)"], env=env, capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert again.returncode == 0
    assert read_all(project)[-1].values("after") == [1]
    tally("SIGKILLs while recording", KILLS)
    tally("records acknowledged before a kill", sum(acknowledged.values()))


PROGRAM = """
import sys, rearview as rv
n = 0
for step in rv.loop("step"):
    rv.log("n", n)
    print(n, flush=True)
    n += 1
"""


def test_kill_of_a_whole_program(project: Path) -> None:
    """The same with plain processes, a pipe for the acknowledgements, and the launcher in between."""
    (project / "toy.py").write_text(PROGRAM)
    for words in ([sys.executable, "toy.py"], [sys.executable, "-m", "rearview", "run", "toy.py"]):
        child = subprocess.Popen(words, env=environment(None), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(random.random() * 0.1)
        os.kill(child.pid, signal.SIGKILL)
        lines = [first, *child.stdout.read().splitlines()]  # ends when the script, too, is gone
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
        acknowledged = int(lines[-1] if lines[-1].strip().isdigit() else lines[-2]) + 1
        run = read_all(project)[-1]
        assert not run.damage
        assert run.values("n")[:acknowledged] == list(range(acknowledged))
        assert len(run.values("n")) <= acknowledged + 2  # one written and not acknowledged, one acknowledged in a torn line
