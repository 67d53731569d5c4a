"""A file in pieces: together they are the file, alone each is a program, and a function left out moves no line."""

from __future__ import annotations

import ast

import pytest

from rearview.instrument.calls import parse
from rearview.instrument.matching import surely_changed
from rearview.instrument.pieces import begins, only_head, only_lines, only_name, pieces_of, without

PROGRAM = '''"""A text
at the left edge.
"""
import os

# what is done
def steps(values, factor=2):
    """Adds."""
    total = 0
    for value in values:
        total += value * factor
    return (total
)


@staticmethod
def decorated(x):
    y = """
left edge
"""
    return x, y

try:
    import fast
except ImportError:
    fast = None
else:
    os.x = 1
table = [
1,
2,
]
class Net:
    def forward(self, x):
        return x

def one_line(): return 1
def every(*given):
    print(*given)
def waits():
    yield 1
x = 1; y = 2
def last(a):
    return a  # no end of line'''


def whole(text: str) -> str:
    return ast.dump(parse(text), include_attributes=True)


@pytest.mark.parametrize(
    "text", [PROGRAM, PROGRAM + "\n", PROGRAM.replace("\n", "\r\n"), "", "# nothing\n", "x = 1 \\\n+ 2\n", "\ufeffa = 1\nb = 2\n"]
)
def test_the_pieces_are_the_file(text: str) -> None:
    pieces = pieces_of(text)
    assert "".join(piece.text for piece in pieces) == text.removeprefix("\ufeff")
    body: list[ast.stmt] = []
    for piece, line in zip(pieces, begins(pieces), strict=True):
        tree = parse(piece.text)
        ast.increment_lineno(tree, line - 1)
        body += tree.body
    assert ast.dump(ast.Module(body, []), include_attributes=True) == whole(text)


def test_what_can_be_left_out_is_a_plain_function() -> None:
    assert [piece.defines[0] for piece in pieces_of(PROGRAM) if piece.outline is not None] == ["steps", "decorated", "last"]
    assert len(pieces_of(PROGRAM)) == 12


@pytest.mark.parametrize("text", [PROGRAM, PROGRAM.replace("\n", "\r\n")])
def test_leaving_functions_out_moves_no_line(text: str) -> None:
    left = without(pieces_of(text), lambda piece: True, only_head)
    lines = [(one.lineno, one.end_lineno, type(one)) for one in parse(left).body]
    assert lines == [(one.lineno, one.end_lineno, type(one)) for one in parse(text).body]
    assert "total" not in left
    assert "forward" in left
    for how in (only_name, only_lines):
        assert without(pieces_of(text), lambda piece: True, how).count("\n") == text.count("\n")


def test_a_file_that_is_no_program_says_so_as_a_whole() -> None:
    with pytest.raises(SyntaxError) as found:
        pieces_of("a = 1\nb = (\n")
    assert found.value.lineno == 2


def test_line_ends_of_old_machines_are_one_piece() -> None:
    assert len(pieces_of("a = 1\rb = 2\r")) == 1


def test_surely_changed_counts_what_pieces_have() -> None:
    assert not surely_changed("def f():\n    return 1\nx = 2\n", "x = 2\ny = f(1)\ndef f():\n    return 1\n")
    assert surely_changed("x = 2\nx = 2\n", "x = 2\n")
    assert surely_changed("x = 2\nx = 2\n", "x = 2 + x\n")  # the same names and numbers, less often
    assert not surely_changed("x = 1\ny = 2\n", "if x:\n    x = 1\n    y = 2\n")
    assert not surely_changed("x = (\n", "y = 1\n")
