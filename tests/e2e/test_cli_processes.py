"""`rearview show` of a run with several processes: what the others logged is not kept back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rearview.cli import main
from rearview.testing.stores import StoreBuilder


@pytest.fixture
def several(project: Path) -> Path:
    """A run with a child and a second rank that log names of their own, and another run that logs more."""
    builder = StoreBuilder(project)
    run = builder.run(name="several")
    main_process = run.process()
    main_process.arg("lr", 0.1)
    main_process.log("loss", 0.5)
    main_process.log("words", "text")
    for number, name in (("0.1", "loader/wait"), ("0.2", "loader/wait"), ("1", "\x1b[31mrank one")):
        process = run.process(number)
        process.arg("workers", 2)
        process.log("loss", 0.25)
        process.log(name, "x" if number == "1" else 0.5)
        process.end()
    main_process.end()
    other = builder.run(name="other").process()
    other.log("elsewhere", 1.0)
    other.end()
    return project


def test_names_that_only_other_processes_logged_are_listed(several: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["show", "several"]) == 0
    page = capfd.readouterr().out
    assert "  also logged by other processes: \\x1b[31mrank one, loader/wait\n" in page
    assert main.main(["show", "several", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["other_names"] == ["\x1b[31mrank one", "loader/wait"]


def test_a_run_of_one_process_says_nothing_of_others(several: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["show", "other"]) == 0
    assert "also logged" not in capfd.readouterr().out
    assert main.main(["show", "other", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["other_names"] == []
