"""Programs that start work beside the training in each iteration, which the nested loop takes from: killed behind that loop, and asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunsProgram

TRAIN = '''
import concurrent.futures, glob, json, multiprocessing, os, queue, random, subprocess, sys, threading, time
import rearview as rv

def die(part, at, patience_s=20):
    """Die here once a state is kept, if this is the execution that is to."""
    if os.environ.get("DIE") == part and at == int(os.environ["AT"]):
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            if any(json.load(open(name))["path"][0][2] == at for name in glob.glob(f".rearview/runs/*/checkpoints/*-{part}.json")):
                os.kill(os.getpid(), 9)
            time.sleep(0.01)

def feed(queue, numbers):
    for number in numbers:
        queue.put(number)
    queue.put(None)

class ByThread:
    def __init__(self, numbers):
        self.queue = queue.Queue(2)
        self.thread = threading.Thread(target=feed, args=(self.queue, numbers), daemon=True)
        self.thread.start()
        self.numbers, self.wait = iter(self.queue.get, None), self.thread.join

class ByProcess:
    def __init__(self, numbers):
        self.queue = multiprocessing.get_context("fork").Queue(2)
        self.process = multiprocessing.get_context("fork").Process(target=feed, args=(self.queue, numbers), daemon=True)
        self.process.start()
        self.numbers, self.wait = iter(self.queue.get, None), self.process.join

pool = concurrent.futures.ThreadPoolExecutor(1)

class ByPool:
    def __init__(self, numbers):
        self.queue = queue.Queue(2)
        self.future = pool.submit(feed, self.queue, numbers)
        self.numbers, self.wait = iter(self.queue.get, None), self.future.result

class BySubprocess:
    def __init__(self, numbers):
        tell = f"for number in {numbers}: print(str(number).ljust(40000))"
        self.process = subprocess.Popen([sys.executable, "-c", tell], stdout=subprocess.PIPE, text=True)
        self.numbers, self.wait = map(float, self.process.stdout), self.process.wait

def main():
    random.seed(3)
    total = 0.0
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(4)):
            source = globals()[sys.argv[1]]([random.random() for _ in range(6)])
            for step, number in enumerate(rv.loop("step", source.numbers)):
                total += number * random.random()
                time.sleep(0.02)
                die("inside", epoch, patience_s=3)
            die("block", epoch)
            source.wait()
            rv.log("total", total)
    print(total)

main()
'''

WAYS = ("ByThread", "ByProcess", "ByPool", "BySubprocess")


def _recorded(project: Path, cli: RunsProgram, way: str, part: str, at: int) -> str:
    """Kills the program at a place; gives what it prints when it is left alone."""
    (project / "train.py").write_text(TRAIN)
    whole = cli("run", "train.py", way, env={"REARVIEW": "off"}, check=True)
    settings = {"REARVIEW_EVERY": "1", "REARVIEW_RISK": "0.000001" if part == "inside" else "900"}
    assert cli("run", "train.py", way, env={"DIE": part, "AT": str(at), **settings}).returncode == -9
    return whole.stdout


@pytest.mark.parametrize("way", WAYS)
def test_an_older_restore_point_is_taken_where_what_feeds_the_loop_would_wait_for_ever(way: str, project: Path, cli: RunsProgram) -> None:
    whole = _recorded(project, cli, way, "block", 2)
    done = cli("resume", "--yes", check=True, timeout=60)
    assert "after epoch=1" in done.stderr
    assert "epoch=2, behind the loop step" in done.stderr  # passed over, and said
    assert "at work" in done.stderr
    assert done.stdout == whole


@pytest.mark.parametrize("way", ["ByThread", "BySubprocess"])
def test_inside_the_loop_as_well(way: str, project: Path, cli: RunsProgram) -> None:
    whole = _recorded(project, cli, way, "inside", 2)
    done = cli("resume", "--yes", check=True, timeout=60)
    assert "after epoch=1" in done.stderr
    assert done.stdout == whole


def test_where_there_is_no_other_it_begins_anew_and_says_why(project: Path, cli: RunsProgram) -> None:
    whole = _recorded(project, cli, "ByThread", "block", 0)
    done = cli("resume", "--yes", check=True, timeout=60)
    assert "at its beginning" in done.stderr
    assert "at work" in done.stderr
    assert "it has no checkpoint" not in done.stderr
    assert done.stdout == whole


STAGES = """
import glob, os, queue, random, threading, time
import rearview as rv

def die(loop, at):
    if os.environ.get("DIE") == loop and at == 3:
        patience = time.monotonic() + 20
        while len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) < int(os.environ["KEPT"]):
            assert time.monotonic() < patience
            time.sleep(0.01)
        os.kill(os.getpid(), 9)

def feed(numbers):
    for number in range(6):
        numbers.put(number)
    numbers.put(None)

random.seed(3)
total = 0.0
numbers = queue.Queue(2)
thread = threading.Thread(target=feed, args=(numbers,), daemon=True)
thread.start()
with rv.checkpointing():
    for number in rv.loop("first", iter(numbers.get, None)):
        total += number * random.random()
        die("first", number)
thread.join()
with rv.checkpointing():
    for number in rv.loop("second", range(6)):
        total += number * random.random()
        rv.log("total", total)
        die("second", number)
print(total)
"""


BY_ITSELF = """
def numbered():
    numbers = queue.Queue(2)
    threading.Thread(target=feed, args=(numbers,), daemon=True).start()
    while (number := numbers.get()) is not None:
        yield number

random.seed(3)
total = 0.0
with rv.checkpointing():
    for number in rv.loop("first", numbered()):
        total += number * random.random()
        rv.log("total", total)
        die("first", number)
print(total)
"""


@pytest.mark.parametrize(("program", "loop", "kept"), [(STAGES, "first", 3), (STAGES, "second", 9), (BY_ITSELF, "first", 3)])
def test_a_main_loop_that_a_thread_feeds_is_gone_through_from_the_beginning(
    program: str, loop: str, kept: int, project: Path, cli: RunsProgram
) -> None:
    (project / "train.py").write_text(program if program is STAGES else STAGES.partition("random.seed")[0] + program)
    whole = cli("run", "train.py", env={"REARVIEW": "off"}, check=True)
    assert cli("run", "train.py", env={"DIE": loop, "KEPT": str(kept), "REARVIEW_EVERY": "1"}).returncode == -9
    done = cli("resume", "--yes", check=True, timeout=60)
    assert "feed was at work" in done.stderr
    assert "at its beginning" in done.stderr
    assert done.stdout == whole.stdout


@pytest.mark.parametrize("way", ["ByThread", "ByPool"])
def test_a_statement_behind_the_loop_is_answered_by_running_it(way: str, project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(TRAIN)
    cli("run", "train.py", way, env={"REARVIEW_EVERY": "1"}, check=True)
    (project / "train.py").write_text(TRAIN.replace('rv.log("total", total)', 'rv.log("total", total); rv.log("half", total / 2)'))
    done = cli("replay", "half", "--yes", timeout=60)
    assert done.returncode == 0, done.stderr
    table = cli("df", "total", "half", "--csv", check=True).stdout.splitlines()
    assert len(table) == 5
    for row in table[1:]:
        total, half = map(float, row.split(",")[-2:])
        assert half == total / 2
