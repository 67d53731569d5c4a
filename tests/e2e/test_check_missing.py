"""`rearview check` notices what is gone, not only what is changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import rearview as rv
import numpy as np
rv.log("w", {"deep": [np.arange(4)]})
"""


@pytest.fixture
def recorded(project: Path, python: Callable[..., Any]) -> Path:
    python(SCRIPT, check=True)
    return project / ".rearview"


@pytest.mark.damages_store
@pytest.mark.parametrize("what", ["objects", "a source object", "refs and a tree"])
def test_missing_files_are_damage(recorded: Path, cli: Callable[..., Any], what: str) -> None:
    assert cli("check").returncode == 0
    code = recorded / "code.git" / "objects"
    if what == "objects":
        shutil.rmtree(recorded / "objects")
    elif what == "a source object":
        for path in code.glob("??/*"):
            path.unlink()
            break
    else:
        shutil.rmtree(recorded / "code.git" / "refs")
        for path in code.glob("??/*"):
            path.unlink()
    done = cli("check")
    assert done.returncode == 5, done.stdout
    assert "missing" in done.stdout or "not in the store" in done.stdout


@pytest.mark.damages_store
def test_a_missing_part_in_the_middle_is_damage(recorded: Path, cli: Callable[..., Any]) -> None:
    (part,) = recorded.glob("runs/*/0-a1-0001.journal")
    part.rename(part.with_name("0-a1-0002.journal"))
    done = cli("check")
    assert done.returncode == 5
    assert "0-a1-0001.journal" in done.stdout
    assert "is missing" in done.stdout


@pytest.mark.damages_store
def test_a_run_without_a_journal_is_noted(recorded: Path, cli: Callable[..., Any]) -> None:
    for part in recorded.glob("runs/*/*.journal"):
        part.unlink()
    assert "has no journal" in cli("check").stdout
