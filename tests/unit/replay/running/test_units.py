"""Units: what the conductor writes is what the worker reads; a file that is no unit is refused."""

import json
from pathlib import Path

import pytest

from rearview.errors import Damaged, NewerFormat
from rearview.model import RunId, VersionId
from rearview.replay.running import units


def _unit(folder: Path) -> units.Unit:
    return units.Unit(
        replay="p1", number=2, run=RunId("r1"), store="/s", project="/p", version=VersionId("v2"), recorded_version=VersionId("v1"),
        scratch=str(folder), start="0-a1-000003-iteration", first=(0, 4), last=(1, 7), stop="0-a1-000004-inside", to_end=True, skip=False,
        runs_inside=("step",),
        probes=({"file": "train.py", "line": 3, "names": ["g", None], "text": "rv.log('g', 1)"},), threads=4,
    )  # fmt: skip


def test_a_unit_is_read_back_as_it_was(tmp_path: Path) -> None:
    unit = _unit(tmp_path)
    units.write(tmp_path / "a" / units.FILE, unit)
    assert units.read(tmp_path / "a" / units.FILE) == unit
    assert [one.name for one in (tmp_path / "a").iterdir()] == [units.FILE]


def test_the_file_has_the_fields_of_the_format(tmp_path: Path) -> None:
    units.write(tmp_path / units.FILE, _unit(tmp_path))
    facts = json.loads((tmp_path / units.FILE).read_text())
    assert set(facts) == {
        "schema", "replay", "number", "run", "store", "project", "version", "recorded_version", "scratch", "start", "first", "last",
        "to_end", "prefix", "skip", "runs_inside", "lost", "until", "probes", "isolate", "threads", "device", "stop",
    }  # fmt: skip
    assert facts["first"] == [0, 4]


@pytest.mark.parametrize("schema", ["rearview.unit/2", None])
def test_another_format_is_refused(tmp_path: Path, schema: str | None) -> None:
    units.write(tmp_path / units.FILE, _unit(tmp_path))
    facts = json.loads((tmp_path / units.FILE).read_text())
    (tmp_path / units.FILE).write_text(json.dumps({**facts, "schema": schema}))
    with pytest.raises(NewerFormat, match="format"):
        units.read(tmp_path / units.FILE)


@pytest.mark.parametrize("text", ["", "{", '{"schema":"rearview.unit/1"}', '{"schema":"rearview.unit/1","first":[1]}'])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / units.FILE).write_text(text)
    with pytest.raises(Damaged):
        units.read(tmp_path / units.FILE)
