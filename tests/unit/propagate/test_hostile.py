"""Files that are hard to read: generated, nested, unusual, old encodings."""

from __future__ import annotations

import ast
import sys

import pytest

from rearview.propagate.place import Placed, Refused, propagate


def generated(functions: int) -> list[str]:
    lines = []
    for number in range(functions):
        lines += [f"def f{number}(x):", f"    a = x + {number}", f"    b = g{number % 7}(a)", "    return b", ""]
    return lines


def test_two_thousand_generated_lines() -> None:
    lines = generated(400)
    at = lines.index("def f200(x):") + 3
    new = [*lines[:at], "    rv.log('b', b)", *lines[at:]]
    old = [line.replace("x + 3", "x - 3") for line in lines]
    found = propagate("\n".join(new), at + 1, None, "\n".join(old))
    assert isinstance(found, Placed)
    assert found.text.split("\n")[at] == "    rv.log('b', b)"


def test_two_thousand_lines_that_have_nothing_in_common() -> None:
    mine = [f"a{number} = f{number}(x{number})" for number in range(2000)]
    theirs = [f"b{number} = [g{number}, y{number}]" for number in range(2000)]
    mine.insert(1000, "rv.log('a', a999)")
    found = propagate("\n".join(mine), 1001, None, "\n".join(theirs))
    assert isinstance(found, Refused)


def test_the_same_line_two_thousand_times() -> None:
    mine = ["step()"] * 1000 + ["rv.log('a', 1)"] + ["step()"] * 1000
    found = propagate("\n".join(mine), 1001, None, "\n".join(["step()"] * 1900))
    assert isinstance(found, Refused | Placed)
    assert not isinstance(found, Placed) or not found.certain


def test_deep_nesting() -> None:
    lines = ["def f(x):"] + ["    " * depth + f"if x > {depth}:" for depth in range(1, 90)] + ["    " * 90 + "y = x"]
    new = [*lines, "    " * 90 + "rv.log('y', y)"]
    found = propagate("\n".join(new) + "\n", len(new), None, "\n".join(lines) + "\n")
    assert isinstance(found, Placed)
    assert found.text == "\n".join(new) + "\n"


def test_a_long_expression() -> None:
    old = "total = " + " + ".join(["x"] * 900) + "\nuse(total)\n"
    found = propagate(old.replace("use", "rv.log('t', total)\nuse"), 2, None, old)
    assert isinstance(found, Placed | Refused)


UNUSUAL = {
    "match": "match command:\n    case {'go': where, **rest}:\n        walk(where)\n    case [first, *_] if first:\n        run(first)\n"
    "    case _:\n        stop()\n",
    "walrus": "while (chunk := read(10)):\n    use(chunk)\n    done = True\n",
    "decorators": "@wrap(1)\n@other\ndef f(x, /, y, *, z=1, **k):\n    w = y\n    return w\n",
    "async": "async def f(rows):\n    async for row in rows:\n        await use(row)\n    async with lock() as held:\n        keep(held)\n",
    "try": "try:\n    a = f()\nexcept (A, B) as problem:\n    tell(problem)\nelse:\n    fine(a)\nfinally:\n    close()\n",
    "groups": "try:\n    a = f()\nexcept* ValueError as many:\n    tell(many)\n",
    "lambda": "f = lambda x: [y for y in x if (z := y)]\ng = {k: v for k, v in f(1)}\nuse(g)\n",
    "global": "def f():\n    global count\n    count = 1\n    use(count)\n",
    "class": "class A(B, metaclass=C):\n    x: int = 1\n\n    def f(self):\n        self.y = 1\n        return self.y\n",
    "backslash": "total = 1 + \\\n    2\nuse(total)\n",
    "form feed": "a = f()\n\x0c\ndef g(x):\n    b = x\n    return b\n",
    "unicode": "größe = messen()\nbenutze(größe, 'ж')\n",
}
if sys.version_info >= (3, 12):
    UNUSUAL["type parameters"] = "type Pair[T] = tuple[T, T]\n\n\ndef f[T: int](x: T) -> T:\n    y = x\n    return y\n"


@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_syntax(kind: str) -> None:
    """After each statement of its own line: put in, found again, nothing else touched."""
    old = UNUSUAL[kind]
    lines = old.split("\n")
    placed = 0
    for node in ast.walk(ast.parse(old)):
        if isinstance(node, ast.Assign | ast.Expr | ast.AnnAssign) and node.end_lineno:
            at = node.end_lineno
            new = "\n".join([*lines[:at], " " * node.col_offset + "rv.log('here', 1)", *lines[at:]])
            found = propagate(new, at + 1, None, old)
            assert isinstance(found, Placed), (at, found)
            assert found.text == new
            placed += 1
    assert placed


def test_latin_1_text_and_a_mark_at_the_beginning() -> None:
    old = "\ufeff# é\na = f('é')\nuse(a)\n"
    new = "a = f('é')\nrv.log('é', a)\nuse(a)\n"
    found = propagate(new, 2, None, old)
    assert isinstance(found, Placed)
    assert found.text == "\ufeff# é\na = f('é')\nrv.log('é', a)\nuse(a)\n"


def test_statements_that_share_a_line() -> None:
    found = propagate("a = f(); rv.log('a', a)\nuse(a)\n", 1, None, "a = f()\nuse(a)\n")
    assert isinstance(found, Placed | Refused)
    between = propagate("a = f()\nrv.log('a', a)\nuse(a)\n", 2, None, "a = f(); use(a)\n")
    assert isinstance(between, Refused)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", '"""Only this."""\n', "pass\n"])
def test_nearly_empty_files(text: str) -> None:
    assert isinstance(propagate("a = f()\nrv.log('a', a)\n", 2, None, text), Refused)
    assert isinstance(propagate(text, 1, None, "a = f()\n"), Refused)
