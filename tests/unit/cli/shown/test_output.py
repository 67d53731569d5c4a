"""JSON and CSV: exact, parseable, tagged."""

import csv
import datetime as dt
import io
import json
import math

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from rearview.cli.shown import csvs, output

numbers = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers())
scalars = st.one_of(numbers, st.text(), st.binary(), st.dates(), st.datetimes())
keys = st.one_of(st.text(), st.integers())
values = st.recursive(scalars, lambda inner: st.one_of(st.lists(inner), st.tuples(inner), st.dictionaries(keys, inner)), max_leaves=8)


@given(values)
def test_any_value_is_strict_json(value: object) -> None:
    said = output.document("rearview.test/1", value=output.plain(value))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(said, parse_constant=refuse)["schema"] == "rearview.test/1"
    assert said.isascii()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (2**70, 2**70),
        (b"ab", {"$bytes": "YWI="}),
        (dt.date(2026, 1, 2), {"$date": "2026-01-02"}),
        (dt.datetime(2026, 1, 2, 3), {"$datetime": "2026-01-02T03:00:00"}),
        (dt.timedelta(1, 2, 3), {"$timedelta": [1, 2, 3]}),
        ((1, 2), {"$tuple": [1, 2]}),
        (1 - 2j, {"$complex": [1.0, -2.0]}),
        ({"a": {1: 2}}, {"a": {"$dict": [[1, 2]]}}),
        ({"$bytes": "x"}, {"$dict": [["$bytes", "x"]]}),
    ],
)
def test_tags(value: object, said: object) -> None:
    assert output.plain(value) == said


def test_rows_are_one_document() -> None:
    import click

    @click.command()
    def some() -> None:
        output.write_rows("rearview.table/1", [{"name": "a"}], [{"a": 1.5}, {"a": math.nan}], ["a note"])

    @click.command()
    def none() -> None:
        output.write_rows("rearview.table/1", [], [], [])

    said = json.loads(CliRunner().invoke(some).output)
    assert said["rows"] == [{"a": 1.5}, {"a": "NaN"}]
    assert said["notes"] == ["a note"]
    assert json.loads(CliRunner().invoke(none).output)["rows"] == []


@given(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1, max_size=4))
def test_csv_text_comes_back(cells: list[str]) -> None:
    page = "\n".join(csvs.lines(["x"] * len(cells), [cells])) + "\n"
    (read,) = list(csv.reader(io.StringIO(page, newline="")))[1:]
    assert read == [csvs.guarded(cell) for cell in cells]


@given(st.floats())
def test_csv_floats_are_exact(value: float) -> None:
    read = float(csvs.field(value))
    assert read == value or (math.isnan(read) and math.isnan(value))


def test_csv_tells_null_from_empty_text() -> None:
    assert list(csvs.lines(["a", "b", "c"], [[None, "", True]])) == ["a,b,c", ',"",true']
