"""What tests with real trainings share: a process that has imported torch."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.resume.training import Nursery, with_torch


@pytest.fixture(scope="session")
def nursery() -> Nursery:
    """Runs programs without importing torch each time."""
    return with_torch()


@pytest.fixture
def torch_python(project: Path, nursery: Nursery) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a script's text in the project, as `python` does, in a child of a process that has imported torch; it must end with 0."""

    def run(text: str) -> subprocess.CompletedProcess[str]:
        (project / "script.py").write_text(text, encoding="utf-8")
        done = nursery.run(project, "script.py", env={"REARVIEW_QUIET": "0"})
        assert done.code == 0, f"ended with {done.code}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
        return subprocess.CompletedProcess(["script.py"], done.code, done.stdout, done.stderr)

    return run
