"""A run whose past states are looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from rearview.cli.main import main
from rearview.testing.stores import RunBuilder, StoreBuilder
from tests.integration.past.commands import Says


@pytest.fixture
def run(project: Path) -> RunBuilder:
    built = StoreBuilder(project).run(name="first")
    built.process().end()
    return built


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Says:
    """Run a command in this process: (exit code, what it printed, what it noted)."""
    monkeypatch.setenv("COLUMNS", "140")

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(words))
        told = capsys.readouterr()
        return code, told.out, told.err

    return run
