"""The loops of the record in a project: which `for` statement drives which, and whether all of them can be followed.

Knows the calls of rearview in the text. Must not know in which order things run. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from rearview.instrument.calls import Calls, bodies, statements, within
from rearview.instrument.driving import driven_loops, scopes
from rearview.instrument.program import Part, Program

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Structure:
    """The loops and the checkpointing in all files of a program."""

    def __init__(self, program: Program, added: Iterable[tuple[str, tuple[int, int, int, int]]] = ()) -> None:
        """`added`: where statements were added. Loops in them are none of the record's."""
        self._program = program
        self._added = list(added)
        self.strange: str | None = None
        """Why the loops cannot be followed."""
        self.drivers: dict[int, list[ast.Call]] = {}
        """By the identity of a `for` statement: the loops that it drives."""
        self._driving_parts: set[int] = set()
        for path in program.files:
            self._find_drivers(path)

    def drives(self, part: Part) -> bool:
        """Whether a function has a loop of the record, or the checkpointing, in its own text."""
        return id(part.node) in self._driving_parts

    def _find_drivers(self, path: str) -> None:
        file = self._program.files[path]

        def is_loop(call: ast.Call) -> bool:
            return self.is_loop(call, path)

        driven: set[int] = set()
        calls = [node for node in file.nodes if self._structure(node, path)]
        lines = [node.lineno for node in calls if isinstance(node, ast.Call)]
        for scope in scopes(file.tree):
            if not any(one.lineno <= line <= (one.end_lineno or one.lineno) for one in scope for line in lines):
                continue  # most functions have nothing to do with it
            for one in driven_loops(scope, is_loop):
                self.drivers.setdefault(id(one.statement), []).append(one.call)
                driven.add(id(one.call))
                if one.held and _can_be_cut_short(one.statement, scope):
                    self.strange = f"{path}:{one.call.lineno}: a variable holds this loop, so it stays open when it is left early"
            for statement in scope:
                entered = statement.items if isinstance(statement, ast.With | ast.AsyncWith) else []
                driven.update(id(item.context_expr) for item in entered if file.calls.called(item.context_expr) == "checkpointing")
        for node in file.nodes:
            if isinstance(node, _COMPREHENSIONS):
                driven.add(id(node.generators[0].iter))
            if isinstance(node, ast.Call) and id(node) not in driven and self._structure(node, path):
                self.strange = f"{path}:{node.lineno} uses rv.{_named(node, file.calls)} in a way that cannot be followed"
        for part in [*self._program.parts]:
            first, last = (part.node.lineno, part.node.end_lineno or 0) if not isinstance(part.node, ast.Module) else (0, 1 << 60)
            near = part.file == path and any(first <= line <= last for line in lines)
            if near and any(self._structure(node, path) for node in within(part.node)):
                self._driving_parts.add(id(part.node))

    def is_loop(self, node: ast.AST, path: str) -> bool:
        """Whether a call makes a loop of the record."""
        return self._program.files[path].calls.called(node) == "loop" and self._structure(node, path)

    def _structure(self, node: ast.AST, path: str) -> bool:
        """Whether something is a loop or the checkpointing of the record, or looks like it."""
        if not isinstance(node, ast.Call) or _named(node, self._program.files[path].calls) not in ("loop", "checkpointing"):
            return False
        begin, end = (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)
        return not any(path == file and place[:2] <= begin and end <= place[2:] for file, place in self._added)


def _can_be_cut_short(loop: ast.For, scope: list[ast.stmt]) -> bool:
    """Whether a `for` statement may be left before its end with its function going on."""
    pending = list(loop.body)
    while pending:
        one = pending.pop()
        if isinstance(one, ast.Break):
            return True
        if not isinstance(one, ast.For | ast.AsyncFor | ast.While | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending.extend(inner for body in bodies(one) for inner in body)
    caught = [one for one in scope if isinstance(one, ast.Try | ast.TryStar)]
    return any(inner is loop for one in caught for inner in statements(one.body))


def _named(node: ast.AST, calls: Calls) -> str | None:
    """The call of rearview that this is, or looks like."""
    if not isinstance(node, ast.Call):
        return None
    return calls.called(node) or (node.func.attr if isinstance(node.func, ast.Attribute) else None)
