"""Values and names of unusual size: exact for programs, short for people."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from rearview.cli import main
from rearview.testing.stores import StoreBuilder

DIGITS = 5001
HUGE = 10 ** (DIGITS - 1) + 7


@pytest.fixture
def huge(project: Path) -> Path:
    """Two runs with ints of more digits than Python prints by default, as an arg and as a logged value."""
    builder = StoreBuilder(project)
    for number in range(2):
        process = builder.run(name=f"run{number}").process()
        process.arg("seed", HUGE + number, given=True)
        process.log("big", HUGE + number)
        process.log("several", [HUGE, {"a": -HUGE}])
        process.log("loss", 0.5)
        process.end()
    return project


def number(shown: str) -> int:
    """An int of any length from its digits."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return int(shown)
    finally:
        sys.set_int_max_str_digits(limit)


@pytest.mark.parametrize(
    "words",
    [["runs"], ["show", "last"], ["df", "big", "several", "seed"], ["sql", "select * from logs"], ["diff", "run0", "run1"],
     ["plot", "loss"], ["watch", "last"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_huge_ints_on_the_screen_are_short(words: list[str], huge: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(words) in (0, 1)
    said = capfd.readouterr()
    assert "limit" not in said.err
    assert "0" * 50 not in said.out
    assert max(map(len, said.out.splitlines())) < 400


@pytest.mark.parametrize("words", [["runs"], ["show", "last"], ["diff", "run0", "run1"], ["watch", "last"]], ids=lambda words: words[0])
def test_huge_ints_in_json_are_exact(words: list[str], huge: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main([*words, "--json"]) in (0, 1)
    said = capfd.readouterr()
    assert said.err == ""
    assert str(json.loads(said.out, parse_int=str)).count("1" + "0" * (DIGITS - 2)) >= 1


def test_huge_ints_in_tables_are_exact(huge: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["df", "big", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert [number(row["big"]) for row in rows] == [HUGE, HUGE + 1]
    assert main.main(["df", "big", "several", "--json"]) == 0
    found = json.loads(capfd.readouterr().out, parse_int=str)
    assert [number(row["big"]) for row in found["rows"]] == [HUGE, HUGE + 1]
    assert number(found["rows"][0]["several"][1]["a"]) == -HUGE


def test_the_limit_of_the_process_is_as_it_was(huge: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.get_int_max_str_digits()
    main.main(["runs", "--json"])
    assert sys.get_int_max_str_digits() == before
