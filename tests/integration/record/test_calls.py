"""What the calls mean, seen from the journals: several defaults, exits, launches, texts that are no text."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.record.reading import read_all

SRC = Path(__file__).parents[3] / "src"


def run(project: Path, source: str, *words: str, before: list[str] | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    (project / "t.py").write_text(source)
    environ = {**os.environ, "PYTHONPATH": str(SRC), **more}
    return subprocess.run(
        [sys.executable, *(before or []), "t.py", *words], cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=60
    )


def test_each_call_of_arg_gets_its_own_default(project: Path) -> None:
    source = "import rearview as rv\nprint([rv.arg('size', s) for s in (16, 32, 16)])\n"
    done = run(project, source)
    assert done.stdout == "[16, 32, 16]\n" == run(project, source, REARVIEW="off").stdout
    assert done.stderr.count("several defaults") == 1
    (recorded,) = read_all(project)
    assert recorded.values("size") == [16]


def test_a_given_value_goes_before_every_default(project: Path) -> None:
    done = run(project, "import rearview as rv\nprint([rv.arg('size', s) for s in (16, 32)])\n", "--kwargs", "size=5")
    assert done.stdout == "[5, 5]\n"
    assert "several" not in done.stderr


@pytest.mark.parametrize("call", ["name=5", "notes=5", "tags=[1]", "tags=[None]"])
def test_text_is_asked_for(project: Path, call: str) -> None:
    done = run(project, f"import rearview as rv\nrv.run({call})\n")
    assert done.returncode == 1
    assert "TypeError: rv.run takes text as" in done.stderr
    assert not (project / ".rearview").exists()


def test_leaving_the_program_inside_a_run_is_no_failure_by_itself(project: Path) -> None:
    source = "import sys, rearview as rv\nwith rv.run():\n    rv.log('a', 1)\n    sys.exit(int(sys.argv[1]))\n"
    assert run(project, source, "0").returncode == 0
    assert run(project, source, "3").returncode == 3
    assert sorted(one.how for one in read_all(project)) == ["failed", "finished"]


def test_a_sweep_does_not_cry_wolf_about_arguments(project: Path) -> None:
    source = "import rearview as rv\nwith rv.run(): rv.log('a', 1)\nwith rv.run(): rv.arg('lr', 1.0)\n"
    assert "nothing asked" not in run(project, source, "--kwargs", "lr=2").stderr
    assert run(project, source, "--kwargs", "lrr=2").stderr.count("nothing asked") == 1


def test_under_rearview_run_a_run_begins_with_the_script(project: Path) -> None:
    run(project, "import time; time.sleep(0.5)\nimport rearview as rv\nrv.log('a', 1)\n", before=["-m", "rearview", "run"])
    (recorded,) = read_all(project)
    (end,) = recorded.fact("end")
    assert end["at"] >= 500_000  # microseconds: the script slept half a second before it called us


def test_a_launcher_in_front_is_refused_with_the_right_way(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rearview", "run", "-m", "torch.distributed.run", "t.py"],
        cwd=project, env={**os.environ, "PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "-m rearview run train.py" in done.stderr


RANK = "import rearview as rv, os, time\nrv.log('rank', int(os.environ['RANK']))\ntime.sleep(float(os.environ.get('NAP', 0)))\n"


def start_rank(project: Path, rank: int, supervised: bool, **more: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "PYTHONPATH": str(SRC), "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": "1", "NAP": "1", **more}
    words = [sys.executable, *(["-m", "rearview", "run"] if supervised else []), "t.py"]
    return subprocess.Popen(words, cwd=project, env=environ, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("supervised", [False, True])
def test_ranks_with_rearview_run_behind_the_launcher_are_one_run(project: Path, supervised: bool) -> None:
    (project / "t.py").write_text(RANK)
    for child in [start_rank(project, rank, supervised, LOCAL_WORLD_SIZE="2") for rank in (0, 1)]:
        assert child.wait(60) == 0
    (recorded,) = read_all(project)
    assert sorted(recorded.values("rank")) == [0, 1]


def test_a_launch_after_an_incomplete_one_is_a_run_of_its_own(project: Path) -> None:
    (project / "t.py").write_text(RANK)
    start_rank(project, 0, supervised=False, NAP="0").wait(60)
    for path in (project / ".rearview" / "runs").rglob("*"):
        os.utime(path, (time.time() - 60,) * 2)
    for child in [start_rank(project, rank, supervised=False) for rank in (0, 1)]:
        assert child.wait(60) == 0
    assert sorted(sorted(one.values("rank")) for one in read_all(project)) == [[0], [0, 1]]


def test_programs_of_a_batch_job_are_no_ranks(project: Path) -> None:
    (project / "t.py").write_text("import rearview as rv\nrv.log('a', 1)\n")
    job = {**os.environ, "PYTHONPATH": str(SRC), "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77"}
    for child in [subprocess.Popen([sys.executable, "t.py"], cwd=project, env=job, stderr=subprocess.DEVNULL) for _ in range(3)]:
        assert child.wait(60) == 0
    assert [one.values("a") for one in read_all(project)] == [[1], [1], [1]]


def test_a_project_file_may_be_called_secrets(project: Path) -> None:
    (project / "secrets.py").write_text("TOKEN = 'x'\n")
    done = run(project, "import secrets, rearview as rv\nrv.log('a', 1)\nprint(secrets.TOKEN)\n")
    assert (done.returncode, done.stdout) == (0, "x\n")
    assert len(read_all(project)) == 1


def test_a_run_that_cannot_begin_inside_another_is_not_the_other(project: Path) -> None:
    source = """
import rearview as rv
from rearview.record import beginning
rv.log("a", 1)
def fail(*a, **k): raise OSError(28, "No space left on device")
write, beginning.write = beginning.write, fail
with rv.run(name="inner"):
    rv.log("a", 2)
beginning.write = write
rv.log("a", 3)
"""
    done = run(project, source)
    assert done.returncode == 0
    assert done.stderr.count("nothing is recorded") == 1
    (recorded,) = read_all(project)
    assert recorded.values("a") == [1, 3]
