"""Programs that hold something on the way to their loops that is in no variable: killed there and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunsProgram

HEAD = """
import contextlib, functools, glob, json, os, random, time
import rearview as rv

def die(at, part="{part}", name="{loop}"):
    \"\"\"Die here, if this is the moment, once the newest state is one in the loop that is meant.\"\"\"
    if os.environ.get("DIE") != str(at):
        return
    until = time.monotonic() + 20
    while time.monotonic() < until:
        paths = [json.load(open(one))["path"] for one in glob.glob(f".rearview/runs/*/checkpoints/*-{{part}}.json")]
        if any(path[-1][0] == name and path[-2:][0][2] == at for path in paths):
            os.kill(os.getpid(), 9)
        time.sleep(0.01)
    raise SystemExit("no such state was kept")

random.seed(3)
weight, history, average = [0.0], [], [0.0]

def step(x=1.0):
    weight[0] += random.random() * x
    average[0] = 0.9 * average[0] + 0.1 * weight[0]
    time.sleep(0.06)
    return weight[0]
"""

PROGRAMS = {
    "a value that waits in an expression": (
        "inside", "val", """
def train():
    total = 0.0
    for x in rv.loop("step", range(3)):
        total += step(x)
    return total / 3

def validate(epoch):
    total = 0.0
    for x in rv.loop("val", range(3)):
        total += weight[0] * random.random()
        time.sleep(0.06)
        die(epoch) if x == 2 else None
    return total

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        history.append({"train": train(), "val": validate(epoch)})
        rv.log("train", history[-1]["train"])
""",
    ),
    "objects in an order that the state tells": (
        "inside", "task", """
class Task:
    def __init__(self, name, error):
        self.name, self.error = name, error

tasks = [Task(name, error) for name, error in zip("abcd", [4.0, 3.0, 2.0, 1.0])]
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for at, task in enumerate(rv.loop("task", sorted(tasks, key=lambda task: -task.error))):
            task.error = step(task.error) % 5
            history.append(task.name)
            rv.log("error", task.error)
            die(epoch) if at == 2 else None
""",
    ),
    "objects with their names, in a loop around the checkpointing": (
        "inside", "task", """
class Task:
    def __init__(self, error):
        self.error = error

for fold in rv.loop("fold", range(2)):
    tasks = {name: Task(error) for name, error in zip("abcd", [4.0, 3.0, 2.0, 1.0])}
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(3)):
            for at, (name, task) in enumerate(rv.loop("task", sorted(tasks.items(), key=lambda item: -item[1].error))):
                task.error = (step() and task.error + 2.5) % 5
                history.append(name)
                rv.log("error", task.error)
                die(epoch) if at == 2 else None
""",
    ),
    "what a function made of an earlier loop": (
        "inside", "val", """
def run(split, epoch):
    seen = []
    for x in rv.loop(split, range(3)):
        seen.append(step(x))
        die(epoch) if (split, x) == ("val", 2) else None
    return sum(seen) / len(seen)

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        means = {}
        for split in ("train", "val"):
            means[split] = run(split, epoch)
            rv.log(split, means[split])
        history.append(means)
""",
    ),
    "a block that keeps what it found": (
        "block", "val", """
@contextlib.contextmanager
def averaged():
    before = list(weight)
    weight[:] = average
    yield
    weight[:] = before

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for _ in range(2):
            step()
        with averaged():
            for x in rv.loop("val", range(2)):
                rv.log("val", weight[0] * x)
            die(epoch)
        rv.log("weight", weight[0])
        history.append(weight[0])
""",
    ),
    "a comprehension": (
        "block", "step", """
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        values = [step(x) for x in rv.loop("step", range(3))]
        die(epoch)
        history.append(sum(values))
        rv.log("sum", history[-1])
""",
    ),
    "a function that gathers": (
        "block", "step", """
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        history.append(functools.reduce(lambda total, x: total + step(x), rv.loop("step", range(3)), 0.0))
        die(epoch)
        rv.log("sum", history[-1])
""",
    ),
    "items that were chosen by a state that is no more": (
        "inside", "step", """
loss = {name: float(len(name)) for name in ("a", "bbb", "cc", "dddd")}
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for place, name in enumerate(rv.loop("step", sorted(loss, key=loss.get))):
            loss[name] = step(loss[name]) % 3
            rv.log("loss", loss[name])
            die(epoch) if place == 2 else None
        history.append(dict(loss))
""",
    ),
}  # fmt: skip


def written(project: Path, what: str) -> None:
    part, loop, body = PROGRAMS[what]
    (project / "train.py").write_text(HEAD.format(part=part, loop=loop) + body + '\nprint("end", weight, history, random.random())\n')


def table(cli: RunsProgram) -> list[str]:
    told = cli("sql", "SELECT value_name, value, ctx_id FROM logs", "--csv", check=True)
    return sorted(line.partition("/")[0].rpartition(",")[0] + line.partition("/")[2] for line in told.stdout.splitlines())


@pytest.mark.parametrize("what", PROGRAMS)
def test_it_goes_on_from_a_state_that_has_everything(what: str, project: Path, cli: RunsProgram) -> None:
    written(project, what)
    settings = {"REARVIEW_EVERY": "2", "REARVIEW_RISK": "0.000001" if PROGRAMS[what][0] == "inside" else "900"}
    whole = cli("run", "train.py", env=settings, check=True)
    rows = table(cli)
    cli("rm", "--yes", "last", check=True)
    died = cli("run", "train.py", env={**settings, "DIE": "1"})
    assert died.returncode == -9, died.stderr
    done = cli("resume", "--yes", check=True)
    assert done.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]
    assert table(cli) == rows
    assert "please report" not in done.stderr


def test_what_a_main_loop_gathers_is_named_beforehand(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(
        HEAD.format(part="iteration", loop="fold")
        + """
def fold(number):
    rv.log("weight", step())
    die(number - 1)
    return weight[0]

with rv.checkpointing():
    scores = [fold(number) for number in rv.loop("fold", range(4))]
print("end", scores)
"""
    )
    assert cli("run", "train.py", env={"REARVIEW_EVERY": "1", "DIE": "1"}).returncode == -9
    plan = cli("resume", "--dry-run", check=True)
    told = " ".join((plan.stdout + plan.stderr).split())
    assert "[fold(number) for number in rv.loop('fold', range(4))] (comprehension): what it has gathered of the main loop so far" in told


def test_after_a_place_that_it_did_not_come_to_it_goes_on_from_an_older_one(project: Path, cli: RunsProgram) -> None:
    """The beginning of an iteration runs again on the way into it, and finds what its end has left."""
    (project / "train.py").write_text(
        HEAD.format(part="inside", loop="step")
        + """
tasks = [2.0, 3.0]
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(2)):
        task = tasks.pop(0)
        for at in rv.loop("step", range(4)):
            rv.log("weight", step(task))
            die(epoch) if at == 3 else None
        history.append(task)
print("end", history, weight)
"""
    )
    settings = {"REARVIEW_EVERY": "2", "REARVIEW_RISK": "0.000001"}
    whole = cli("run", "train.py", env={**settings, "REARVIEW": "off"}, check=True)
    assert cli("run", "train.py", env={**settings, "DIE": "1"}).returncode == -9
    failed = cli("resume", "--yes")
    assert failed.returncode == 1
    assert "IndexError: pop from empty list" in failed.stderr
    assert "takes an older state next" in failed.stderr
    done = cli("resume", "--yes", check=True)
    assert "did not come there" in " ".join(done.stderr.split())
    assert done.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]


def test_ordinary_programs_are_gone_on_with_from_inside(project: Path, cli: RunsProgram) -> None:
    """`with` blocks of libraries, methods of what waits, progress, functions in functions: nothing of it is in the way."""
    (project / "train.py").write_text(
        HEAD.format(part="inside", loop="step")
        + """
class Trainer:
    def __init__(self):
        self.losses = []

    def epoch(self, epoch):
        with open("log.txt", "a") as log, contextlib.suppress(KeyError):
            for at, x in enumerate(rv.loop("step", range(4))):
                self.losses.append(round(step(x), 3))
                print(x, file=log)
                die(epoch) if at == 3 else None
        return len(self.losses)

trainer = Trainer()
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        history.append(trainer.epoch(epoch))
        rv.log("loss", trainer.losses[-1])
print("end", history, trainer.losses)
"""
    )
    settings = {"REARVIEW_EVERY": "1", "REARVIEW_RISK": "0.000001"}
    whole = cli("run", "train.py", env={**settings, "REARVIEW": "off"}, check=True)
    (project / "log.txt").unlink()
    assert cli("run", "train.py", env={**settings, "DIE": "1"}).returncode == -9
    done = cli("resume", "--yes", check=True)
    assert "after step=" in done.stderr, "it began inside the loop"
    assert "partial" not in done.stderr
    assert done.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]


@pytest.mark.parametrize(("what", "is_run"), [("a block that keeps what it found", False), ("a comprehension", True)])
def test_a_replay_runs_a_nested_loop_only_if_what_it_gives_is_in_no_state(what: str, is_run: bool, project: Path, cli: RunsProgram) -> None:
    written(project, what)
    cli("run", "train.py", env={"REARVIEW_EVERY": "1"}, check=True)
    source = (project / "train.py").read_text()
    (project / "train.py").write_text(source.replace("history.append(", 'rv.log("seen", weight[0])\n        history.append(', 1))
    plan = cli("replay", "seen", "--dry-run", check=True)
    told = " ".join((plan.stdout + plan.stderr).split())
    assert ("is in no state, so the loop is run" in told) == is_run
    done = cli("replay", "seen", "--yes", check=True)
    assert "identical" in done.stdout + done.stderr
    rows = cli("sql", "SELECT value, verdict FROM logs WHERE value_name = 'seen'", "--csv", check=True).stdout.splitlines()[1:]
    assert len(rows) == 4
    assert all(row.endswith(",identical") for row in rows), rows
