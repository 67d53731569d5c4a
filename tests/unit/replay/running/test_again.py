"""How a run was started, and is started again."""

from __future__ import annotations

from typing import Any

import pytest

from rearview import config
from rearview.errors import UsageError
from rearview.record import environment
from rearview.replay.running import again
from rearview.replay.running.again import Command


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "train.py"], Command([], "train.py", False, [])),
        (["/usr/bin/python3", "-u", "train.py", "-u", "--", "x"], Command(["-u"], "train.py", False, ["-u", "--", "x"])),
        (["python", "-OO", "-X", "utf8", "-W", "error", "a.py"], Command(["-OO", "-X", "utf8", "-W", "error"], "a.py", False, [])),
        (["python", "-Xutf8", "-bWerror", "a.py"], Command(["-Xutf8", "-bWerror"], "a.py", False, [])),
        (["python", "-mpkg.train", "-m"], Command([], "pkg.train", True, ["-m"])),
        (["python", "--check-hash-based-pycs", "never", "a.py"], Command(["--check-hash-based-pycs", "never"], "a.py", False, [])),
    ],
)
def test_command_lines(words: list[str], expected: Command) -> None:
    assert again.split(words) == expected


@pytest.mark.parametrize("words", [["python"], ["python", "-m"], ["python", "-u"], []])
def test_what_is_no_program(words: list[str]) -> None:
    assert again.split(words) is None
    with pytest.raises(UsageError, match="how it was started"):
        again.command_of({"run": "r1", "how": "script", "orig_argv": words})


@pytest.mark.parametrize("how", ["notebook", "interactive", "command", "stdin"])
def test_what_cannot_be_started_again_is_refused_by_name(how: str) -> None:
    with pytest.raises(UsageError, match="cannot be started again"):
        again.command_of({"run": "r1", "how": how, "orig_argv": ["python", "x.py"]})


@pytest.mark.parametrize(
    "words",
    [
        ["-B", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=4, pipe_handle=6)", "--multiprocessing-fork"],
        ["-c", "from multiprocessing.forkserver import main; main(5, 6, ['__main__'])"],
        ["-m", "joblib.externals.loky.backend.popen_loky_posix", "--process-name", "LokyProcess-1"],
    ],
)
@pytest.mark.parametrize("later_too", [False, True])
def test_a_child_that_its_parent_started_is_refused(words: list[str], later_too: bool) -> None:
    facts = {"run": "r1", "how": "script", "orig_argv": ["python", *words]}
    with pytest.raises(UsageError, match="a child process of a program.* which cannot be started again by itself"):
        again.command_of(facts, later_too=later_too)
    assert "child process" in again.why_not(facts)


@pytest.mark.parametrize("words", [["loky.py"], ["train.py", "from multiprocessing.spawn import spawn_main"], ["-m", "my.loky"]])
def test_what_only_looks_like_one_is_started_again(words: list[str]) -> None:
    assert again.why_not({"run": "r1", "how": "script", "orig_argv": ["python", *words]}) == ""


def test_one_of_several_runs_of_a_process_is_refused() -> None:
    with pytest.raises(UsageError, match="several runs"):
        again.command_of({"run": "r1", "how": "script", "place": 2, "orig_argv": ["python", "x.py"]})


def facts(variables: dict[str, str] | None = None, **settings: Any) -> dict[str, Any]:
    return {"environment": {"variables": variables or {}}, "settings": {**config.DEFAULTS.values, **settings}}


def test_variables_that_change_numbers_are_as_they_were() -> None:
    now = {"OMP_NUM_THREADS": "8", "MKL_NUM_THREADS": "4", "HOME": "/home/me", "VIRTUAL_ENV": "/here"}
    environ, said = again.environ_of(facts({"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "5", "VIRTUAL_ENV": "/there"}), now, config.DEFAULTS)
    assert environ == {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "5", "HOME": "/home/me", "VIRTUAL_ENV": "/here"}
    assert said == ["OMP_NUM_THREADS=1, as it was (not 8)", "MKL_NUM_THREADS is unset, as it was (not 4)"]


def test_settings_are_as_they_were_unless_somebody_sets_them_now() -> None:
    then = facts(every=2, eps=0.5, quiet=True, include=["*.yaml", "a"])
    environ, _ = again.environ_of(then, {"REARVIEW_EPS": "0.1"}, config.DEFAULTS)
    assert environ == {"REARVIEW_EPS": "0.1", "REARVIEW_EVERY": "2", "REARVIEW_QUIET": "on", "REARVIEW_INCLUDE": "*.yaml,a"}
    wanted = {**config.DEFAULTS.values, "every": 2, "eps": 0.1, "quiet": True, "include": ("*.yaml", "a")}
    assert dict(config.load(None, environ).values) == wanted


def test_a_setting_of_the_project_that_came_later_is_undone() -> None:
    now = config.overlaid(config.DEFAULTS, {"every": 5}, "pyproject.toml")
    assert again.environ_of(facts(), {}, now)[0] == {"REARVIEW_EVERY": "0"}


def test_a_setting_that_this_rearview_does_not_know_is_left_out() -> None:
    assert again.environ_of(facts(unheard_of=3), {}, config.DEFAULTS) == ({}, [])


def test_a_hash_seed_that_nobody_chose_is_said() -> None:
    assert again.unknown_seed(facts({"PYTHONHASHSEED": "4"})) is None
    assert "hash seed" in (again.unknown_seed(facts()) or "")
    assert "hash seed" in (again.unknown_seed(facts({"PYTHONHASHSEED": "random"})) or "")


def test_what_may_give_other_numbers() -> None:
    then = {
        "python": "3.11.1", "cpu": "A", "usable_cores": 8, "packages": {"torch": "2.1", "numpy": "1", "tqdm": "1"},
        "torch": {"threads": 8, "cpu_capability": "AVX2"},
    }  # fmt: skip
    assert environment.differences(then, then) == []
    now = {"python": "3.12.0", "cpu": "A", "usable_cores": 4, "packages": {"torch": "2.2", "tqdm": "2"}, "torch": {"threads": 4}}
    said = "; ".join(environment.differences(then, now))
    for piece in ("Python was 3.11.1 and is 3.12.0", "8 cores", "torch was 2.1 and is 2.2", "numpy 1 is not", "threads was 8 and is 4"):
        assert piece in said
    assert "tqdm" not in said
