"""Replays as a person has them: interrupted, asked twice, for some iterations, of several runs; workers that die."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from rearview.replay.running.progress import Seen, Tail
from tests.conftest import environment
from tests.integration.replay.hindsight import Rows, Story, recorded_text

PROGRAM = """
import os, random, time
import rearview as rv

random.seed(5)
weights = [0.0]
with rv.checkpointing(weights=weights):
    for epoch in rv.loop("epoch", range(10)):
        for step in rv.loop("step", range(4)):
            weights[0] += random.random()
            rv.log("loss", weights[0])
            rv.log("inner", weights[0] * 3)  #?
            time.sleep(float(os.environ.get("PAUSE", "0")))
        rv.log("outer", weights[0] / 7)  #?
rv.log("final", weights[0])
"""


def _story(folder: Path, text: str = PROGRAM, **env: str) -> Story:
    story = Story(folder, {"train.py": text}, env={"REARVIEW_EVERY": "1", **env})
    story.record()
    return story


def _begin(story: Story, *words: str) -> subprocess.Popen[str]:
    """Start a replay that takes its time."""
    story.write(story.project, probed=True)
    environ = {**environment(None), "PYTHONHASHSEED": "0", "REARVIEW_EVERY": "1", "PAUSE": "0.1"}
    return subprocess.Popen(
        [sys.executable, "-m", "rearview", "replay", *words, "--yes"],
        cwd=story.project, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def _until(story: Story, iterations: int) -> list[Path]:
    """Wait until some worker has finished so many iterations; the scratch of all workers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        units = [path.parent for path in (story.project / ".rearview" / "tmp").glob("replay-*/*/unit.json")]
        for unit in units:
            run = json.loads((unit / "unit.json").read_text())["run"]
            seen = Seen(Tail(unit, run))
            seen.look()
            if len(seen.iterations) >= iterations:
                return units
        time.sleep(0.05)
    raise AssertionError("no worker came so far")


def test_an_interrupted_replay_goes_on(tmp_path: Path) -> None:
    story = _story(tmp_path, PAUSE="0.02")  # so that running again what is there would cost more than a restore
    begun = _begin(story, "inner", "--workers", "1")
    _until(story, 2)
    begun.send_signal(signal.SIGINT)
    said, _ = begun.communicate(timeout=60)
    assert begun.returncode == 130, said
    kept = story.rows(story.project, "inner")
    assert 0 < len(kept) < 40 and len(kept) % 4 == 0, "of an iteration that was not finished nothing is kept"
    assert f": {len(kept)} values" in said
    assert not list((story.project / ".rearview" / "tmp").glob("replay-*"))
    rest = story.ask("inner").stdout
    assert f": {40 - len(kept)} values" in rest, "what is there is not asked again"
    assert story.rows(story.project, "inner") == story.truth("inner")


def test_a_worker_that_dies_is_replaced_from_where_it_was(tmp_path: Path) -> None:
    story = _story(tmp_path)
    begun = _begin(story, "inner", "--workers", "1")
    unit = _until(story, 2)[0]
    _kill_worker(unit)
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode == 0, said
    assert "identical" in said
    assert story.rows(story.project, "inner") == story.truth("inner")


def test_a_worker_that_dies_twice_is_reported_and_the_rest_is_kept(tmp_path: Path) -> None:
    text = PROGRAM.replace('rv.log("outer"', 'rv.log("dies", os._exit(9) if epoch == 6 else epoch)  #?\n        rv.log("outer"')
    story = _story(tmp_path, text)
    done = story.ask("dies", code=1)
    assert "twice" in done.stdout
    assert len(story.rows(story.project, "dies")) >= 5


def _kill_worker(unit: Path) -> None:
    """End the worker of a unit: its process has the unit file in its environment."""
    wanted = f"REARVIEW_UNIT={unit / 'unit.json'}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    return
            except OSError:
                continue
    raise AssertionError("the worker is not there")


def test_asked_twice_nothing_runs(tmp_path: Path) -> None:
    story = _story(tmp_path)
    story.ask("outer")
    assert "answered already" in story.ask("outer").stdout
    plan = json.loads(story.cli("replay", "outer", "--dry-run", "--json").stdout)
    assert plan["plans"] == [] and len(plan["answered"]) == 1
    [told] = json.loads(story.cli("replay", "outer", "--yes", "--json").stdout)["answers"]
    assert told["verdict"] == "identical" and told["run"] == plan["answered"][0] and told["answered_before"]
    assert story.rows(story.project, "outer") == story.truth("outer")


def test_only_some_iterations_and_then_the_others(tmp_path: Path) -> None:
    story = _story(tmp_path)
    story.ask("inner", "--only", "epoch=3..5")
    assert len(story.rows(story.project, "inner")) == 12
    story.ask("inner")
    assert story.rows(story.project, "inner") == story.truth("inner")
    assert "no iteration" in story.cli("replay", "outer", "--only", "epoch=99", "--yes", check=False).stderr
    assert "main loops" in story.cli("replay", "outer", "--only", "step=1", "--yes", check=False).stderr


def test_the_plan_says_what_runs(tmp_path: Path) -> None:
    story = _story(tmp_path)
    story.write(story.project, probed=True)
    outer = json.loads(story.cli("replay", "outer", "--dry-run", "--json").stdout)["plans"][0]
    assert [scan["name"] for scan in outer["scans"]] == ["validation"]
    assert outer["put_back"] == 10 and outer["must_run"] == []
    inner = json.loads(story.cli("replay", "inner", "--dry-run", "--json", "--workers", "2").stdout)["plans"][0]
    assert [scan["name"] for scan in inner["scans"]] == ["range"]
    assert inner["put_back"] == 0 and inner["workers"] <= 2
    start = json.loads(story.cli("replay", "outer", "--dry-run", "--json", "--from-start").stdout)["plans"][0]
    assert start["rung"] == "start" and start["put_back"] == 0
    assert story.rows(story.project, "outer") == {}


def test_a_version_that_is_skipped_is_listed_as_such(tmp_path: Path) -> None:
    story = _story(tmp_path)
    (story.project / "train.py").write_text(recorded_text(PROGRAM.replace("random.seed(5)", "random.seed(6)")))
    story.cli("run", "train.py")
    version = json.loads(story.cli("runs", "--json").stdout)["runs"][-1]["version"]
    done = story.ask("outer", "--skip", version[:9])
    assert "not asked" in done.stdout and f"version {version[:8]} is skipped" in done.stdout
    assert story.rows(story.project, "outer") == story.truth("outer")
    assert story.cli("replay", "outer", "--skip", "v00000000", "--yes", check=False).returncode == 2


def test_without_a_name_every_virtual_one_and_without_editing_any_other(tmp_path: Path) -> None:
    story = _story(tmp_path)
    story.ask()
    assert story.rows(story.project, "outer", "inner") == story.truth("outer", "inner")
    line = next(k for k, text in enumerate(PROGRAM.splitlines(), 1) if "weights[0] / 7" in text)
    story.cli("replay", "--at", f"train.py:{line}", "weights[0] / 7", "--as", "again", "--yes")
    values = {key[1]: value for key, value in story.rows(story.project, "again").items()}
    assert values == {key[1]: value for key, value in story.truth("outer").items()}
    assert story.cli("replay", "nothing", "--yes", check=False).returncode == 3
    assert "log" in story.cli("replay", "final", "--yes", check=False).stderr


def test_a_run_is_proved(tmp_path: Path) -> None:
    story = _story(tmp_path)
    done = story.cli("verify", "--yes", "--json")
    facts = json.loads(done.stdout)
    assert facts["verdict"] == "identical" and facts["compared"]["records"] == 41 and facts["compared"]["states"] >= 20
    assert story.cli("verify", "last", "--yes", "--from-start").returncode == 0


def test_a_run_that_does_not_repeat_itself_is_told(tmp_path: Path) -> None:
    text = PROGRAM.replace("random.random()", "random.random() + int.from_bytes(os.urandom(1), 'big')")
    story = _story(tmp_path, text)
    done = story.cli("verify", "--yes", check=False)
    assert done.returncode == 1
    assert "divergent" in done.stdout and "first difference" in done.stdout and "epoch=0" in done.stdout


TWICE = """
import random
import rearview as rv

random.seed(5)
weights = [0.0]
rv.log("places", weights[0])  #?
for fold in range(3):
    with rv.checkpointing(weights=weights):
        for epoch in rv.loop("epoch", range(4)):
            for step in rv.loop("step", range(3)):
                weights[0] += random.random()
            rv.log("acc", weights[0])
            rv.log("outer", weights[0] / 7)  #?
    rv.log("places", weights[0])  #?
"""


def test_several_main_loops_and_a_name_that_is_logged_around_them(tmp_path: Path) -> None:
    story = _story(tmp_path, TWICE)
    story.ask("--workers", "3")
    assert story.rows(story.project, "outer", "places") == story.truth("outer", "places")


def _up_to(truth: Rows, epoch: int, step: int) -> Rows:
    """What was logged before a step of an epoch, that of the step included."""
    return {key: value for key, value in truth.items() if tuple(int(n) for n in re.findall("=([0-9]+)", key[1])) <= (epoch, step)}


def test_a_killed_run_answers_as_far_as_it_came(tmp_path: Path) -> None:
    dies = '            os.kill(os.getpid(), 9) if epoch == 6 and step == 2 and os.environ.get("KILL") else 0\n'
    text = PROGRAM.replace('            rv.log("loss"', dies + '            rv.log("loss"')
    story = Story(tmp_path, {"train.py": text}, env={"REARVIEW_EVERY": "1", "KILL": "1"})
    story.record(check=False)
    story.ask("inner", "outer", "--only", "epoch=0..5")
    done = story.ask("inner", "outer")  # the program would kill itself again: it does not come so far
    assert "cut short" in done.stdout and "identical" in done.stdout
    assert "answered already" in story.ask("inner", "outer").stdout
    story.env = {"REARVIEW_EVERY": "1"}
    assert story.rows(story.project, "outer") == _up_to(story.truth("outer"), 5, 9)
    assert story.rows(story.project, "inner") == _up_to(story.truth("inner"), 6, 0)


PLAIN = """
import random
import rearview as rv

random.seed(5)
total = 0.0
for epoch in rv.loop("epoch", range(3)):
    for step in rv.loop("step", range(2)):
        total += random.random()
        rv.log("inner", total)  #?
    rv.log("acc", total)
rv.log("end", total * 2)  #?
"""


def test_a_program_without_checkpoints_runs_from_its_start(tmp_path: Path) -> None:
    story = _story(tmp_path, PLAIN)
    done = story.ask()
    assert "the program's beginning: there is no checkpoint to start from" in " ".join(done.stdout.split())
    assert story.rows(story.project, "inner", "end") == story.truth("inner", "end")


SEVERAL = """
import random
import rearview as rv

random.seed(5)
for lr in (0.1, 0.2):
    with rv.run(name=f"lr {lr}"):
        weights = [0.0]
        with rv.checkpointing(weights=weights):
            for epoch in rv.loop("epoch", range(4)):
                for step in rv.loop("step", range(2)):
                    weights[0] += lr * random.random()
                rv.log("acc", weights[0])
                rv.log("outer", weights[0] / 3)  #?
        rv.log("end", weights[0] * 2)  #?
"""


def test_each_of_several_runs_of_a_process_is_asked(tmp_path: Path) -> None:
    story = _story(tmp_path, SEVERAL)
    done = story.ask()
    assert done.stdout.count("identical") == 2
    assert story.rows(story.project, "outer", "end") == story.truth("outer", "end")


def test_a_run_that_was_killed_after_its_loops_or_without_any(tmp_path: Path) -> None:
    kills = 'import os\nif os.environ.get("KILL"): os.kill(os.getpid(), 9)\n'
    dies = f'rv.log("end", total * 2)  #?\nrv.log("last", total)\nrv.log("beyond", total)  #?\n{kills}'
    story = Story(tmp_path, {"train.py": PLAIN.replace('rv.log("end", total * 2)  #?\n', dies)}, env={"KILL": "1"})
    story.record(check=False)
    done = story.ask("inner", "end", "beyond")
    assert "identical" in done.stdout
    story.env = {}
    assert story.rows(story.project, "inner", "end") == story.truth("inner", "end")
    assert story.rows(story.project, "beyond") == {}


def test_a_worker_that_fails_where_the_record_did_not_is_no_answer(tmp_path: Path) -> None:
    fails = "import os\nif os.environ.get('BROKEN'): raise OSError('no disk')\n"
    raises = "            if epoch == 7 and step == 2: raise ValueError('nan')"
    text = fails + PROGRAM.replace('        rv.log("outer"', f'{raises}\n        rv.log("outer"')
    story = Story(tmp_path, {"train.py": text}, env={"REARVIEW_EVERY": "1"})
    assert story.record(check=False).returncode == 1
    story.env = {"REARVIEW_EVERY": "1", "BROKEN": "1"}
    done = story.ask("inner", code=1)
    assert "nothing is answered" in done.stdout and "identical" not in done.stdout and "no disk" in done.stderr
    assert story.rows(story.project, "inner") == {}
    story.env = {"REARVIEW_EVERY": "1"}
    assert "identical" in story.ask("inner").stdout
    story.run(story.folder / "truth", ["train.py"], check=False)
    assert story.rows(story.project, "inner") == story.rows(story.folder / "truth", "inner")


def test_what_rests_on_the_last_state_alone_is_proved_by_it(tmp_path: Path) -> None:
    ends = PROGRAM.replace('rv.log("final", weights[0])\n', 'rv.log("after", weights[0] * 2)  #?\n')
    done = _story(tmp_path / "exhausted", ends).ask("after")
    assert "1 value, identical (0 records and 1 state compared)" in done.stdout, done.stdout
    broken = ends.replace('        rv.log("outer"', '        if epoch == 4: break\n        rv.log("outer"')
    story = _story(tmp_path / "broken", broken)
    done = story.ask("after")
    assert "1 value, identical (0 records and 1 state compared)" in done.stdout, done.stdout
    assert story.rows(story.project, "after") == story.truth("after")
