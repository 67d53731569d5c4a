"""Data of the functions that call the one with `checkpointing` is what it was, though the code before the loop draws it anew."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import RunsProgram

TRAIN = """
import glob, os, secrets, time
import numpy as np
import rearview as rv

def die(epoch):
    if os.environ.get("DIE") and epoch == 2:
        while len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), 9)

def train(weights, rate):
    with rv.checkpointing(weights=weights):
        for epoch in rv.loop("epoch", range(4)):
            for _ in rv.loop("step", range(2)):
                weights += rate
            die(epoch)
    return rate

def search(rate):
    note, client = [rate], open(os.devnull)
    assert train(np.zeros(3), rate) == rate == note[0]
    return note

def main():
    held_out, rate, name = np.random.default_rng().normal(size=5), secrets.randbelow(10**6), secrets.token_hex(4)
    told = {"name": name, "sum": float(held_out.sum())}
    print(told, rate, flush=True)
    note = search(rate)
    print({"name": name, "sum": float(held_out.sum())}, rate, flush=True)
    assert (told["name"], note) == (name, [rate])

main()
"""


def test_what_the_code_before_draws_anew_is_what_it_was(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(TRAIN)
    every = {"REARVIEW_EVERY": "1"}
    killed = cli("run", "train.py", env={**every, "DIE": "1"})
    assert killed.returncode == -9
    done = cli("resume", "--yes", env=every, check=True)
    assert done.stdout.splitlines()[-1] == killed.stdout.splitlines()[0]
    assert "partial" not in killed.stderr + done.stderr, "what cannot be kept is left to the code that makes it"
    assert "may not go on exactly" not in done.stderr
