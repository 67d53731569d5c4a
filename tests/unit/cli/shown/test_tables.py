"""Tables fit, line up, and say what they left out."""

from hypothesis import given
from hypothesis import strategies as st

from rearview.cli.shown import tables, text
from rearview.cli.shown.screen import Screen

PLAIN = Screen(80, 24, terminal=False, colour=False)


def at(width: int, colour: bool = False) -> Screen:
    return Screen(width, 24, terminal=colour, colour=colour)


def test_columns_line_up() -> None:
    drawn = tables.draw([tables.Column("name"), tables.Column("n", align="right")], [["a", "1"], ["学習", "100"]], PLAIN)
    assert drawn.lines == ["name    n", "a       1", "学習  100"]
    assert drawn.dropped == []


def test_wide_columns_give_first_and_heavy_ones_go() -> None:
    columns = [tables.Column("id", least=4), tables.Column("spare", least=8, weight=2), tables.Column("words", least=6, weight=1)]
    rows = [["r123", "spare words", "a very long text that has to give"]]
    wide = tables.draw(columns, rows, at(30))
    assert wide.lines[1] == "r123  spare words  a very lon…"
    narrow = tables.draw(columns, rows, at(14))
    assert narrow.dropped == ["spare"]
    assert narrow.lines[1] == "r123  a very …"


@given(
    st.lists(st.lists(st.text(max_size=30), min_size=4, max_size=4), max_size=6),
    st.integers(20, 140),
)
def test_no_line_is_wider_than_the_screen(rows: list[list[str]], width: int) -> None:
    columns = [
        tables.Column("a"),
        tables.Column("b", align="right", weight=1),
        tables.Column("c", weight=2),
        tables.Column("d", keep="end"),
    ]
    drawn = tables.draw(columns, rows, at(width))
    assert len(drawn.lines) == len(rows) + 1
    assert all(text.width(line) <= width for line in drawn.lines)


def test_colour_is_only_where_the_screen_shows_it() -> None:
    rows = [[tables.Styled("failed", "bad")]]
    assert "\x1b" not in "".join(tables.draw([tables.Column("ended")], rows, at(80)).lines)
    assert tables.draw([tables.Column("ended")], rows, at(80, colour=True)).lines[1] == "\x1b[31mfailed\x1b[0m"


def test_facts_wrap_below_themselves() -> None:
    lines = tables.facts([("argv", "train.py " + "--flag " * 20), ("empty", "")], at(60))
    assert lines[0].startswith("argv          train.py --flag")
    assert lines[1].startswith(" " * 14 + "--flag")
    assert lines[-1] == "empty"
    assert all(len(line) <= 60 for line in lines)


@given(st.text(max_size=200), st.integers(5, 60))
def test_wrapping_loses_nothing_but_blanks(raw: str, columns: int) -> None:
    escaped = text.escape(raw)
    lines = tables.wrap(escaped, columns)
    assert all(text.width(line) <= columns for line in lines)
    assert "".join(lines).replace(" ", "") == escaped.replace(" ", "")


def test_elision_keeps_both_ends() -> None:
    rows = [[str(k)] for k in range(10)]
    shown, gap, hidden = tables.elide(rows, 5)
    assert [row[0] for row in shown] == ["0", "1", "2", "8", "9"]
    assert (gap, hidden) == (3, 5)
    assert tables.elide(rows, 0) == (rows, 0, 0)
    assert tables.elide(rows, 10) == (rows, 0, 0)
    assert [row[0] for row in tables.elide(rows, 1)[0]] == ["0"]
