"""A statement put into a file at a line that a person names: `rearview replay --at train.py:42 "norm(net)" --as grad_norm`.

The new statement gets a line of its own; every other line keeps its text, byte for byte. Knows statements and lines. Must not know
files or runs. Pure: text in, text out.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from rearview.errors import UsageError
from rearview.instrument.calls import MODULE, Calls, bodies, check, first_line, heads, last_line, parse, statements, within

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""Lines as Python counts them: a form feed or U+2028 ends none."""

_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class Placed:
    """A file with a statement more."""

    text: str
    line: int
    """The line of the new statement."""
    statement: str

    def shift(self, line: int) -> int:
        """Where a line of the file before is now."""
        return line if line < self.line else line + 1


def lines_of(text: str) -> list[str]:
    """The lines of a program, with their ends."""
    if "\r" in text:
        return _LINES.findall(text)
    *whole, last = text.split("\n")  # the same, in a third of the time
    lines = [line + "\n" for line in whole]
    return [*lines, last] if last else lines


def place(source: str, line: int, expression: str, name: str, before: bool = False, *, path: str = "the file") -> Placed:
    """Put `rv.log(name, expression)` after (or before) the statement that covers a line. UsageError says why it cannot be."""
    mark = "\ufeff" if source.startswith("\ufeff") else ""
    source = source.removeprefix(mark)
    try:
        tree = parse(source, path)
    except (SyntaxError, ValueError) as problem:
        raise UsageError(f"{path} cannot be read as Python: {_said(problem)}; correct it first") from problem
    lines = lines_of(source)
    if not 1 <= line <= len(lines):
        raise UsageError(f"there is no line {line} in {path}: it has {len(lines)}")
    value = _value(expression)
    group = _covering(tree, lines, line, path)
    if not before:
        _refuse_unreachable(group[-1], path)
    elif _is_text(group[0]):
        raise UsageError(f"line {line} of {path} is a docstring, which nothing may stand before: leave --before out")
    at = first_line(group[0]) if before else last_line(group[-1]) + 1
    first = lines[first_line(group[0]) - 1]
    indent = first[: len(first) - len(first.lstrip(" \t\f"))]
    statement = f"{_log(tree, group[0], at)}({_quoted(name)}, {value})"
    text = _insert(lines, at, indent + statement)
    try:
        check(text, path, source)
    except (SyntaxError, ValueError) as problem:
        raise UsageError(f"{statement} cannot stand {'before' if before else 'after'} line {line} of {path}: {_said(problem)}") from problem
    return Placed(mark + text, at, statement)


def _said(problem: Exception) -> str:
    return f"{problem.msg} (line {problem.lineno})" if isinstance(problem, SyntaxError) else str(problem)


def _value(expression: str) -> str:
    """The expression as it can stand in a call: the text itself where that means the same."""
    text = expression.strip()
    try:
        parsed = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as problem:
        raise UsageError(f"{expression!r} is not an expression: {_said(problem)}") from problem
    if any(isinstance(node, ast.Yield | ast.YieldFrom | ast.NamedExpr) for node in within(parsed)):
        raise UsageError(f"{expression!r} does more than give a value: it yields or assigns; use an expression that only reads")
    for candidate in (text, f"({text})"):
        try:
            call = ast.parse(f"f(0, {candidate})", mode="eval").body
        except SyntaxError:
            continue
        if isinstance(call, ast.Call) and len(lines_of(candidate)) == 1 and [ast.dump(one) for one in call.args[1:]] == [ast.dump(parsed)]:
            return candidate
    return ast.unparse(parsed)  # it has several lines, or a comment


def _quoted(name: str) -> str:
    return f'"{name}"' if re.fullmatch(r"[\w ./:-]*", name, re.ASCII) else ascii(name)


# -- which statement ---------------------------------------------------------------------------------------------------


def _covering(tree: ast.Module, lines: list[str], line: int, path: str) -> list[ast.stmt]:
    """The statements that cover a line and begin on lines of their own: one, or several with `;` between them."""
    best: list[ast.stmt] | None = None
    for group in _groups(tree, lines):
        if first_line(group[0]) <= line <= last_line(group[-1]):
            best = group  # inner ones come later
    text = lines[line - 1].strip(" \t\f\r\n")
    if best is None or ((not text or text.startswith("#")) and not _in_own_text(best, line)):
        what = "blank" if not text else "a comment" if text.startswith("#") else "no statement"
        near = _nearest(tree, line)
        hint = f"; the nearest statement is on line {near}" if near else ""
        raise UsageError(f"line {line} of {path} is {what}: name the line of a statement{hint}")
    return best


def _groups(tree: ast.Module, lines: list[str]) -> list[list[ast.stmt]]:
    """Every run of statements that share lines and before which only white space stands."""
    found = []
    for body in [body for one in [tree, *statements(tree.body)] for body in bodies(one)]:
        group: list[ast.stmt] = []
        for statement in body:
            if group and first_line(statement) <= last_line(group[-1]):
                group.append(statement)
                continue
            group = [statement]
            line, column = lines[first_line(statement) - 1].encode("utf-8"), _column(statement)
            if not line[:column].strip(b" \t\f") and not line[column:].startswith(b"elif"):  # which is a part of the `if` above it
                found.append(group)
    return found


def _column(statement: ast.stmt) -> int:
    return 0 if first_line(statement) != statement.lineno else statement.col_offset


def _in_own_text(group: list[ast.stmt], line: int) -> bool:
    """Whether a line is in the text of a simple statement or in the head of a compound one: inside brackets or a string."""
    for statement in group:
        if next(bodies(statement), None) is None:
            if first_line(statement) <= line <= last_line(statement):
                return True
        elif any(getattr(head, "lineno", line + 1) <= line <= getattr(head, "end_lineno", 0) for head in heads(statement)):
            return True
    return False


def _nearest(tree: ast.Module, line: int) -> int | None:
    begins = [first_line(one) for one in statements(tree.body)]
    return min(begins, key=lambda begin: (abs(begin - line), begin), default=None)


def _refuse_unreachable(statement: ast.stmt, path: str) -> None:
    if _leaves(statement):
        word = type(statement).__name__.lower()
        what = f"`{word}`" if isinstance(statement, _LEAVING) else f"this `{word}`"
        raise UsageError(f"nothing runs after {what} on line {statement.lineno} of {path}: use --before to log before it")


def _leaves(statement: ast.stmt) -> bool:
    """Whether what follows a statement can never run."""
    if isinstance(statement, ast.If):
        return bool(statement.orelse) and _leaves(statement.body[-1]) and _leaves(statement.orelse[-1])
    return isinstance(statement, _LEAVING)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)


# -- the new line ------------------------------------------------------------------------------------------------------


def _log(tree: ast.Module, near: ast.stmt, at: int) -> str:
    """How `log` is written there: by the name the file has rearview under, if that surely holds there."""
    around = [one for one in statements(tree.body) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and _contains(one, near)]
    hidden = {name for function in around for name in _bound(function)}
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom) or not (around or last_line(statement) < at):
            continue
        found = Calls(ast.Module([statement], []))
        for name in found.modules - hidden:
            return f"{name}.log"
        for name, called in found.functions.items():
            if called == "log" and name not in hidden:
                return name
    return f'__import__("{MODULE}").log'


def _contains(function: ast.AST, statement: ast.stmt) -> bool:
    return function is not statement and any(one is statement for body in bodies(function) for one in statements(body))


def _bound(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that mean something of its own in a function."""
    bound = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
    return bound


def _insert(lines: list[str], at: int, new: str) -> str:
    """The text with a line more, which ends as its neighbours do."""
    endings = [line[len(line.rstrip("\r\n")) :] for line in lines]
    ending = endings[at - 2] if at >= 2 else endings[0]
    if at - 1 < len(lines):
        return "".join([*lines[: at - 1], new + (ending or "\n"), *lines[at - 1 :]])
    if ending:
        return "".join([*lines, new + ending])
    usual = next((one for one in endings if one), "\n")
    return "".join([*lines, usual, new])  # the last line has no end: neither has the new one


__all__ = ["Placed", "lines_of", "place"]
