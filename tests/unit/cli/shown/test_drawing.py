"""Sparklines and charts: every finite value has its place, what is not finite breaks nothing."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rearview.cli.shown import chart, sparkline

numbers = st.lists(st.one_of(st.none(), st.floats()), max_size=200)


def test_sparkline_goes_from_low_to_high() -> None:
    assert sparkline.draw([0.0, 0.5, 1.0], 10) == "▁▅█"
    assert sparkline.draw([5.0, 5.0], 10) == "▄▄"
    assert sparkline.draw([1.0, math.nan, 2.0], 10) == "▁×█"
    assert sparkline.draw([], 10) == ""
    assert sparkline.draw([-1.7e308, 1.7e308], 2) == "▁█"


def test_sparkline_means_over_stretches() -> None:
    assert sparkline.draw([0.0, 0.0, 7.0, 7.0], 2) == "▁█"


@given(numbers, st.integers(1, 60))
def test_sparkline_fits(values: list[float | None], columns: int) -> None:
    assert len(sparkline.draw(values, columns)) == min(len(values), columns)


def dots(rows: list[str]) -> int:
    return sum(bin(ord(char) - 0x2800).count("1") for row in rows for char in row if 0x2800 <= ord(char) < 0x2900)


def test_chart_of_a_rising_line() -> None:
    rows = chart.draw([chart.Line("a", [(0, 0), (1, 1)])], 20, 5)
    assert rows[0].startswith("1.0 ┤") and rows[0].endswith("⠔⠊")
    assert rows[4].startswith("0.0 ┤⡠")
    assert rows[5] == "    └" + "─" * 15
    assert rows[6].split() == ["0", "0.5", "1"]


def test_a_constant_stands_in_the_middle() -> None:
    rows = chart.draw([chart.Line("a", [(0, 3.0), (10, 3.0)])], 30, 5)
    drawn = [k for k, row in enumerate(rows) if dots([row])]
    assert drawn == [2]


def test_nan_interrupts_the_line() -> None:
    whole = chart.draw([chart.Line("a", [(0, 0), (1, 0), (2, 1), (3, 1)])], 40, 8)
    broken = chart.draw([chart.Line("a", [(0, 0), (1, 0), (1.5, math.nan), (2, 1), (3, 1)])], 40, 8)
    assert 0 < dots(broken) < dots(whole)


def test_nothing_finite_is_said() -> None:
    assert chart.draw([chart.Line("a", [(0, math.nan)])], 40, 8) == ["nothing to draw: no value is finite"]
    assert chart.draw([], 40, 8) == ["nothing to draw: no value is finite"]


def test_without_colour_lines_are_letters() -> None:
    rows = chart.draw([chart.Line("a", [(0, 0), (4, 4)]), chart.Line("b", [(0, 4), (4, 0)])], 30, 5)
    assert "a" in rows[4] and "b" in rows[0] and "*" in rows[2]
    assert dots(rows) == 0


def test_with_colour_each_line_has_its_own() -> None:
    rows = chart.draw([chart.Line("a", [(0, 0), (4, 0)]), chart.Line("b", [(0, 4), (4, 4)])], 30, 5, lambda char, k: f"<{k}{char}>")
    assert "<1" in rows[0] and "<0" in rows[4]


@given(st.lists(st.lists(st.tuples(st.floats(), st.floats()), max_size=20), max_size=4), st.integers(20, 140), st.integers(3, 20))
def test_chart_fits(lines: list[list[tuple[float, float]]], width: int, height: int) -> None:
    rows = chart.draw([chart.Line(str(k), points) for k, points in enumerate(lines)], width, height)
    assert len(rows) in (1, height + 2)
    if len(rows) > 1:
        assert all(len(row) <= max(width, 30) for row in rows)
