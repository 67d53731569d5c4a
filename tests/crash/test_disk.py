"""A full or failing disk: the training's output and exit code stay, one warning, and records come again with room."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rearview.store import layout
from tests.conftest import RunsProgram, environment
from tests.integration.record.reading import read_all
from tests.small_disk import mounted as small_disk_at

TOY = """
import os, sys, time
import rearview as rv
lr = rv.arg("lr", 0.5)
w = 1.0
for epoch in rv.loop("epoch", "abc"):
    for step in rv.loop("step", range(400)):
        w = w * 0.999 + lr / (step + 1)
        rv.log("w", w)
        rv.log("text", "x" * 300)
    if epoch == "b" and os.environ.get("ROOM"):
        os.unlink(os.environ["ROOM"])
        time.sleep(1.2)
    print(epoch, w.hex(), flush=True)
rv.log("end", w)
with rv.run(name="second"):
    rv.log("w", w)
sys.exit(4)
"""


def run(words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], env=environment(env), capture_output=True, text=True, timeout=60)


@pytest.fixture
def truth(project: Path) -> subprocess.CompletedProcess[str]:
    (project / "toy.py").write_text(TOY)
    return run(["toy.py"], REARVIEW="off")


@pytest.fixture
def small_disk(project: Path) -> Iterator[Path]:
    """A disk of 600 kB at the place of the store."""
    with small_disk_at(project / layout.FOLDER, "600k") as store:
        yield store


def warnings(said: str) -> list[str]:
    return [line for line in said.splitlines() if "degraded" in line or "nothing is recorded" in line]


def same(done: subprocess.CompletedProcess[str], truth: subprocess.CompletedProcess[str]) -> None:
    assert (done.stdout, done.returncode) == (truth.stdout, truth.returncode)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_a_full_disk(project: Path, small_disk: Path, truth: subprocess.CompletedProcess[str], cli: RunsProgram) -> None:
    (small_disk / "ballast").write_bytes(bytes(300_000))
    done = run(["toy.py"])
    same(done, truth)
    assert len([line for line in warnings(done.stderr) if "degraded" in line]) == 1
    assert "No space left" in done.stderr or "full" in done.stderr
    (first, *_) = read_all(project)
    assert not first.damage
    values = first.values("w")
    assert 10 < len(values) < 1200
    assert [r.at for r in first.records if r.name == "w"][:5] == [f"epoch0/step{k}" for k in range(5)]
    assert first.how is not None, "its last words have room that was kept for them"
    assert "records could not be written" in cli("show", "last").stdout
    assert not list((small_disk / "tmp").glob("reserve-*"))


def test_records_come_again_when_there_is_room(project: Path, small_disk: Path, truth: subprocess.CompletedProcess[str]) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(450_000))
    done = run(["toy.py"], ROOM=str(ballast))
    same(done, truth)
    assert len(warnings(done.stderr)) == 1
    first, second = read_all(project)
    assert not first.damage
    places = first.at("w")
    assert places[0] == "epoch0/step0"
    assert places[-1] == "epoch2/step399"
    assert len(places) < 1200
    assert first.values("end")
    assert first.how is not None
    assert {r.called[0] for r in first.records if r.at.startswith("epoch2")} == {"c"}
    assert second.values("w") == first.values("end")
    lost = re.search(r"([\d,]+) records could not be written", done.stderr)
    assert lost is not None
    assert int(lost[1].replace(",", "")) == 2402 - len(first.records)  # an arg, 2 x 1200, the end


def test_a_disk_that_is_full_from_the_start(project: Path, small_disk: Path, truth: subprocess.CompletedProcess[str]) -> None:
    free = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize))
    done = run(["toy.py"])
    same(done, truth)
    assert len([line for line in done.stderr.splitlines() if "instead" in line]) == 2, "each run says where the store went"
    aside = [path.parent for path in (Path.home() / ".local/share/rearview").rglob("store.json")]
    assert [len(run.records) for run in read_all(aside[0].parent)] == [2402, 1]
    (small_disk / "ballast").unlink()


def test_a_limit_on_file_sizes(project: Path, truth: subprocess.CompletedProcess[str]) -> None:
    """RLIMIT_FSIZE: a write beyond it fails, in a new part it works again."""
    done = subprocess.run(
        [sys.executable, "toy.py"], env=environment(None), capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
    )  # fmt: skip
    same(done, truth)
    assert len(warnings(done.stderr)) == 1
    first, second = read_all(project)
    assert first.values("w")
    assert not first.damage
    assert second.values("w")


TINY = """
import rearview as rv
for step in rv.loop("step", range(6)):
    rv.log("n", step)
    print("ack", step, flush=True)
print("done")
"""


FAULTS = ("ENOSPC", "EIO", "SIGKILL")
CALLS = ("write", "openat", "fsync", "fdatasync", "rename", "link", "mkdir", "unlink", "ftruncate")
POINTS = 10_000 if os.environ.get("REARVIEW_TEST_LONG") else 4
"""Of each fault: a few by default, all of them in a long run."""


def traced(arguments: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    env = environment({"REARVIEW_QUIET": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **more})
    words = ["strace", "-f", "-qq", *arguments, sys.executable, "tiny.py"]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)


def calls_on_the_store(project: Path) -> list[tuple[str, int]]:
    """(call, its number among the main thread's calls of that kind) for each call that writes to the store."""
    assert traced(["-y", "-e", f"trace={','.join(CALLS)}", "-o", "calls"]).returncode == 0
    counts: dict[str, int] = {}
    found = []
    lines = (project / "calls").read_text().splitlines()
    main = lines[0].split()[0]
    for line in lines:
        pid, _, rest = line.partition(" ")
        call = rest.strip().partition("(")[0]
        if pid != main or call not in CALLS:
            continue
        counts[call] = counts.get(call, 0) + 1
        reads = call == "openat" and "O_WRONLY" not in rest and "O_DIRECTORY" not in rest
        if "/.rearview" in rest and not reads:
            found.append((call, counts[call]))
    shutil.rmtree(project / layout.FOLDER)
    return found


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_a_system_call(project: Path, fault: str, tally: Callable[[str, int], None]) -> None:
    """Of beginning a run in a new store and appending to it."""
    (project / "tiny.py").write_text(TINY)
    points = calls_on_the_store(project)
    assert len(points) > 20
    how = f"signal={fault}" if fault.startswith("SIG") else f"error={fault}"
    chosen = points if len(points) <= POINTS else random.sample(points, POINTS)
    for call, when in chosen:
        done = traced(["-o", "/dev/null", "-e", f"inject={call}:{how}:when={when}"])
        where = f"{fault} at {call} number {when}: {done.stderr}"
        acknowledged = done.stdout.count("ack")
        if fault == "SIGKILL":
            assert done.returncode in (-9, 137), where
        else:
            assert (done.returncode, done.stdout) == (0, "".join(f"ack {k}\n" for k in range(6)) + "done\n"), where
            assert "Traceback" not in done.stderr, where
            assert len(done.stderr.splitlines()) <= 2, where
        again = run(["tiny.py"], REARVIEW_QUIET="1")
        assert (again.returncode, again.stderr) == (0, ""), where
        found = read_all(project)
        assert found[-1].values("n") == list(range(6)), where
        assert not [one.damage for one in found if one.damage], where
        if fault == "SIGKILL" and acknowledged:
            assert found[0].values("n")[:acknowledged] == list(range(acknowledged)), where
        shutil.rmtree(project / layout.FOLDER)
    tally("faults at system calls of recording", len(chosen))
