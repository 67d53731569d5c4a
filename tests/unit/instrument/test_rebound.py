"""Which variables an iteration of a loop reads only after it has given them a value."""

from __future__ import annotations

import ast
import textwrap

import pytest

from rearview.instrument.rebound import rebound


def found(source: str) -> set[str]:
    """Of the loop over `epochs`."""
    tree = ast.parse(textwrap.dedent(source))
    over = next(node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "epochs" and isinstance(node.ctx, ast.Load))
    assert over.end_lineno is not None
    assert over.end_col_offset is not None
    return set(rebound(tree, (over.lineno, over.end_lineno, over.col_offset, over.end_col_offset)))


def body(*lines: str) -> str:
    return "for epoch in epochs:\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    "lines",
    [
        ["value = f()"],
        ["a, (value, *b) = f()", "print(value)"],
        ["value: float = f()", "print(value)"],
        ["with no_grad() as value:", "    print(value)"],
        ["with no_grad():", "    value = f()", "print(value)"],
        ["if epoch % 5 == 0:", "    value = f()", "    print(value)"],
        ["if epoch:", "    value = f()", "else:", "    value = g()", "print(value)"],
        ["for step in loader:", "    value = f(step)", "    value.backward()"],
        ["for value in loader:", "    value.backward()"],
        ["del value", "value = f()"],
    ],
)
def test_given_a_value_first(lines: list[str]) -> None:
    assert "value" in found(body(*lines))


@pytest.mark.parametrize(
    "lines",
    [
        ["value = value + f()"],
        ["value += f()"],
        ["print(value)", "value = f()"],
        ["if epoch:", "    value = f()", "print(value)"],
        ["if value:", "    value = f()"],
        ["for step in loader:", "    value = value + f(step)"],
        ["while g():", "    value = f(value)"],
        ["try:", "    value = f()", "finally:", "    print(value)"],
        ["held[value] = f()", "value = f()"],
        ["with value:", "    value = f()"],
        ["def later():", "    return value", "value = f()"],
        ["other = f()"],
        ["h = lambda: value", "value = f()"],
    ],
)
def test_read_before_it_may_have_one(lines: list[str]) -> None:
    assert "value" not in found(body(*lines))


def test_behind_a_loop_in_it() -> None:
    def behind(*rest: str) -> set[str]:
        source = body("before = f()", "for step in loader:", "    loss = f(step)", "    kept += loss", *rest, "print(before)")
        tree = ast.parse(source)
        places = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in ("epochs", "loader"):
                assert node.end_lineno is not None
                assert node.end_col_offset is not None
                places[node.id] = node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
        return set(rebound(tree, places["epochs"], places["loader"]))

    assert behind("value = f()") == {"value", "loss", "step"}
    assert behind("loss.backward()", "value = f()") == {"value", "step"}
    assert behind("print(value)", "value = f()") == {"loss", "step"}


def test_what_others_may_read_is_read() -> None:
    assert "value" not in found("def show():\n    print(value)\n" + body("value = f()", "show()"))
    assert "value" not in found("def main():\n    global value\n" + textwrap.indent(body("value = f()"), "    "))
    assert "value" in found("def other():\n    print(value)\ndef main():\n" + textwrap.indent(body("value = f()"), "    "))


def test_a_backward_pass_behind_the_loop() -> None:
    assert "value" not in found(body("value = f()") + "value.backward()\n")
    assert "value" in found(body("value = f()") + "print(value)\n")
    assert found("while True:\n    value = next(epochs)\n") == set()
