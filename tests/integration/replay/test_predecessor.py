"""What the predecessor's replay got wrong, each line of it: the wrong state, lost steps, depth by the text, argv, where, twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story

STEPS = """import random
import rearview as rv

random.seed(5)
w = [0.0] * 3


def norm():
    value = sum(x * x for x in w) ** 0.5
    rv.log("seen", value)  #?
    return value


with rv.checkpointing(w=w):
    for epoch in rv.loop("epoch", range(4)):
        rv.log("start", norm())  #?
        for step in rv.loop("step", range(5)):
            w[step % 3] += random.random()
            rv.log("inner", norm() * 2)  #?
            if step == 3 and epoch == 2:
                break
        rv.log("end", norm())
rv.log("after", norm())
"""


@pytest.mark.parametrize("every", ["1", "3"])
def test_each_site_has_the_state_of_its_own_moment_and_every_step(tmp_path: Path, every: str) -> None:
    one = Story(tmp_path, {"train.py": STEPS}, env={"REARVIEW_EVERY": every})
    one.record()
    one.fill("start", "inner", "seen")
    rows = one.rows(one.project, "start", "inner", "seen")
    assert rows == one.truth("start", "inner", "seen")
    assert sum(name == "inner" for _, _, name, _ in rows) == 5 + 5 + 4 + 5  # each step, and none after the break
    assert {path.count("/") for _, path, name, _ in rows if name == "seen"} == {0, 1}  # where it runs, not where it is written


def test_asked_twice_runs_once_and_stores_once(tmp_path: Path) -> None:
    one = Story(tmp_path, {"train.py": STEPS}, env={"REARVIEW_EVERY": "1"})
    one.record()
    one.ask("start")
    before = one.rows(one.project, "start")
    done = one.ask("start")
    assert "nothing to run" in done.stdout + done.stderr
    assert one.rows(one.project, "start") == before
    assert len(json.loads(one.cli("replays", "--json").stdout)["replays"]) == 1


ARGUMENTS = """import argparse, os, sys
import rearview as rv

parser = argparse.ArgumentParser()
parser.add_argument("--iter", type=int, default=2)
parser.add_argument("words", nargs="*")
given = parser.parse_args()
rate = rv.arg("rate", 0.5)
total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(given.iter)):
        for step in rv.loop("step", range(3)):
            total += rate
        rv.log("total", total)
        rv.log("asked", total * given.iter + len(given.words) + float(os.environ.get("SCALE", "0")))  #?
"""


def test_its_own_arguments_and_ours_are_the_recorded_ones(tmp_path: Path) -> None:
    one = Story(tmp_path, {"train.py": ARGUMENTS}, args=("--iter", "4", "a b", "--", "c"), env={"REARVIEW_EVERY": "1"})
    one.record()
    one.ask("asked")
    assert one.rows(one.project, "asked") == one.truth("asked")
    assert len(one.rows(one.project, "asked")) == 4


def test_a_module_of_a_package_is_replayed_as_one(tmp_path: Path) -> None:
    text = ARGUMENTS.replace("import rearview as rv\n", "import rearview as rv\nfrom .rates import half\n")
    text = text.replace("+= rate", "+= half(rate)")
    files = {"pkg/__init__.py": "", "pkg/rates.py": "def half(x):\n    return x / 2\n", "pkg/train.py": text}
    one = Story(tmp_path, files, script="-m", args=("pkg.train", "--iter", "3"), env={"REARVIEW_EVERY": "1"})
    one.record()
    one.ask("asked")
    assert one.rows(one.project, "asked") == one.truth("asked")


def test_where_chooses_the_runs_that_are_asked(tmp_path: Path) -> None:
    one = Story(tmp_path, {"train.py": ARGUMENTS}, env={"REARVIEW_EVERY": "1"})
    for rate in ("0.1", "0.7"):
        one.cli("run", "--arg", f"rate={rate}", "train.py")
    one.ask("asked", "--where", "rate > 0.5")
    assert len(one.rows(one.project, "asked")) == 2  # of one run
    listed = json.loads(one.cli("replays", "--json").stdout)["replays"]
    assert len(listed) == 1
    done = one.ask("asked", "--where", "rate > 5", code=3)
    assert "no run" in done.stderr


CHILDREN = """import os
import rearview as rv

total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(2)):
            total += step + epoch
        pid = os.fork()
        if pid == 0:
            rv.log("child", total)
            rv.log("asked", total * 3)  #?
            os._exit(0)
        os.waitpid(pid, 0)
        rv.log("total", total)
"""


def test_what_forked_children_log_is_there(tmp_path: Path) -> None:
    one = Story(tmp_path, {"train.py": CHILDREN}, env={"REARVIEW_EVERY": "1"})
    one.record()
    one.ask("asked", "--workers", "1")  # shared by several, the answer may be divergent: said, not wrong
    assert one.rows(one.project, "asked") == one.truth("asked")
    assert {process for process, *_ in one.rows(one.project, "asked")} != {"0"}


def test_the_repository_of_the_user_stays_as_it_is(tmp_path: Path) -> None:
    one = Story(tmp_path, {"train.py": STEPS}, env={"REARVIEW_EVERY": "1"})
    os.system(f"cd {one.project} && git init -q -b mine . && git add train.py && git -c user.name=a -c user.email=a@b commit -qm one")  # noqa: S605
    one.record()
    one.write(one.project, probed=True)
    before = {path: path.read_bytes() for path in (one.project / ".git").rglob("*") if path.is_file()}
    one.cli("replay", "start", "--yes")
    assert {path: path.read_bytes() for path in (one.project / ".git").rglob("*") if path.is_file()} == before
