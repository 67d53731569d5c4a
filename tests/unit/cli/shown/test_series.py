"""From a table to lines, and from two runs to their differences."""

import math

import pytest

from rearview.cli import diff
from rearview.cli.shown import compare, screen, series
from rearview.cli.shown import metrics as metrics_module
from rearview.cli.shown.metrics import Metric

DIMENSIONS = ["projid", "run", "tstamp", "filename"]


def rows(*cells: tuple[object, ...]) -> list[tuple[object, ...]]:
    return [("p", run, None, "f", *rest) for run, *rest in cells]


def test_the_innermost_loop_goes_across_where_it_rises() -> None:
    found = series.drawable(["loss"], [*DIMENSIONS, "epoch", "loss"], rows(("r1", 1, 0.5), ("r1", 2, 0.4), ("r2", 1, 0.6)), None)
    assert found.x_title == "epoch"
    assert [(one.run, one.points) for one in found.series] == [("r1", [(1.0, 0.5), (2.0, 0.4)]), ("r2", [(1.0, 0.6)])]


def test_steps_that_begin_again_are_counted_instead() -> None:
    columns = [*DIMENSIONS, "epoch", "step", "loss"]
    found = series.drawable(["loss"], columns, rows(("r1", 0, 0, 1.0), ("r1", 0, 1, 0.9), ("r1", 1, 0, 0.8)), None)
    assert found.x_title == series.ROW_NUMBER
    assert found.series[0].points == [(0.0, 1.0), (1.0, 0.9), (2.0, 0.8)]


def test_a_loop_over_names_is_counted() -> None:
    found = series.drawable(["acc"], [*DIMENSIONS, "fold", "acc"], rows(("r1", "a", 1.0), ("r1", "b", 2.0)), None)
    assert found.x_title == series.ROW_NUMBER


def test_another_name_goes_across_if_asked() -> None:
    found = series.drawable(["acc", "lr"], [*DIMENSIONS, "epoch", "acc", "lr"], rows(("r1", 0, 0.5, 0.1), ("r1", 1, 0.7, 0.01)), "lr")
    assert found.x_title == "lr"
    assert found.series[0].points == [(0.1, 0.5), (0.01, 0.7)]


def test_what_is_no_number_is_counted_not_drawn() -> None:
    found = series.drawable(
        ["x"], [*DIMENSIONS, "x"], rows(("r1", "text"), ("r1", 1), ("r1", None), ("r1", 10**400), ("r1", math.nan)), None
    )
    assert found.not_numbers == 2
    assert len(found.series[0].points) == 2


def test_a_name_that_is_also_a_loop_means_the_name() -> None:
    found = series.drawable(["epoch"], [*DIMENSIONS, "epoch", "epoch_value"], rows(("r1", 1, 7.0), ("r1", 2, 8.0)), None)
    assert [y for _, y in found.series[0].points] == [7.0, 8.0]


def test_processes_of_a_run_are_lines_of_their_own() -> None:
    columns = [*DIMENSIONS, "process", "step", "x"]
    found = series.drawable(["x"], columns, rows(("r1", "0", 0, 1.0), ("r1", "1", 0, 2.0), ("r1", "0", 1, 3.0)), None)
    assert [(one.process, one.points) for one in found.series] == [("0", [(0.0, 1.0), (1.0, 3.0)]), ("1", [(0.0, 2.0)])]
    assert found.x_title == "step"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (math.nan, math.nan, True),
        (True, 1, False),
        ("a", "a", True),
        ([1, (2,)], [1, (2,)], True),
        ([1], (1,), False),
    ],
)
def test_values_are_compared_exactly(left: object, right: object, same: bool) -> None:
    assert (compare.differences({"x": left}, {"x": right}) == []) is same


def test_a_side_that_lacks_it_is_told() -> None:
    (only_left, only_right) = compare.differences({"a": None}, {"b": 1})
    assert (only_left.has_left, only_left.has_right) == (True, False)
    assert (only_right.has_left, only_right.has_right) == (False, True)


def test_nested_facts_are_flattened() -> None:
    assert compare.flat({"python": "3", "packages": {"torch": "2"}}) == {"python": "3", "packages.torch": "2"}


def test_metrics_are_paired_by_name_and_loops() -> None:
    left = [Metric("loss", ("epoch",)), Metric("loss", ("epoch", "step")), Metric("time", volatile=True)]
    right = [Metric("loss", ("epoch",)), Metric("time"), Metric("acc")]
    pairs = compare.pair_metrics(left, right, lambda name: name == "time")
    assert [(pair.name, pair.differs, pair.volatile) for pair in pairs] == [
        ("loss", False, False),
        ("loss", True, False),
        ("time", True, True),
        ("acc", True, False),
    ]


def test_rows_differ_anywhere_not_only_at_the_end() -> None:
    assert compare.rows_differ([(0, 1.0), (1, 0.5)], [(0, 2.0), (1, 0.5)])
    assert compare.rows_differ([(0, 1)], [(0, 1.0)])
    assert compare.rows_differ([(0, 1)], [])
    assert not compare.rows_differ([(0, math.nan)], [(0, math.nan)])


def test_metric_table_fits_80_columns() -> None:
    points = [k / 7 for k in range(100)]
    found = [
        Metric("a_rather_long_metric_name", ("epoch", "step"), 100, 0.0, points[-1], 0.0, points[-1], points),
        Metric("text", last="x" * 100),
        Metric("flag", last=True, volatile=True),
    ]
    lines = metrics_module.table(found, screen.Screen(80, 24, terminal=False, colour=False))
    assert all(len(line) <= 80 for line in lines)
    assert "▁" in lines[1] and "█" in lines[1]
    assert "flag (volatile)" in lines[3]


@pytest.mark.parametrize(
    ("left", "right", "change"),
    [
        (2**60, 2**60 + 1, "+1"),
        (3, 1, "-2"),
        (10**400, 10**400 + 7, "+7"),
        (0, 150_000, "+150000"),
        (2, 2, "+0"),
        (1, 1.5, "+0.5"),
        (0.1, 0.3, "+0.2"),
        ("a", 1, ""),
        (False, True, "+1"),
    ],
)
def test_the_change_between_two_runs(left: object, right: object, change: str) -> None:
    assert diff._change(compare.MetricPair("n", Metric("n", last=left), Metric("n", last=right), differs=True)) == change
