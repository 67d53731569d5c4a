"""Small programs made at random: what is said about them is compared with what they do.

The programs have nested loops, plain and of the record, functions that call others, branches, handlers, and every way out of a loop.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import os
import random
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview.errors import UsageError
from rearview.instrument import rewrite
from rearview.instrument.added import Added, added
from rearview.instrument.depth import Depth, depths
from rearview.instrument.place_at import place

PROGRAMS = int(os.environ.get("REARVIEW_TEST_INSTRUMENT", "1000" if os.environ.get("REARVIEW_TEST_LONG") else "40"))


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.logs = 0
        self.loops = 0
        self.functions = self.random.randint(1, 4)
        self.lib: list[str] = []
        """Another file, with the last functions."""
        self.in_lib = False
        self.kinds = [self.random.choice(["plain", "method"]) for _ in range(self.functions)]
        for number in range(self.random.randint(0, self.functions), self.functions):
            self.kinds[number] = self.random.choice(["lib", "imported"])

    def files(self) -> dict[str, str]:
        text = self.program()
        return {"train.py": text, "lib.py": "import rearview as rv\n" + "\n".join(self.lib) + "\n"}

    def call(self, number: int, value: str) -> str:
        """How a function is called from where it can be."""
        here = {"plain": "f{0}({1})", "method": "tool.f{0}({1})", "lib": "lib.f{0}({1})", "imported": "g{0}({1})"}
        return here[self.kinds[number] if not self.in_lib else "plain"].format(number, value)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def program(self) -> str:
        for number in reversed(range(self.functions)):
            self.in_lib = self.kinds[number] in ("lib", "imported")
            begun = len(self.lines)
            method = self.kinds[number] == "method"
            if method:
                self.line(0, f"class Tool{number}:")
            self.line(int(method), f"def f{number}({'self, ' if method else ''}v):")
            self.body(1 + method, number + 1, 3, looping=self.random.random() < 0.5, function=True)
            self.line(1 + method, "return v")
            if self.in_lib:
                self.lib += self.lines[begun:]
                del self.lines[begun:]
        self.in_lib = False
        imported = [f"from lib import f{number} as g{number}" for number in range(self.functions) if self.kinds[number] == "imported"]
        self.lines[:0] = ["import rearview as rv", "v = 0", "import lib", *imported]
        tools = [f"Tool{number}" for number in range(self.functions) if self.kinds[number] == "method"]
        self.line(0, f"class Tool({', '.join(tools)}):" if tools else "class Tool:")
        self.line(1, "pass")
        self.line(0, "tool = Tool()")
        if self.random.random() < 0.5:
            self.line(0, "def main(v):")
            self.main(1)
            self.line(0, "try:")
            self.line(1, "main(v)")
            self.line(0, "except ValueError:")
            self.log(1)
        else:
            self.main(0)
        self.log(0)
        return "\n".join(self.lines) + "\n"

    def main(self, depth: int) -> None:
        self.body(depth, 0, 1, looping=False)
        for _ in range(self.random.choice([1, 1, 1, 2])):
            self.line(depth, "with rv.checkpointing():")
            self.body(depth + 1, self.functions, 1, looping=False)
            for _ in range(self.random.choice([1, 1, 1, 2])):
                self.record_loop(depth + 1, 0, 3)
            self.body(depth + 1, self.functions, 1, looping=False)
        self.body(depth, 0, 1, looping=False)

    def record_loop(self, depth: int, calls: int, size: int, function: bool = False) -> None:
        self.loops += 1
        around = self.random.choice(["{}", "{}", "enumerate({})", "zip(range(9), {})"])
        loop = around.format(f'rv.loop("l{self.loops}", range({self.random.randint(0, 3)}))')
        if self.random.random() < 0.2:
            self.line(depth, f"held{self.loops} = {loop}")
            loop = f"held{self.loops}"
        self.line(depth, f"for i{depth} in {loop}:")
        self.body(depth + 1, calls, size - 1, looping=True, inside=True, function=function)
        if self.random.random() < 0.3:
            self.line(depth, "else:")
            self.body(depth + 1, calls, 0, looping=False)

    def log(self, depth: int) -> None:
        self.logs += 1
        self.line(depth, f'rv.log("p{self.logs}", v)')

    def body(self, depth: int, calls: int, size: int, *, looping: bool, inside: bool = False, function: bool = False) -> None:
        """`calls`: the first function that may be called; `inside`: a loop, `function`: of which one can be left."""
        self.line(depth, "v = v + 1")
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(["log", "log", "call", "if", "for", "record", "try", "out", "plain", "comprehension"])
            if kind == "log":
                self.log(depth)
            elif kind == "call" and calls < self.functions and depth < 6:
                self.line(depth, f"v = {self.call(self.random.randrange(calls, self.functions), 'v')}")
            elif kind == "comprehension" and calls < self.functions and depth < 5:
                self.line(depth, f"v = sum({self.call(self.random.randrange(calls, self.functions), 'w')} for w in range(2))")
            elif kind == "if" and size > 0:
                self.line(depth, f"if v % {self.random.randint(2, 3)}:")
                self.body(depth + 1, calls, size - 1, looping=looping, inside=inside, function=function)
                if self.random.random() < 0.5:
                    self.line(depth, "else:")
                    self.body(depth + 1, calls, size - 1, looping=looping, inside=inside, function=function)
            elif kind == "for" and size > 0:
                self.line(depth, f"for j{depth} in range({self.random.randint(0, 2)}):")
                self.body(depth + 1, calls, size - 1, looping=looping, inside=True, function=function)
            elif kind == "record" and looping and size > 0:
                self.record_loop(depth, calls, size, function)
            elif kind == "try" and size > 0:
                self.line(depth, "try:")
                self.body(depth + 1, calls, size - 1, looping=looping, inside=inside, function=function)
                self.line(depth + 1, "if v % 5 == 0: raise ValueError(v)")
                self.line(depth, "except ValueError:")
                self.body(depth + 1, calls, 0, looping=False)
                if self.random.random() < 0.3:
                    self.line(depth, "finally:")
                    self.log(depth + 1)
            elif kind == "out" and inside:
                way = self.random.choice(["break", "continue", *(["return v"] if function else [])])
                self.line(depth, f"if v % {self.random.randint(3, 7)} == 0: {way}")
            else:
                self.line(depth, "v = v * 3 % 101")


class Recorded:
    """A stand-in for rearview that notes where each log really ran."""

    def __init__(self, fails_at: int = 20_000) -> None:
        self.fails_at = fails_at
        self.places: dict[str, set[tuple[str, object]]] = {}
        self.values: list[tuple[str, int]] = []
        self.open: list[str] = []
        self.depth: int | None = None
        """How many loops were open when the main one was entered."""
        self.covered = 0
        self.done = 0
        self.nested_seen = False

    @contextlib.contextmanager
    def checkpointing(self) -> Iterator[None]:
        self.covered += 1
        try:
            yield
        finally:
            self.covered -= 1

    def loop(self, name: str, items: Any) -> Iterator[Any]:
        main = self.covered and self.depth is None
        if main:
            self.depth = len(self.open)
        level = len(self.open)
        self.open.append(name)
        try:
            for item in items:
                del self.open[level + 1 :]
                if main:
                    self.nested_seen = False
                yield item
        finally:
            del self.open[level:]
            if main:
                self.depth = None
                self.done += 1
            elif self.depth is not None and level == self.depth + 1:
                self.nested_seen = True

    def log(self, name: str, value: int) -> int:
        self.values.append((name, value))
        if len(self.values) > self.fails_at:
            raise OverflowError
        if self.depth is None:
            place: tuple[str, object] = ("done", self.done) if self.done else ("prefix", None)
        elif len(self.open) > self.depth + 1:
            place = ("nested", self.open[self.depth + 1])
        else:
            place = ("after" if self.nested_seen else "before", None)
        self.places.setdefault(name, set()).add(place)
        return value


def run(files: dict[str, Any], fails_at: int = 20_000) -> tuple[Recorded, list[int] | None]:
    """What a program did, and the lines of the error it ended with."""
    recorded = Recorded(fails_at)
    lib = types.ModuleType("lib")
    lib.__dict__["rv"] = recorded
    variables = {"rv": recorded, "__name__": "__main__"}
    sys.modules["lib"] = lib
    try:
        exec(files["lib.py"], lib.__dict__)
        exec(files["train.py"], variables)
    except (ValueError, OverflowError) as problem:
        return recorded, [entry.lineno or 0 for entry in traceback.extract_tb(problem.__traceback__) if entry.filename in files]
    finally:
        del sys.modules["lib"]
    return recorded, None


def runnable(text: str) -> str:
    return text.replace("import rearview as rv", "pass")


def compiled(files: dict[str, str]) -> dict[str, Any]:
    return {path: compile(runnable(text), path, "exec") for path, text in files.items()}


def allows(depth: Depth, place: tuple[str, object], mains: int) -> bool:
    kind, which = place
    if depth.whole:
        return True
    if kind == "nested":
        return which in depth.nested or "*" in depth.nested
    if kind == "done":
        return which == mains and depth.suffix
    return bool(getattr(depth, kind))


def lines_of_logs(text: str) -> dict[str, int]:
    return {line.split('"')[1]: number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith("rv.log(")}


def test_no_log_runs_where_it_was_not_said_to() -> None:
    known = 0
    for seed in range(PROGRAMS):
        files = Writer(seed).files()
        recorded, _ = run(compiled(files))
        where = {name: (path, line) for path, text in files.items() for name, line in lines_of_logs(text).items()}
        answers = dict(zip(where, depths(files, list(where.values()), "train.py"), strict=True))
        known += sum(not answer.whole for answer in answers.values())
        for name, places in recorded.places.items():
            for real in places:
                assert allows(answers[name], real, recorded.done), (seed, name, real, answers[name], files)
    assert known > 2 * PROGRAMS  # and not by saying "anywhere" always


@pytest.fixture
def provided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, rewrite.MARK, lambda loop, has_else=False: loop, raising=False)
    monkeypatch.setattr(builtins, rewrite.BROKE, lambda: False, raising=False)
    monkeypatch.setattr(builtins, rewrite.PROBE, lambda _: contextlib.nullcontext(), raising=False)


def every_second(text: str) -> list[tuple[int, int]]:
    return [(line, number) for number, line in enumerate(lines_of_logs(text).values()) if number % 2]


@pytest.mark.usefixtures("provided")
def test_a_rewritten_program_does_the_same_with_the_same_lines() -> None:
    ended_early = 0
    for seed in range(PROGRAMS):
        files = Writer(seed).files()
        rewritten = {path: rewrite.compile_rewritten(runnable(text).encode(), path, every_second(text)) for path, text in files.items()}
        plain = compiled(files)
        before, after = run(plain), run(rewritten)
        assert before[0].values == after[0].values, seed
        assert before[0].places == after[0].places, seed
        assert before[1] == after[1], seed
        fails_at = len(before[0].values) // 2
        cut = run(plain, fails_at), run(rewritten, fails_at)
        assert cut[0][1] == cut[1][1], seed  # the lines of the traceback
        ended_early += bool(cut[0][1])
    assert ended_early > PROGRAMS / 2


ADDITIONS = (
    ['rv.log("new", v)'],
    ["fresh = v + 1", 'rv.log("new", fresh)'],
    ["if v > 3:", '    rv.log("new", v)', "else:", "    fresh = 1"],
    ["for fresh in range(2):", '    rv.log("new", fresh)', "    if fresh: break"],
    ["import math", "with something:", '    rv.log("new", math.pi)'],
    ["def helper(x):", '    rv.log("new", x)', "    return x", "helper(v)"],
)


def add(text: str, chooser: random.Random) -> tuple[str, list[int]]:
    """Put statements into bodies of a program, at random. Gives the lines of the new logs."""
    lines = text.splitlines()
    out: list[str] = []
    added_at: list[int] = []
    for number, line in enumerate(lines):
        out.append(line)
        indent = line[: len(line) - len(line.lstrip())]
        simple = line.strip().startswith(("v = ", "rv.log(")) and number > 5
        if simple and chooser.random() < 0.15:
            for new in chooser.choice(ADDITIONS):
                out.append(indent + new)
                if '"new"' in new:
                    added_at.append(len(out))
    return "\n".join(out) + "\n", added_at


def test_exactly_what_was_added_is_found() -> None:
    several = 0
    for seed in range(PROGRAMS):
        text = Writer(seed).program()
        now, lines = add(text, random.Random(seed))
        result = added(text, now)
        assert isinstance(result, Added), (seed, str(result), now)
        assert [log.line for log in result.logs] == lines, (seed, now)
        assert {log.name for log in result.logs} <= {"new"}
        several += len(lines) > 2
        # Without them, it is the recorded program again: byte for byte but for what was put in.
        inside = [range(group.place[0], group.place[2] + 1) for group in result.groups]
        kept = [line for number, line in enumerate(now.splitlines(), 1) if not any(number in one for one in inside)]
        assert "\n".join(kept) + "\n" == text
    assert several > PROGRAMS / 4


def test_anything_else_is_noticed() -> None:
    for seed in range(PROGRAMS):
        text = Writer(seed).program()
        now, _ = add(text, random.Random(seed))
        lines = now.splitlines()
        chooser = random.Random(seed)
        at = chooser.choice([k for k, line in enumerate(lines) if line.strip().startswith("v = ") and k > 1])
        removed = [*lines[:at], lines[at].replace("v = ", "pass; " if chooser.random() < 0.5 else "v = 1 + "), *lines[at + 1 :]]
        assert not isinstance(added(text, "\n".join(removed) + "\n"), Added), (seed, at)


def test_a_placed_statement_is_what_was_added_and_all_else_stays() -> None:
    placed, refused = 0, 0
    texts = [Writer(seed).program() for seed in range(6)]
    texts += [path.read_text("utf-8") for path in _library() if path.name in ("shlex.py", "queue.py", "contextlib.py")]
    for number, text in enumerate(texts):
        chooser = random.Random(number)
        lines = text.split("\n")
        for line in chooser.sample(range(1, len(lines)), 8):
            try:
                found = place(text, line, "1", "new", before=chooser.random() < 0.4)
            except UsageError:
                refused += 1
                continue
            placed += 1
            now = found.text.split("\n")
            assert [now[found.shift(k) - 1] for k in range(1, len(lines) + 1)] == lines
            assert now[found.line - 1].strip() == found.statement
            result = added(text, found.text)
            assert isinstance(result, Added), (number, line, str(result))
            assert [(log.line, log.name, log.text) for log in result.logs] == [(found.line, "new", found.statement)]
    assert placed > refused > 0


def _library() -> list[Path]:
    every = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    return [path for path in every if "site-packages" not in path.parts and "lib2to3" not in path.parts and "bad" not in path.name]


def _rewrites(path: Path) -> None:
    data = path.read_bytes()
    try:
        plain = compile(data, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return  # a file that is wrong on purpose
    code = rewrite.compile_rewritten(data, str(path))
    assert code.co_filename == plain.co_filename
    tree = rewrite.rewrite(ast.parse(data))
    compile(tree, str(path), "exec", dont_inherit=True)


@pytest.mark.filterwarnings("ignore")
def test_files_of_the_standard_library_pass_through() -> None:
    for path in random.Random(4).sample(_library(), 25):
        _rewrites(path)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_all_files_of_the_standard_library_pass_through() -> None:
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 3000))
    for path in _library():
        _rewrites(path)
