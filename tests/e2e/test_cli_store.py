"""Commands about the store itself: check, rm, config; and what happens where there is none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = "import rearview as rv\nfor k in rv.loop('k', range(50)):\n    rv.log('x', k)\n"
GOES_ON = """
import sys, time
import rearview as rv
for k in rv.loop("k"):
    rv.log("x", k * 0.5)
    print(k, flush=True)
    time.sleep(0.05)
"""

SOURCE = Path(__file__).resolve().parent.parent.parent / "src"

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def going_on(project: Path) -> subprocess.Popen[str]:
    """A run that goes on until it is told to end."""
    (project / "live.py").write_text(GOES_ON)
    child = subprocess.Popen(
        [sys.executable, "live.py"], env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdout=subprocess.PIPE, text=True, cwd=project
    )
    assert child.stdout is not None
    child.stdout.readline()
    yield child  # type: ignore[misc]
    child.kill()
    child.communicate()


@pytest.mark.parametrize(
    "words", [["runs"], ["show", "last"], ["df", "x"], ["sql", "select 1"], ["plot", "x"], ["check"], ["watch"], ["rm", "x", "-y"]]
)
def test_without_a_store_the_exit_code_is_3(project: Path, cli: Cli, words: list[str]) -> None:
    done = cli(*words)
    assert done.returncode == 3
    assert done.stderr.startswith("rearview: no store in ") and done.stderr.count("\n") == 1
    assert list(project.iterdir()) == []


def test_check(project: Path, cli: Cli, python: Callable[..., object]) -> None:
    python(SCRIPT, check=True)
    done = cli("check", check=True)
    assert "is whole" in done.stdout
    assert json.loads(cli("check", "--json", check=True).stdout)["whole"] is True


@pytest.mark.damages_store
def test_check_finds_damage(project: Path, cli: Cli, python: Callable[..., object]) -> None:
    python(SCRIPT, check=True)
    (journal,) = (project / ".rearview" / "runs").glob("*/0-a1-0001.journal")
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(bytes(data))
    done = cli("check")
    assert done.returncode == 5
    assert "damage" in done.stdout and journal.name in done.stdout
    found = json.loads(cli("check", "--json").stdout)
    assert found["whole"] is False and found["findings"]
    assert cli("check", "--repair").returncode == 0
    for _ in range(2):
        done = cli("check", check=True)
        assert "records may be missing" in done.stdout and f"{journal.name}.damaged" in done.stdout
        assert "1 damaged file was set aside" in done.stdout.splitlines()[-1]


def test_rm(project: Path, cli: Cli, python: Callable[..., object]) -> None:
    python(SCRIPT, check=True)
    python(SCRIPT, check=True)
    unasked = cli("rm", "last")
    assert unasked.returncode == 2 and "--yes" in unasked.stderr
    done = cli("rm", "last", "--yes", check=True)
    assert done.stdout.startswith("removed 1 run, freed ")
    assert len(json.loads(cli("runs", "--json").stdout)["runs"]) == 1
    assert cli("rm", "nosuch", "--yes").returncode == 3
    removed = json.loads(cli("rm", "last", "--yes", "--json", check=True).stdout)
    assert removed["freed_bytes"] > 0 and len(removed["removed"]) == 1


def test_a_running_run_is_watched_and_not_removed(project: Path, cli: Cli, going_on: subprocess.Popen[str]) -> None:
    refused = cli("rm", "last", "--yes")
    assert refused.returncode == 2 and "still running" in refused.stderr
    with subprocess.Popen(
        [sys.executable, "-m", "rearview", "watch", "--every", "0.1"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        text=True,
        cwd=project,
    ) as watching:
        assert watching.stdout is not None
        first = watching.stdout.readline()
        assert "running" in first and "x=" in first
        going_on.send_signal(signal.SIGTERM)
        going_on.wait()
        rest = watching.stdout.read()
    assert watching.returncode == 0
    assert "killed" in rest.splitlines()[-1]


def test_watch_without_a_running_run(project: Path, cli: Cli, python: Callable[..., object]) -> None:
    python(SCRIPT, check=True)
    done = cli("watch")
    assert done.returncode == 3 and "no run is running" in done.stderr
    assert "finished" in cli("watch", "last", check=True).stdout


def test_interrupted_watch_ends_with_130(project: Path, going_on: subprocess.Popen[str]) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "rearview", "watch"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=project,
    )  # fmt: skip
    assert watching.stdout is not None
    watching.stdout.readline()
    time.sleep(0.2)
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert "Traceback" not in errors
    assert going_on.poll() is None


def test_config(project: Path, cli: Cli) -> None:
    (project / "pyproject.toml").write_text('[tool.rearview]\nexclude = ["secret/*"]\n')
    found = json.loads(cli("--set", "eps=0.1", "config", "--json", env={"REARVIEW_QUIET": "1"}, check=True).stdout)
    settings = {setting["name"]: setting for setting in found["settings"]}
    assert (settings["quiet"]["value"], settings["quiet"]["origin"]) == (True, "REARVIEW_QUIET")
    assert (settings["exclude"]["value"], settings["exclude"]["origin"]) == (["secret/*"], "pyproject.toml")
    assert (settings["eps"]["value"], settings["eps"]["origin"]) == (0.1, "--set")
    assert settings["sync"]["origin"] == "default"
    page = cli("config", check=True).stdout
    assert "secret/*" in page and "pyproject.toml" in page and "REARVIEW_SYNC" in page and "(none yet" in page

    (project / "pyproject.toml").write_text("[tool.rearview]\nexclud = []\n")
    done = cli("config")
    assert done.returncode == 2 and "exclud" in done.stderr and "exclude" in done.stderr
    assert cli("config", env={"REARVIEW_NONSENSE": "1"}).returncode == 2


def test_a_reader_that_goes_away_is_no_error(project: Path, python: Callable[..., object]) -> None:
    python("import rearview as rv\nfor k in rv.loop('k', range(20000)):\n    rv.log('x', k)\n", check=True)
    line = f"{sys.executable} -m rearview df x --csv | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, cwd=project)
    assert done.stdout.splitlines() == ["projid,run,tstamp,filename,k,x", "0"]
    assert done.stderr == ""
