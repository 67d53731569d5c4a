"""What every test may use: a project of its own, scripts and commands in it, and a check of its store at the end.

Counts for `make long` come from REARVIEW_TEST_* variables; what a test counted is summed over all workers and printed.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib.util
import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.forked import Nursery
from tests.laws import examples
from tests.warm import Warm

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
TALLY = "tally:"


class RunsProgram(Protocol):
    """Runs something in a project and gives back how it ended."""

    def __call__(
        self,
        *args: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        check: bool = False,
        timeout: float = 120.0,
    ) -> subprocess.CompletedProcess[str]: ...


def pytest_configure(config: pytest.Config) -> None:
    """One profile for property tests that set no counts of their own: no deadlines (timings are never asserted).

    A change is tried with the same examples each time, so that it is the change that fails; `make long` goes looking for new ones.
    """
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # of the programs that are started: their folders are compared, byte for byte
    if importlib.util.find_spec("hypothesis"):
        from hypothesis import settings

        long = bool(os.environ.get("REARVIEW_TEST_LONG"))
        settings.register_profile("house", deadline=None, max_examples=1000 if long else examples(100), derandomize=not long)
        settings.load_profile("house")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this machine or this call is not for."""
    without_torch = pytest.mark.skip(reason="torch is not installed")
    only_long = pytest.mark.skip(reason="only in `make long`")
    has_torch = importlib.util.find_spec("torch") is not None
    share, of = map(int, os.environ.get("REARVIEW_TEST_SHARE", "0/1").split("/"))
    others = [item for item in items if _is_shared(item) and zlib.crc32(item.nodeid.encode()) % of != share]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]
    for item in items:
        if item.get_closest_marker("torch") and not has_torch:
            item.add_marker(without_torch)
        if item.get_closest_marker("long") and not os.environ.get("REARVIEW_TEST_LONG"):
            item.add_marker(only_long)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def _is_shared(item: pytest.Item) -> bool:
    """Whether a test starts programs: several Pythons share those among them, each is run on one."""
    return item.path.is_relative_to(HERE / "integration") or item.path.is_relative_to(HERE / "e2e")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the tests counted: kills, flipped bits, documented commands. Works over xdist, which carries properties."""
    totals: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        counted = report.user_properties if report.when == "call" else []
        for key, value in counted:
            if key.startswith(TALLY):
                totals[key.removeprefix(TALLY)] += value
    if totals:
        terminalreporter.section("totals")
        for name, count in sorted(totals.items()):
            terminalreporter.write_line(f"{count:>12,}  {name}")


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[[str, int], None]:
    """Count something for the totals at the end: `tally("kills", 50)`."""
    return lambda what, count: request.node.user_properties.append((TALLY + what, count))


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh project folder, the current one, in a home of its own; nothing of this machine's settings reaches it.

    As in restic, every store that a test leaves behind is checked: no test may pass while it damages one.
    """
    home = tmp_path / "home"
    folder = home / "project"
    folder.mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith(("REARVIEW", "XDG_", "GIT_")) and not name.startswith("REARVIEW_TEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("rearview.record.firsts.folder", str(folder))  # as if it had been imported here
    yield folder
    if request.node.get_closest_marker("damages_store") is None:
        damage = [line for root in stores_below(home) for line in damage_of(root)]
        assert not damage, f"the test left a damaged store: {damage}"


def stores_below(folder: Path) -> list[Path]:
    """Every store in a test's home, wherever a recording put it."""
    return [Path(path) for path, _, files in os.walk(folder) if "store.json" in files]


def damage_of(root: Path) -> list[str]:
    """What `check` calls damage in a store."""
    if importlib.util.find_spec("rearview.store.check") is None:
        return []
    from rearview.store import check, layout

    findings = check.check(layout.open_store(root), deep=True)
    return [f"{finding.path}: {finding.problem}" for finding in findings if finding.severity == "damage"]


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a program that a test starts: rearview from this tree, no colours, a terminal of 120 columns."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REARVIEW_TEST_", "PYTEST_", "COV_"))}
    return {**kept, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "COLUMNS": "120", **(extra or {})}


def run_program(
    command: list[str], where: Path, cwd: Path | None, env: Mapping[str, str] | None, stdin: str | None, check: bool, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a command; with `check` it must end with 0, and what it said is shown if it does not."""
    done = subprocess.run(command, cwd=cwd or where, env=environment(env), input=stdin, capture_output=True, text=True, timeout=timeout)
    if check:
        assert done.returncode == 0, f"{command} ended with {done.returncode}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
    return done


@functools.cache
def warm() -> Warm:
    """The process that has imported the command."""
    return Warm([sys.executable], environment(None))


@functools.cache
def plain() -> Nursery | None:
    """Forks programs that need no library but rearview."""
    if not hasattr(os, "fork"):
        return None
    made = Nursery(environment({"OMP_NUM_THREADS": "1", "REARVIEW_QUIET": "1"}))
    atexit.register(made.close)
    return made


def run_command(
    words: Sequence[str], where: Path, cwd: Path | None, env: Mapping[str, str] | None, stdin: str | None, check: bool, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `rearview WORDS`, in a child of a process that has imported it already where that makes no difference."""
    if not hasattr(os, "fork") or not Warm.takes(env):
        return run_program([sys.executable, "-m", "rearview", *words], where, cwd, env, stdin, check, timeout)
    done = warm().run(words, cwd or where, environment(env), stdin, timeout)
    assert not check or done.returncode == 0, f"{words} ended with {done.returncode}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
    return done


@pytest.fixture
def python(project: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script's text in the project: `python("import rearview as rv ...", "--its", "args", name="train.py")`."""

    def run(
        text: str,
        *args: str,
        name: str = "script.py",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        check: bool = False,
        timeout: float = 120.0,
    ) -> subprocess.CompletedProcess[str]:
        script = project / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(text, encoding="utf-8")
        return run_program([sys.executable, str(script), *args], project, cwd, env, stdin, check, timeout)

    return run


@pytest.fixture
def cli(project: Path) -> RunsProgram:
    """Run the command: `cli("runs", "--json")`."""

    def run(
        *args: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        check: bool = False,
        timeout: float = 120.0,
    ) -> subprocess.CompletedProcess[str]:
        return run_command(args, project, cwd, env, stdin, check, timeout)

    return run
