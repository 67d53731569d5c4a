"""A resumed loader yields what an uninterrupted one yields, bit for bit, in a fresh process, and recording changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration.resume.training import Nursery

ROOT = Path(__file__).resolve().parents[3]
PROGRAM, LATER = (Path(__file__).with_name(name) for name in ("program.py", "later.py"))
TRACKER = "resource_tracker"
"""Python's own process that removes semaphores may find that a worker, ended by us, has done so: with and without rearview."""
KINDS = ("0", "2", "2p")
GROUPS = {
    "orders": ("plain", "draws", "generator", "numpy", "shuffling", "weighted", "batches", "single"),
    "ways": ("init", "own", "broken", "enumerate", "zip", "bar", "twice", "stream", "counting", "buffered"),
}

pytestmark = pytest.mark.torch


BEFORE = f"""
import sys, warnings
sys.path.append({str(ROOT)!r})
warnings.simplefilter("error")
warnings.filterwarnings("ignore", message={TRACKER!r}, category=UserWarning)
"""
"""What `python -W error` does, and where the tests are."""


class Program:
    """`program.py` in a process of its own, each time."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    def __call__(self, mode: str, folder: Path, names: list[str]) -> None:
        done = self._nursery.run(folder, str(PROGRAM), mode, str(folder), *names, before=BEFORE)
        assert done.code == 0, done.stderr[-4000:]
        assert "Traceback" not in done.stderr, done.stderr[-4000:]


@pytest.fixture
def program(nursery: Nursery) -> Program:
    return Program(nursery)


def runs(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """(as torch alone does it, watched, resumed by place)."""
    bare, watched = (json.loads((folder / f"{name}.{how}.json").read_text()) for how in ("bare", "watched"))
    resumed = {path.name: json.loads(path.read_text()) for path in sorted(folder.glob(f"{name}-*.resumed.json"))}
    return bare, watched, resumed


def place(key: str) -> tuple[int, int]:
    epoch, count = key.split(".")
    return int(epoch), int(count)


def check(folder: Path, name: str) -> None:
    bare, watched, resumed = runs(folder, name)
    assert watched["log"] == bare["log"], f"{name}: watching changed what the program saw"
    kept = [path for path in folder.glob(f"{name}-*-*") if path.suffix != ".json"]
    assert len(resumed) == len(kept) >= 1, name
    for where, run in resumed.items():
        _, epoch, count = where.removesuffix(".resumed.json").rsplit("-", 2)
        after = (int(epoch), int(count)) if int(count) else (int(epoch), 999)
        rest = {key: seen for key, seen in bare["log"].items() if place(key) > after}
        wrong = [key for key in rest if run["log"].get(key) != rest[key]]
        assert not wrong, f"{where}: first different at {wrong[0]}; {run['inexact']}"
        assert run["log"].keys() == rest.keys(), where
        assert run["inexact"] == [], where
    # Python's own servants of spawned processes stay to the end, with and without us.
    assert {len(run["left"]) for run in (bare, watched, *resumed.values())} == {len(bare["left"])}, f"{name}: processes were left"


def chosen(group: str, kind: str) -> tuple[str, ...]:
    """Every one without workers, and with workers that stay or with those that do not; `make long`: with both."""
    every = GROUPS[group]
    if kind == "0" or os.environ.get("REARVIEW_TEST_LONG"):
        return every
    return every[KINDS.index(kind) - 1 :: 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", GROUPS)
def test_resumed_equals_uninterrupted(tmp_path: Path, program: Program, group: str, kind: str) -> None:
    names = [f"{name}_{kind}" for name in chosen(group, kind)]
    program("record", tmp_path, names)
    program("resume", tmp_path, names)
    for name in names:
        check(tmp_path, name)
    second = tmp_path / "second"
    assert sorted(second.iterdir()), "nothing was kept after a resume"
    program("resume", second, names)
    for name in names:
        check_second(tmp_path, name)


def check_second(folder: Path, name: str) -> None:
    """A checkpoint of a resumed program is as good as one of the first."""
    bare = runs(folder, name)[0]
    for path in sorted((folder / "second").glob(f"{name}-*.resumed.json")):
        run = json.loads(path.read_text())
        wrong = [key for key, seen in run["log"].items() if bare["log"][key] != seen]
        assert run["log"] and not wrong, f"second {path.name}: first different at {wrong[:1]}; {run['inexact']}"


def test_where_it_is_later_is_told_alike(tmp_path: Path, nursery: Nursery) -> None:
    done = nursery.run(tmp_path, str(LATER), before=BEFORE)
    assert done.code == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["2", "4", "5", "7"] * 3


@pytest.mark.parametrize("name", ["spawn", "forkserver"])
def test_workers_that_inherit_nothing(tmp_path: Path, program: Program, name: str) -> None:
    program("record", tmp_path, [name])
    program("resume", tmp_path, [name])
    check(tmp_path, name)


def test_what_cannot_be_exact_is_said(tmp_path: Path, program: Program) -> None:
    names = ["remembering", "unordered"]
    program("record", tmp_path, names)
    program("resume", tmp_path, names)
    bare, watched, resumed = runs(tmp_path, "remembering")
    assert watched["log"] == bare["log"]
    said = {sentence for run in resumed.values() for sentence in run["inexact"]}
    assert said == {"a worker changed Remembering.seen in its own copy of the dataset, which cannot be put back"}
    _, _, resumed = runs(tmp_path, "unordered")
    assert all("in_order=False" in run["inexact"][0] for where, run in resumed.items() if not where.endswith("-0.resumed.json"))
