"""`rv.resume()` at the top of a script: it picks up by itself when it is started again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import RunsProgram, environment
from tests.e2e import resuming

DIE = {"DIE_AT": "3,4", "DIE_AFTER": "2", "REARVIEW_EVERY": "1"}


def write(project: Path, call: str = "rv.resume()") -> None:
    resuming.write_trainer(project)
    source = (project / "train.py").read_text()
    (project / "train.py").write_text(source.replace("def main():", f"def main():\n    {call}", 1))


def start(project: Path, env: dict[str, str] | None = None, *args: str) -> subprocess.CompletedProcess[str]:
    """The plain program, as a cluster starts it."""
    told = environment({"REARVIEW_EVERY": "1", **(env or {})})
    return subprocess.run([sys.executable, "train.py", *args], cwd=project, env=told, capture_output=True, text=True, timeout=60)


def runs(cli: RunsProgram) -> list[tuple[str, int]]:
    """Status and attempts of each run, the newest last."""
    return [(run["status"], run["attempts"]) for run in json.loads(cli("runs", "--json", check=True).stdout)["runs"]]


def test_started_again_it_goes_on_and_after_the_end_it_begins_anew(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    write(project)
    assert start(project, DIE).returncode == -9
    done = start(project)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected["stdout"]
    assert "as attempt 2, from after epoch=2" in done.stderr
    assert "from the future" not in done.stderr
    assert resuming.files_of(project)["log.csv"] == expected["log.csv"]
    assert runs(cli) == [("finished", 2)]
    assert resuming.logged(cli) == resuming.losses(expected["log.csv"])
    assert start(project).stdout == expected["stdout"]
    assert runs(cli) == [("finished", 2), ("finished", 1)]


def test_a_handler_that_leaves_the_program_when_it_is_told_to_end(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    """What schedulers send before they kill, answered with an exit code: the plain program's end is seen by nobody else."""
    expected = resuming.uninterrupted(tmp_path / "full")
    write(project, "rv.resume(); signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))")
    assert start(project, {**DIE, "DIE_OF": "15"}).returncode == 143
    assert runs(cli) == [("failed", 1)]
    done = start(project)
    assert done.stdout == expected["stdout"], done.stderr
    assert runs(cli) == [("finished", 2)]


def test_other_arguments_are_another_program(project: Path, cli: RunsProgram) -> None:
    write(project)
    start(project, DIE)
    assert start(project, None, "0.25").returncode == 0
    assert runs(cli) == [("killed", 1), ("finished", 1)]


def test_a_key_of_ones_own(project: Path, cli: RunsProgram) -> None:
    write(project, "rv.resume(key='exp-1')")
    start(project, DIE)
    assert start(project, None, "0.5").returncode == 0
    assert runs(cli) == [("finished", 2)]


def test_within_a_job(project: Path, cli: RunsProgram) -> None:
    write(project)
    start(project, {**DIE, "SLURM_JOB_ID": "7"})
    assert start(project, {"SLURM_JOB_ID": "8"}).returncode == 0
    assert runs(cli) == [("killed", 1), ("finished", 1)]
    assert start(project, {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}).returncode == 0
    assert runs(cli) == [("finished", 2), ("finished", 1)]


def test_edited_source_goes_on_as_a_run_of_its_own(project: Path, cli: RunsProgram) -> None:
    write(project)
    start(project, DIE)
    (project / "train.py").write_text((project / "train.py").read_text() + "\n# a word more\n")
    done = start(project)
    assert done.returncode == 0, done.stderr
    assert "its source has changed since (train.py)" in done.stderr
    assert runs(cli) == [("killed", 1), ("finished", 1)]
    assert resuming.newest(cli)["parent"] is not None
    assert {epoch for epoch, _, _ in resuming.logged(cli)} == {3, 4, 5}


def test_one_that_is_still_alive_is_left_alone(project: Path, cli: RunsProgram) -> None:
    write(project)
    told = environment({"REARVIEW_EVERY": "1", "DIE_AT": "3,4", "DIE_OF": "0"})  # it does not die, it waits
    first = subprocess.Popen([sys.executable, "train.py"], cwd=project, env=told)
    try:
        while not list(project.glob(".rearview/runs/*/checkpoints/*")):
            assert first.poll() is None
            time.sleep(0.02)
        assert start(project).returncode == 0
    finally:
        first.kill()
        first.wait()
    assert runs(cli) == [("killed", 1), ("finished", 1)]


REPEATING = """
import os, time
import rearview as rv
rv.resume()
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(5)):
        for step in rv.loop("step", range(3)):
            rv.log("loss", float("nan") if step else 1.0 / (1 + epoch))
            rv.log("pid", os.getpid(), volatile=True)
        if "ONCE" in os.environ:
            rv.log("odd", os.environ["ONCE"])
        if epoch == 3 and "DIE" in os.environ:
            os._exit(9)
"""


def differ(project: Path, first: dict[str, str], then: dict[str, str]) -> list[str]:
    """What is said about rows logged again, by the second start of the program."""
    (project / "train.py").write_text(REPEATING)
    assert start(project, {"DIE": "1", **first}).returncode == 9
    done = start(project, then)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "logged again" in line]


def test_rows_that_come_out_otherwise_are_told_at_the_end(project: Path, cli: RunsProgram) -> None:
    (said,) = differ(project, {"ONCE": "a"}, {"ONCE": "b"})
    assert "1 of 4 rows logged again differ from what was logged before (odd)" in said
    shown = cli("show", "last", check=True).stdout
    assert "1 of 4 rows logged again differ" in shown  # the catalog's own comparison


def test_rows_that_come_out_the_same_are_not(project: Path) -> None:
    assert differ(project, {"ONCE": "a"}, {"ONCE": "a"}) == []


def test_without_a_checkpoint_everything_is_logged_again(project: Path) -> None:
    (said,) = differ(project, {"ONCE": "a", "REARVIEW_CHECKPOINTS": "0"}, {"ONCE": "b"})
    assert "4 of 16 rows logged again differ" in said


def test_a_resume_by_command_tells_it_once(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(REPEATING)
    assert start(project, {"DIE": "1", "ONCE": "a"}).returncode == 9
    done = cli("resume", "--yes", env={"ONCE": "b"})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("logged again differ") == 1, done.stderr
