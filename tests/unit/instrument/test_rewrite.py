"""The program text that runs in a replay: same behaviour, loops marked, probes wrapped, lines as they were."""

from __future__ import annotations

import ast
import builtins
import contextlib
import textwrap
import traceback
from collections.abc import Iterator

import pytest

from rearview.instrument import rewrite


class Provided:
    """What the replayer provides, noting what it is asked."""

    def __init__(self) -> None:
        self.marked: list[object] = []
        self.broke = False
        self.probes: list[object] = []

    def mark(self, loop: object, has_else: bool = False) -> object:
        self.marked.append(loop)
        return loop

    def did_break(self) -> bool:
        broke, self.broke = self.broke, False
        return broke

    @contextlib.contextmanager
    def probe(self, index: int) -> Iterator[None]:
        self.probes.append(("enter", index))
        try:
            yield
        except BaseException:
            self.probes.append(("raised", index))
            raise
        self.probes.append(("left", index))


@pytest.fixture
def provided(monkeypatch: pytest.MonkeyPatch) -> Provided:
    given = Provided()
    monkeypatch.setattr(builtins, rewrite.MARK, given.mark, raising=False)
    monkeypatch.setattr(builtins, rewrite.BROKE, given.did_break, raising=False)
    monkeypatch.setattr(builtins, rewrite.PROBE, given.probe, raising=False)
    return given


def marked(text: str) -> int:
    tree = rewrite.rewrite(ast.parse("import rearview as rv\n" + textwrap.dedent(text)))
    return sum(isinstance(node, ast.Name) and node.id == rewrite.MARK for node in ast.walk(tree))


@pytest.mark.parametrize(
    "text",
    [
        "for x in rv.loop('a', xs): pass",
        "for i, x in enumerate(rv.loop('a', xs)): pass",
        "for x, y in zip(ys, rv.loop('a', xs)): pass",
        "for x in tqdm(rv.loop('a', enumerate(xs)), total=3): pass",
        "for x in tqdm.auto.tqdm(rv.loop('a', xs)): pass",
        "def f():\n  with a:\n    for x in rv.loop('a', xs): pass",
        "bar = tqdm(rv.loop('a', xs))\nfor x in bar:\n  bar.set_postfix(a=x)",
        "with tqdm(rv.loop('a', xs)) as bar:\n  for i, x in enumerate(bar):\n    bar.update()",
        "for x in (bar := tqdm(rv.loop('a', xs))):\n  bar.update()",
        "from rearview import loop as l\nfor x in l('a', xs): pass",
        "class A:\n  def fit(self):\n    for self.i in rv.loop('a', xs): pass",
        "for x in rv.loop('a', xs):\n  def ticks():\n    while x: yield\n  for y in ticks(): pass",
    ],
)
def test_a_loop_that_a_for_statement_drives_is_marked(text: str) -> None:
    assert marked(text) == 1


@pytest.mark.parametrize(
    "text",
    [
        "for x in list(rv.loop('a', xs)): pass",
        "for x in sorted(rv.loop('a', xs)): pass",
        "for x in prefetch(rv.loop('a', xs)): pass",
        "for x in pool.map(f, rv.loop('a', xs)): pass",
        "[x for x in rv.loop('a', xs)]",
        "total = sum(rv.loop('a', xs))",
        "def batches():\n  for x in rv.loop('a', xs):\n    yield x",
        "def batches():\n  return rv.loop('a', xs)\nfor x in batches(): pass",
        "it = rv.loop('a', xs)\nnext(it)\nfor x in it: pass",
        "it = rv.loop('a', xs)\nfor x in it: pass\nfor x in it: pass",
        "it = rv.loop('a', xs)\nif a:\n  it = xs\nfor x in it: pass",
        "it = rv.loop('a', xs)\ndef f():\n  return next(it)\nfor x in it: pass",
        "async def f():\n  async for x in rv.loop('a', xs): pass",
    ],
)
def test_a_loop_that_is_consumed_otherwise_is_not(text: str) -> None:
    assert marked(text) == 0


FOR_ELSE = """
import fake as rv
ended = []
x = y = "before"
for x, y in enumerate(rv.loop("a", [5, 6])):
    ended.append(x)
    if stop:
        break
else:
    ended.append("else")
"""


def run(text: str, provided: Provided, **names: object) -> dict[str, object]:
    class Fake:
        @staticmethod
        def loop(name: str, items: object) -> object:
            return items

    tree = ast.parse(text.replace("import fake as rv", ""))
    code = compile(rewrite.rewrite(tree), "train.py", "exec")
    variables: dict[str, object] = {"rv": Fake, **names}
    exec(code, variables)
    return variables


@pytest.mark.parametrize(("stop", "ended"), [(False, [0, 1, "else"]), (True, [0])])
def test_for_else_does_what_it_did(provided: Provided, stop: bool, ended: list[object]) -> None:
    after = run(FOR_ELSE, provided, stop=stop)
    assert after["ended"] == ended
    assert rewrite.ITEM not in after
    assert provided.marked == [[5, 6]]


def test_a_skipped_loop_that_broke_runs_no_else_and_assigns_nothing(provided: Provided) -> None:
    provided.broke = True
    after = run(FOR_ELSE, provided, stop=False)
    assert after["ended"] == []
    assert (after["x"], after["y"]) == ("before", "before")
    assert rewrite.ITEM not in after


def test_probes_are_wrapped_together_and_their_lines_stay(provided: Provided) -> None:
    text = textwrap.dedent("""\
        def f(x):
            a = x
            total = a + 1; seen.append(total)
            seen.append(1 / (a - 2))
            return a
        seen = []
        f(1)
        f(2)
    """)
    code = rewrite.compile_rewritten(text.encode(), "train.py", [(3, 4, 4, 99, 7)])
    with pytest.raises(ZeroDivisionError) as caught:
        exec(code, {})
    lines = [entry.lineno for entry in traceback.extract_tb(caught.value.__traceback__) if entry.filename == "train.py"]
    assert lines == [8, 4]
    assert provided.probes == [("enter", 7), ("left", 7), ("enter", 7), ("raised", 7)]


def test_a_probe_that_shares_its_line_leaves_the_rest_of_it_alone() -> None:
    text = "from rearview import log\nx = 1; log('x', x)\n"
    for probe in ((2, 7, 2, 20, 0), (2, 0)):
        tree = rewrite.rewrite(ast.parse(text), [probe])
        assert [type(one).__name__ for one in tree.body] == ["ImportFrom", "Assign", "With"]


def test_a_probe_by_its_line_alone(provided: Provided) -> None:
    text = "from rearview import log\ndef f():\n  log('x',\n  0)\n  for i in range(3): log('y', i)\n"
    tree = rewrite.rewrite(ast.parse(text), [(3, 4), (5, 9)])
    function = tree.body[1]
    assert isinstance(function, ast.FunctionDef)
    assert [type(one).__name__ for one in function.body] == ["With", "With"]
    assert [node.args[0].value for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)  # type: ignore[attr-defined]
            and node.func.id == rewrite.PROBE] == [4, 9]  # fmt: skip


def test_encoding_cookies_and_future_statements_count() -> None:
    data = b"# coding: latin-1\nfrom __future__ import annotations\ndef f(x: nothing): pass\nt = '\xe9'\nfor i in m.loop('a', [1]): pass\n"
    code = rewrite.compile_rewritten(data, "a.py")
    variables: dict[str, object] = {}

    class Loops:
        def loop(self, name: str, items: list[int]) -> list[int]:
            return items

    setattr(builtins, rewrite.MARK, lambda loop: loop)
    try:
        exec(code, {**variables, "m": Loops()}, variables)
    finally:
        delattr(builtins, rewrite.MARK)
    assert variables["t"] == "é"


def test_a_file_without_loops_compiles_to_the_very_same_code() -> None:
    data = b"def f(a, *b):\n    for x in a:\n        yield x\n    else:\n        return\n"
    assert rewrite.compile_rewritten(data, "a.py") == compile(data, "a.py", "exec", dont_inherit=True)
