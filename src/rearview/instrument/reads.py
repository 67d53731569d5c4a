"""What a probe reads: variables, attributes, and the globals of the project functions that it calls.

Used to find a probe that reads something which a checkpoint does not hold. Names of functions, classes and modules are not state and are
left out. Knows source. Must not know checkpoints. Pure.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rearview.instrument.calls import DELAYED, first_line, last_line, statements
from rearview.instrument.program import Part, Program
from rearview.instrument.scopes import bound, bound_by, free, of_own, read_first

_SEES_ALL = frozenset({"eval", "exec", "locals", "globals"})


@dataclass(frozen=True, slots=True)
class Reads:
    """What some statements read."""

    names: frozenset[str] = frozenset()
    """Variables of the function they are in, and globals of its file."""
    attributes: frozenset[str] = frozenset()
    """What of them, as far as it is written there: `self.model`, `opt.param_groups`."""
    elsewhere: frozenset[tuple[str, str]] = frozenset()
    """(file, name): globals that project functions read which they call, directly or not."""
    unknown: bool = False
    """They may read anything: they evaluate text, or look at all variables."""
    words: frozenset[str] = frozenset()
    """Every name, attribute and text in them, and in the project functions that they call, directly or not."""


def reads(files: Mapping[str, str], file: str, lines: tuple[int, int], program: Program | None = None) -> Reads:
    """What the statements on some lines of a file read, from the first line to the last."""
    program = program or Program(files)
    if file not in program.files:
        return Reads(unknown=True)
    chosen = _outermost(program.files[file].tree, lines)
    caller = _function_of(program, file, chosen[0]) if chosen else program.bodies[file]
    constant = _definitions(program.files[file].tree)
    own = read_first(chosen) | _read_by_definitions(chosen)
    own -= set(dir(builtins)) - _bound_around(program, file, caller)
    names = own - constant
    elsewhere, unknown, called = _of_called(program, chosen, caller)
    words = frozenset(word for one in [*chosen, *called] for word in _words(one))
    return Reads(frozenset(names), frozenset(_attributes(chosen, names)), frozenset(elsewhere), unknown, words)


def _words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _outermost(tree: ast.Module, lines: tuple[int, int]) -> list[ast.stmt]:
    """The statements that lie between two lines and are in no other one that does."""
    found: list[ast.stmt] = []
    for one in statements(tree.body):
        within = lines[0] <= first_line(one) and last_line(one) <= lines[1]
        if within and not any(one is inner for outer in found for inner in statements([outer])):
            found.append(one)
    if not found:  # a line inside a statement of several
        found = [one for one in statements(tree.body) if first_line(one) <= lines[0] <= last_line(one)][-1:]
    return found


def _function_of(program: Program, file: str, statement: ast.stmt) -> Part:
    around = [part for part in program.parts if part.file == file and any(one is statement for one in statements(part.node.body))]
    return max(around, key=lambda part: getattr(part.node, "lineno", 0), default=program.bodies[file])


def _bound_around(program: Program, file: str, part: Part) -> set[str]:
    return bound(program.files[file].tree) | (bound(part.node) if not isinstance(part.node, ast.Module) else set())


def _definitions(tree: ast.Module) -> set[str]:
    """Names that a file binds at module level, and only to functions, classes and modules."""
    made: set[str] = set()
    others: set[str] = set()
    for node in of_own(tree):
        names = set(bound_by(node))
        (made if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.alias) else others).update(names)
    return made - others


def _read_by_definitions(chosen: list[ast.stmt]) -> set[str]:
    return {name for one in chosen if isinstance(one, DELAYED) for name in free(one)}


def _attributes(chosen: list[ast.stmt], names: set[str]) -> set[str]:
    found: set[str] = set()
    inner: set[int] = set()
    for statement in chosen:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                inner.add(id(node.value))
                text = _dotted(node)
                if text and text.partition(".")[0] in names and id(node) not in inner:
                    found.add(text)
    return found


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    above = _dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{above}.{node.attr}" if above and isinstance(node, ast.Attribute) else None


def _of_called(program: Program, chosen: list[ast.stmt], caller: Part) -> tuple[set[tuple[str, str]], bool, list[ast.AST]]:
    """The globals that called functions read, whether something may read anything, and these functions."""
    elsewhere: set[tuple[str, str]] = set()
    unknown = False
    seen: set[int] = set()
    called: list[ast.AST] = []
    pending: list[tuple[ast.AST, Part]] = [(one, caller) for one in chosen]
    while pending:
        node, inside = pending.pop()
        for call in (one for one in ast.walk(node) if isinstance(one, ast.Call)):
            unknown |= isinstance(call.func, ast.Name) and call.func.id in _SEES_ALL
            for part in program.called(call, inside):
                if id(part.node) not in seen:
                    seen.add(id(part.node))
                    called.append(part.node)
                    pending.append((part.node, part))
                    tree = program.files[part.file].tree
                    globals_read = free(part.node) & (bound(tree) - _definitions(tree))
                    elsewhere |= {(part.file, name) for name in globals_read}
                    unknown |= part.inner and bool(free(part.node) - bound(tree) - set(dir(builtins)))
    return elsewhere, unknown, called
