"""Generators that write to the program's objects on their way: bringing one to its place runs its body over what was put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunsProgram

TRAIN = '''
import glob, json, os, random, sys, time
import rearview as rv

def die(at):
    """Die here once the state of the iteration before is kept, if this is the execution that is to."""
    if os.environ.get("AT") == str(at):
        while not any(json.load(open(name))["path"][0][2] == at - 1 for name in glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")):
            time.sleep(0.01)
        os.kill(os.getpid(), 9)

class Epochs:
    """Says to its data which epoch it is, as samplers are told."""
    def __init__(self):
        self.epoch, self.seen = 0, []
    def draws(self):
        epoch = 0
        while True:
            self.epoch = epoch
            order = random.Random(self.epoch).sample(range(5), 5)
            self.seen.append(epoch)
            for number in order:
                yield number + self.epoch
            epoch += 1

class Shuffled:
    """Shuffles what it runs over, by a generator of its own."""
    def __init__(self):
        self.order, self.rng, self.epoch = list(range(5)), random.Random(7), 0
    def draws(self):
        while True:
            self.epoch += 1
            self.rng.shuffle(self.order)
            for number in self.order:
                yield number * self.epoch

class Buffered:
    """Draws some numbers ahead, into a list that nothing else holds."""
    def __init__(self):
        self.rng, self.made = random.Random(3), 0
    def draws(self):
        while True:
            ahead = [self.rng.random() for _ in range(4)]
            self.made += 1
            for number in ahead:
                yield number

COUNT = 0
class Counting:
    """Counts in a variable of its module."""
    def draws(self):
        global COUNT
        while True:
            for number in range(4):
                COUNT += 1
                yield number * COUNT

def main():
    source, total = globals()[sys.argv[1]](), 0.0
    numbers = source.draws()
    with rv.checkpointing():
        if sys.argv[2] == "variable":
            for step in rv.loop("step", range(14)):
                total = 0.5 * total + next(numbers)
                rv.log("total", total)
                die(step)
        else:
            for step, number in enumerate(rv.loop("step", numbers)):
                total = 0.5 * total + number
                rv.log("total", total)
                die(step)
                if step == 13:
                    break
    state = {name: value for name, value in vars(source).items() if name != "rng"}
    print(total, COUNT, state, source.rng.random() if hasattr(source, "rng") else 0)

main()
'''


@pytest.mark.parametrize("where", ["variable", "loop"])
@pytest.mark.parametrize("kind", ["Epochs", "Shuffled", "Buffered", "Counting"])
@pytest.mark.parametrize("at", [2, 7, 12])
def test_what_a_generator_writes_on_its_way_is_as_it_was(kind: str, where: str, at: int, project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(TRAIN)
    whole = cli("run", "train.py", kind, where, env={"REARVIEW": "off"}, check=True)
    every = {"REARVIEW_EVERY": "1"}
    assert cli("run", "train.py", kind, where, env={**every, "AT": str(at)}).returncode == -9
    done = cli("resume", "--yes", env=every, check=True, timeout=60)
    assert done.stdout == whole.stdout
    assert "may not go on exactly" not in done.stderr
    assert "differ" not in done.stderr
