"""A statement put at a line that a person names; every other line stays as it is."""

from __future__ import annotations

import pytest

from rearview.errors import UsageError
from rearview.instrument.added import Added, added
from rearview.instrument.place_at import lines_of, place

SCRIPT = '''\
"""A script."""
import rearview as rv

def norm(net):
    total = sum(
        net,
    )
    return total

for epoch in range(3):
    x = 1; y = 2

    # a comment
    if x: y = 3
    else:
        z = """
text
"""
    while x:
        break
print(x)'''


def diff(text: str, placed: str) -> tuple[int, str]:
    """The one line that is new."""
    before, after = text.split("\n"), placed.split("\n")
    at = next(k for k, line in enumerate(after) if k >= len(before) or line != before[k])
    assert after[:at] + after[at + 1 :] == before
    return at + 1, after[at]


@pytest.mark.parametrize(
    ("line", "before", "expected"),
    [
        (5, False, (8, '    rv.log("n", x + 1)')),
        (6, False, (8, '    rv.log("n", x + 1)')),
        (6, True, (5, '    rv.log("n", x + 1)')),
        (8, True, (8, '    rv.log("n", x + 1)')),
        (4, False, (9, 'rv.log("n", x + 1)')),
        (10, False, (21, 'rv.log("n", x + 1)')),
        (10, True, (10, 'rv.log("n", x + 1)')),
        (11, False, (12, '    rv.log("n", x + 1)')),
        (11, True, (11, '    rv.log("n", x + 1)')),
        (14, False, (19, '    rv.log("n", x + 1)')),
        (15, False, (19, '    rv.log("n", x + 1)')),
        (17, False, (19, '        rv.log("n", x + 1)')),
        (17, True, (16, '        rv.log("n", x + 1)')),
        (20, True, (20, '        rv.log("n", x + 1)')),
        (1, False, (2, '__import__("rearview").log("n", x + 1)')),
        (2, False, (3, 'rv.log("n", x + 1)')),
    ],
)
def test_where_it_goes(line: int, before: bool, expected: tuple[int, str]) -> None:
    placed = place(SCRIPT, line, " x + 1 ", "n", before)
    assert diff(SCRIPT, placed.text) == expected
    assert placed.line == expected[0]
    lines, moved = SCRIPT.split("\n"), placed.text.split("\n")
    for number, text in enumerate(lines, 1):
        assert moved[placed.shift(number) - 1] == text


@pytest.mark.parametrize("line", [1, 3, 5])
def test_an_elif_is_a_part_of_its_if(line: int) -> None:
    text = "if a:\n    b()\nelif c:\n    d()\nelse:\n    e()\nf()\n"
    assert diff(text, place(text, line, "1", "n", before=True).text)[0] == 1
    assert diff(text, place(text, line, "1", "n").text) == (7, '__import__("rearview").log("n", 1)')


def test_the_last_line_without_an_end() -> None:
    assert place(SCRIPT, 21, "x", "n").text == SCRIPT + '\nrv.log("n", x)'


@pytest.mark.parametrize(
    ("line", "before", "words"),
    [
        (12, False, ["line 12 of train.py is blank", "line 11"]),
        (13, False, ["is a comment"]),
        (9, False, ["is blank"]),
        (99, False, ["no line 99 in train.py", "21"]),
        (8, False, ["nothing runs after `return` on line 8", "--before"]),
        (20, False, ["nothing runs after `break`", "--before"]),
        (1, True, ["docstring"]),
    ],
)
def test_where_it_cannot_go(line: int, before: bool, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        place(SCRIPT, line, "x", "n", before, path="train.py")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("expression", ["norm(", "x = 1", "", "import os", "(yield)", "(x := 2)", "a b"])
def test_what_is_no_expression(expression: str) -> None:
    with pytest.raises(UsageError):
        place(SCRIPT, 11, expression, "n")


@pytest.mark.parametrize(
    ("expression", "written"),
    [("a, b", "(a, b)"), ("[\n1,\n2]", "[1, 2]"), ("x  # note", "x"), ("(\n1,\n2)", "(1, 2)"), ("f(')')", "f(')')")],
)
def test_an_expression_stays_one_value_on_one_line(expression: str, written: str) -> None:
    assert place("x = 1\n", 1, expression, "n").text == f'x = 1\n__import__("rearview").log("n", {written})\n'


def test_line_ends_tabs_and_marks_stay() -> None:
    text = "\ufeffimport rearview\r\nif 1:\r\n\tx = 1\r\n\ty = '\x0c\u2028'\r\n"
    placed = place(text, 3, "x", "n")
    assert placed.text == "\ufeffimport rearview\r\nif 1:\r\n\tx = 1\r\n\trearview.log(\"n\", x)\r\n\ty = '\x0c\u2028'\r\n"
    assert place(text, 1, "1", "n", True).text == '\ufeff__import__("rearview").log("n", 1)\r\n' + text[1:]


def test_the_name_that_holds_there() -> None:
    assert "flor.log(" in place("import rearview as flor\nx = 1\n", 2, "x", "n").text
    assert "\nl(" in place("from rearview import log as l\nx = 1\n", 2, "x", "n").text
    assert "__import__" in place("x = 1\nimport rearview as rv\n", 1, "x", "n").text
    assert "__import__" in place("import rearview as rv\ndef f(rv):\n    x = rv\n", 3, "x", "n").text
    assert "__import__" in place("def f():\n    import rearview as rv\ndef g():\n    x = 1\n", 4, "x", "n").text


def test_a_name_of_any_kind() -> None:
    assert r"""log('it\'s "q" \xe9\n', x)""" in place("x = 1\n", 1, "x", 'it\'s "q" é\n').text


def test_before_a_future_statement_nothing_can_stand() -> None:
    with pytest.raises(UsageError, match="cannot stand before line 1"):
        place("from __future__ import annotations\nx = 1\n", 1, "x", "n", True)


def test_a_file_that_is_not_python() -> None:
    with pytest.raises(UsageError, match="cannot be read as Python"):
        place("def f(:\n", 1, "x", "n")


def test_looking_repeats_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    text = 'import rearview as rv\nx = "\\p"\nif x is 1: pass\n'
    place(text, 2, "x", "n")
    assert isinstance(added(text, text + "rv.log('n', x)\n"), Added)
    assert not recwarn.list


def test_a_cell_may_wait_outside_of_functions_and_a_script_may_not() -> None:
    cell = "import rearview as rv\nx = await soon()\n"
    assert place(cell, 2, "x + 1", "y").text == cell + 'rv.log("y", x + 1)\n'
    with pytest.raises(UsageError, match="outside function"):
        place("import rearview as rv\nx = 1\n", 2, "await soon()", "y")


def test_lines_end_where_python_ends_them() -> None:
    assert lines_of("a\rb\r\nc\nd\x0ce\u2028f\x85g\x1ch") == ["a\r", "b\r\n", "c\n", "d\x0ce\u2028f\x85g\x1ch"]
    assert lines_of("\n\r\r\n") == ["\n", "\r", "\r\n"]
    assert lines_of("a\nd\x0ce\u2028f\x85\n\ng") == ["a\n", "d\x0ce\u2028f\x85\n", "\n", "g"]
    assert lines_of("a\n") == ["a\n"]
    assert lines_of("") == []
