"""What a statement is in the middle of: by places in a text, as instructions have them."""

from __future__ import annotations

import ast

import pytest

from rearview.instrument.midway import Midway, Position, look

TEXT = """
def main():
    with outside():
        for epoch in rv.loop("epoch", range(4)):
            history.append({"epoch": epoch, "train": train(), "val": validate()})
            report(run("train"), run("val"))
            total += evaluate(net)
            losses = [step(x) for x in rv.loop("x", items)]
            with torch.no_grad(), averaged(net):
                for y in rv.loop("y", items):
                    see(y)
            best = first() or second()
            worst = max(other(), one() if chance() else another())
            totals[key()] += last()
            get(name()).add(outer())
            mean = (lambda: inner())()
"""


def place(text: str) -> Position:
    """Where the last such text stands."""
    at = TEXT.rindex(text)
    before, through = TEXT[:at], TEXT[: at + len(text)]
    return before.count("\n") + 1, through.count("\n") + 1, at - before.rfind("\n") - 1, at + len(text) - through.rfind("\n") - 1


def found(text: str) -> Midway:
    seen = look(ast.parse(TEXT), place(text), place('rv.loop("epoch", range(4))'))
    assert seen is not None
    return seen


@pytest.mark.parametrize(
    ("here", "waiting"),
    [
        ("validate()", ("train()",)),
        ("train()", ()),
        ('run("val")', ("run('train')",)),
        ("evaluate(net)", ()),
        ("second()", ()),
        ("one()", ("other()",)),
        ("last()", ("totals[key()]",)),
        ("outer()", ()),
        ("inner()", ()),
    ],
)
def test_what_waits_for_a_call(here: str, waiting: tuple[str, ...]) -> None:
    assert found(here).waiting == waiting


def test_what_is_gathered() -> None:
    assert found('rv.loop("x", items)').gathers == found("step(x)").gathers == "[step(x) for x in rv.loop('x', items)]"
    assert found("train()").gathers == ""


def test_blocks_around_a_place_within_the_loop() -> None:
    assert found('rv.loop("y", items)').managers == ("averaged(net)", "torch.no_grad()")
    assert found("averaged(net)").managers == ("torch.no_grad()",), "one that is entered after another"
    assert found("train()").managers == ()
    whole = look(ast.parse(TEXT), place("see(y)"))
    assert whole is not None
    assert whole.managers == ("averaged(net)", "torch.no_grad()", "outside()")


def test_a_loop_may_be_told_by_its_whole_statement() -> None:
    statement = next(node for node in ast.walk(ast.parse(TEXT)) if isinstance(node, ast.For) and ast.unparse(node.target) == "y")
    assert statement.end_lineno is not None
    assert statement.end_col_offset is not None
    at = (statement.lineno, statement.end_lineno, statement.col_offset, statement.end_col_offset)
    assert look(ast.parse(TEXT), at, place('rv.loop("epoch", range(4))')) == found('rv.loop("y", items)')


def test_a_place_that_is_none() -> None:
    assert look(ast.parse(TEXT), (1000, 1000, 0, 5)) is None
