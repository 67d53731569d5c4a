"""The stories under `examples/` end as they say: what they ask in hindsight is what the stored models give, computed here once more."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import environment

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def told(name: str, tmp_path: Path) -> tuple[Path, str]:
    """Run a story in a home of its own: its project, and what it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True, timeout=600,
        env=environment({"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "COLUMNS": "140"}),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (project,) = tmp_path.glob("rearview-*/detector")
    return project, done.stdout


def rows(project: Path, query: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "rearview", "sql", query, "--json"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, env=environment(None), check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return found


def f1_of_model(project: Path, week: int) -> float:
    """The score of a week's model for pedestrians: the weights it wrote, on the scenes that were held out."""
    scenes: dict[str, Any] = {}
    exec((project / "scenes.py").read_text(), scenes)
    model = json.loads((project / "models" / f"week{week}.trained").read_text())
    guesses = []
    for features, _ in scenes["HELD_OUT"]:
        sums = {kind: sum(w * x for w, x in zip(model[kind], features, strict=True)) for kind in scenes["KINDS"]}
        guesses.append(max(scenes["KINDS"], key=sums.__getitem__))
    truths = [kind == "pedestrian" for _, kind in scenes["HELD_OUT"]]
    meant = [guess == "pedestrian" for guess in guesses]
    hits, wrong = sum(map(min, meant, truths)), sum(a != b for a, b in zip(meant, truths, strict=True))
    return 2 * hits / (2 * hits + wrong) if hits else 0.0


PED = "SELECT week, epoch, {name} AS score FROM wide WHERE {name} IS NOT NULL ORDER BY week, epoch"


@pytest.mark.parametrize("story", ["rollback.py", "alert.py"])
def test_the_lines_that_a_story_adds_fit_its_last_version(story: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    monkeypatch.syspath_prepend(str(EXAMPLES))
    detector, module = importlib.import_module("detector"), importlib.import_module(story.removesuffix(".py"))
    last = detector.VERSIONS[-1]
    assert last.count(module.BEHIND) == 1
    compile(last.replace(module.BEHIND, module.BEHIND + module.ADDED), "train.py", "exec")
    assert len(set(detector.VERSIONS)) == 3


def test_rolling_back_to_the_last_good_model(tmp_path: Path) -> None:
    project, said = told("rollback.py", tmp_path)
    found = {row["week"]: row["score"] for row in rows(project, PED.format(name="f1_ped").replace(" epoch,", "").replace(", epoch", ""))}
    assert {week: f1_of_model(project, week) for week in range(1, 7)} == found
    assert min(found[week] for week in range(1, 5)) > 2 * max(found[5], found[6])
    assert "The last good model is that of week 4." in said
    assert json.loads((project / "rolled-back.json").read_text()) == json.loads((project / "models" / "week4.trained").read_text())
    assert "f1_ped" not in (project / "rolled-back" / "train.py").read_text()  # the code as it ran
    verdicts = rows(project, "SELECT verdict, count(*) AS n FROM logs WHERE value_name = 'f1_ped' GROUP BY verdict")
    assert verdicts == [{"verdict": "identical", "n": 6}]


def test_calibrating_an_alert(tmp_path: Path) -> None:
    project, said = told("alert.py", tmp_path)
    found = {(row["week"], row["epoch"]): row["score"] for row in rows(project, PED.format(name="f1_alert"))}
    assert sorted(found) == [(week, epoch) for week in range(2, 7) for epoch in range(1, 5)]
    for week in range(2, 7):
        assert math.isclose(found[week, 4], f1_of_model(project, week), rel_tol=1e-12)
    threshold = float((project / "threshold.txt").read_text())
    lowest = min(score for (week, _), score in found.items() if week <= 4)
    assert threshold == round(0.9 * lowest, 3)
    raised = sorted(place for place, score in found.items() if score < threshold)
    assert raised and raised[0][0] >= 5
    assert f"{len(raised)} of 20 validations raise an alert, 0 of them without need" in said
