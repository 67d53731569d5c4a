"""Today's statements in the source of another version: which they are, where they go there, or why they cannot.

Knows source as text and what was placed. Must not know runs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rearview.instrument.added import Added, Changed, added_in_project
from rearview.instrument.calls import calls_of, children, name_given, statements, tree_of
from rearview.instrument.modules import reachable
from rearview.instrument.place_at import lines_of
from rearview.propagate.place import Refused
from rearview.propagate.project import Spread, Statement, place_all


@dataclass(frozen=True, slots=True)
class Wanted:
    """Statements that stand next to each other in today's source, and what they log."""

    statement: Statement
    names: tuple[str | None, ...]
    """None: a name that is computed."""
    text: str


@dataclass(frozen=True, slots=True)
class Settled:
    """A version with the statements in it, told apart from what it was."""

    spread: Spread
    added: Added


def wanted(files: Mapping[str, str], names: Collection[str]) -> list[Wanted]:
    """The statements of some files that log one of some names. One whose name is computed may log any that nothing else logs."""
    every = [one for path in sorted(files) for one in _logging(path, files[path])]
    literal = {name for one in every for name in one.names if name is not None}
    open_names = [name for name in names if name not in literal]
    return [one for one in every if any(name in names if name is not None else open_names for name in one.names)]


def _logging(path: str, text: str) -> Iterator[Wanted]:
    if "log" not in text:
        return
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    calls = calls_of(text)
    lines = lines_of(text)
    for statement in statements(tree.body):
        logs = [node for node in _own(statement) if calls.called(node) == "log"]
        names = tuple(name_given(one) for one in logs if isinstance(one, ast.Call))
        if names:
            end = statement.end_lineno or statement.lineno
            shown = " ".join(line.strip() for line in lines[statement.lineno - 1 : end])
            yield Wanted(Statement(path, statement.lineno, end), names, shown)


def _own(statement: ast.stmt) -> list[ast.AST]:
    """What is in a statement and in no statement inside it."""
    found: list[ast.AST] = [statement]
    for node in found:
        found += [one for one in children(node) if not isinstance(one, ast.stmt)]
    return found


def joined(every: Iterable[Wanted], files: Mapping[str, str]) -> list[Statement]:
    """The same with those that follow each other directly taken as one: a block around them all travels with them."""
    found: list[Statement] = []
    for one in every:
        last = found[-1] if found else None
        if last is not None and last.file == one.statement.file and _between(files[last.file], last, one.statement):
            found[-1] = Statement(last.file, last.line, one.statement.end)
        else:
            found.append(one.statement)
    return found


def _between(text: str, one: Statement, other: Statement) -> bool:
    """Whether nothing but empty lines and comments is between two statements of one block."""
    lines = lines_of(text)
    between = [line.strip() for line in lines[one.end : other.line - 1]]
    return all(not line or line.startswith("#") for line in between) and _indent(lines[one.line - 1]) == _indent(lines[other.line - 1])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def settle(
    asked: list[Wanted], now: Mapping[str, str], then: Mapping[str, str], entry: str | None, after: tuple[str, int] | None = None
) -> Settled | Refused:
    """Place statements into the files of another version. `entry` is the file that its program begins with.

    `after` is a file and line behind whose statement they are to go: somebody said so.
    """
    among = reachable(then, entry) if entry is not None and entry in then else set(then)
    placed = place_all(joined(asked, now), now, then, among, after)
    if isinstance(placed, Refused):
        return placed
    found = added_in_project(then, {**then, **placed.files})
    if isinstance(found, Changed):
        return Refused(f"it cannot be told apart from what ran there: {found}")
    return Settled(placed, found)
