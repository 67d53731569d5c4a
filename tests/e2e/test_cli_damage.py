"""A store with damaged bytes: commands answer what they can, say what is damaged, and end with 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rearview.cli import main
from rearview.testing.stores import StoreBuilder

pytestmark = pytest.mark.damages_store


@pytest.fixture
def damaged(project: Path) -> Path:
    """Two runs, a value of the older one lost to a flipped bit."""
    builder = StoreBuilder(project)
    for name in ("hurt", "whole"):
        process = builder.run(name=name).process()
        for k in process.loop("k", range(40)):
            process.log("x", f"value {k}")
        process.end()
    journal = next(builder.store.run(builder.runs[0].run).glob("0-a1-*.journal"))
    data = bytearray(journal.read_bytes())
    data[data.index(b"value 20")] ^= 1
    journal.write_bytes(bytes(data))
    return project


ANSWERED_IN_PART = [
    ["df", "x"],
    ["df", "x", "--csv"],
    ["df", "x", "--parquet", "x.parquet"],
    ["df", "x", "--run", "hurt"],
    ["sql", "select count(*) from logs"],
    ["runs"],
    ["runs", "--where", "k = 1"],
    ["show", "hurt"],
]


@pytest.mark.parametrize("words", ANSWERED_IN_PART, ids=" ".join)
def test_what_is_damaged_is_said_and_the_exit_code_is_1(words: list[str], damaged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = main.main(words)
    said = capfd.readouterr()
    assert code == 1
    assert "0-a1-0001.journal" in (said.out if words[0] == "show" else said.err)


@pytest.mark.parametrize("words", ANSWERED_IN_PART[3:], ids=" ".join)
def test_in_json_too(words: list[str], damaged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main([*words, "--json"]) == 1
    assert "schema" in json.loads(capfd.readouterr().out)


@pytest.mark.parametrize("words", [["df", "x", "--run", "whole"], ["show", "whole"], ["runs", "--limit", "1"]], ids=" ".join)
def test_what_the_damage_does_not_concern_is_fine(words: list[str], damaged: Path) -> None:
    assert main.main(words) == 0


@pytest.mark.parametrize("words", [["df", "x"], ["sql", "select 1"], ["runs"], ["show", "hurt"]], ids=" ".join)
def test_a_torn_tail_is_no_damage(words: list[str], project: Path) -> None:
    builder = StoreBuilder(project)
    process = builder.run(name="hurt").process()
    for k in process.loop("k", range(40)):
        process.log("x", k)
    journal = next(builder.store.run(builder.runs[0].run).glob("0-a1-*"))
    journal.write_bytes(journal.read_bytes()[:-5])
    assert main.main(words) == 0
