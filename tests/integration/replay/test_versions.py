"""One statement asked of a whole history: every version answers with the values of its own code, or says why it cannot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.replay.hindsight import Story, recorded_text
from tests.integration.replay.versions import CANNOT, VERSIONS


def _write(project: Path, files: dict[str, str], *, probed: bool) -> None:
    for path in project.glob("*.py"):
        path.unlink()
    for path, text in files.items():
        (project / path).write_text(text if probed else recorded_text(text))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose runs are of twelve versions, with the statement in today's."""
    folder = tmp_path_factory.mktemp("history")
    story = Story(folder, VERSIONS["latest"], env={"REARVIEW_EVERY": "1"})
    for name, files in VERSIONS.items():
        _write(story.project, files, probed=False)
        story.cli("run", "--name", name, "train.py")
        _write(folder / "truth", files, probed=True)
        story.run(folder / "truth", ["train.py"], check=True)
    _write(story.project, VERSIONS["latest"], probed=True)
    return folder


@pytest.fixture
def history(recorded: Path, tmp_path: Path) -> Story:
    """The same for one test: a project can be copied."""
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    return Story(tmp_path, {}, env={"REARVIEW_EVERY": "1"})


def _values(story: Story, project: Path, name: str) -> list[list[Any]]:
    """What each run has for a name, by the order in which the runs were recorded."""
    ask = ["-m", "rearview"]
    done = json.loads(story.run(project, [*ask, "df", name, "--json", "--limit", "0"], check=False).stdout)
    runs = [run["run"] for run in json.loads(story.run(project, [*ask, "runs", "--json", "--limit", "0"], check=True).stdout)["runs"]]
    return [[row[name] for row in done["rows"] if row["run"] == run and row[name] is not None] for run in runs]


def test_every_version_answers_for_itself_or_says_why_not(history: Story) -> None:
    plan = json.loads(history.cli("replay", "size", "--dry-run", "--json").stdout)
    certain = {one["run"]: all(site["certain"] for site in one["placed"]) for one in plan["plans"]}
    assert len(certain) >= 9 and all(certain.values())
    done = history.cli("replay", "size", "--yes", "--unsure", check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    mine, truth = _values(history, history.project, "size"), _values(history, history.folder / "truth", "size")
    for name, ours, theirs in zip(VERSIONS, mine, truth, strict=True):
        assert ours == ([] if name in CANNOT else theirs), f"{name}\n{done.stdout}"
    probes = json.loads(history.cli("probes", "--json").stdout)["probes"]
    assert [(one["answered"], one["cannot"], one["left"]) for one in probes] == [(12 - len(CANNOT), len(CANNOT), 0)]
    for word in CANNOT.values():
        assert any(word in why for why in probes[0]["probe"]["cannot"].values())


def test_a_new_run_of_an_old_version_is_missing(history: Story) -> None:
    history.cli("replay", "size", "--yes", "--unsure", check=False)
    _write(history.project, VERSIONS["renamed"], probed=False)
    history.cli("run", "--name", "late", "--arg", "lr=0.04", "train.py")
    again = history.cli("replay", "--missing", "--yes", "--unsure", check=False)
    assert "late" in history.cli("runs", "--json").stdout and again.returncode in (0, 1), again.stderr
    late = [row["size"] for row in json.loads(history.cli("df", "size", "--run", "late", "--json").stdout)["rows"]]
    _write(history.folder / "truth", VERSIONS["renamed"], probed=True)
    history.run(history.folder / "truth", ["train.py", "--kwargs", "lr=0.04"], check=True)
    assert late == _values(history, history.folder / "truth", "size")[-1]
