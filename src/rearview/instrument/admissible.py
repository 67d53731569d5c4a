"""Which statements may be added to a recorded program without making it another one: logs, and what they need.

Imports, functions and classes of new names, assignments to new names, and `if`, `for`, `while`, `with`, `try`, `match` around nothing but
such things. What a call inside them does is not known here: the proof finds a statement that changes the run. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rearview.instrument.calls import Calls, bodies, heads, nodes
from rearview.instrument.scopes import bound_by, of_own, root, used

_MODES = ("eval", "train")
_STRUCTURE = frozenset({"checkpointing", "run", "resume", "skip_block"})
_AROUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_OTHER = {
    ast.Return: "ends a function of the recorded program", ast.Raise: "ends the recorded program", ast.Assert: "can end it",
    ast.Break: "ends a loop of the recorded program", ast.Continue: "cuts a loop of the recorded program short",
    ast.Global: "changes what a name of the recorded program means", ast.Nonlocal: "changes what a name of the recorded program means",
}  # fmt: skip


class Admissible:
    """What may be added to one recorded file. `helpers`: modules of the project that are new too, whose functions may be called."""

    def __init__(
        self, earlier: ast.Module, later: ast.Module, calls: Calls, helpers: frozenset[str] = frozenset(),
        taken: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self._earlier = earlier
        self._taken = taken
        self._calls = calls
        self._used: dict[int, set[str]] = {}
        self._imported: dict[int, set[str]] = {}
        self._later, self._helpers = later, helpers
        self._fresh: set[str] | None = None

    @property
    def _new(self) -> set[str]:
        """Names that only the current file binds."""
        if self._fresh is None:
            self._fresh = _names(self._later) - _names(self._earlier)
            self._fresh -= {name for node in nodes(self._later) for name in _imported_from_elsewhere(node, self._helpers)}
        return self._fresh

    def refuses(self, statement: ast.stmt, scope: ast.AST, *, in_loop: bool = False) -> tuple[int, str] | None:
        """Why a statement may not be added to a scope of the recorded program, and in which line that is; None if it may."""
        handlers = getattr(statement, "handlers", [])
        for node in [*heads(statement), *map(_name_of, handlers)] if isinstance(statement, _AROUND) else [statement]:
            why = self._expressions(node, scope)
            if why:
                return getattr(node, "lineno", statement.lineno), why
        why = self._kind(statement, scope, in_loop)
        if why:
            return statement.lineno, why
        if isinstance(statement, _AROUND):
            inside = in_loop or isinstance(statement, _LOOPS)
            for body in bodies(statement):
                for one in body:
                    refused = self.refuses(one, scope, in_loop=inside)
                    if refused:
                        return refused
        return None

    def admits(self, statement: ast.stmt, scope: ast.AST) -> bool:
        """Whether a statement may be added."""
        return self.refuses(statement, scope) is None

    def new_in(self, name: str, scope: ast.AST) -> bool:
        """Whether a name means nothing in a scope of the recorded program."""
        return name not in self._means(scope)

    def _means(self, scope: ast.AST) -> set[str]:
        names = self._used.get(id(scope))
        if names is None:
            names = self._used[id(scope)] = used(scope) | (self._taken if isinstance(scope, ast.Module) else set())
        return names

    # -- names -----------------------------------------------------------------------------------------------------------

    def _expressions(self, node: ast.AST, scope: ast.AST) -> str | None:
        """What an expression, or a whole statement, binds or makes of the recorded program."""
        taken = self._means(scope)
        for one in of_own([node]):
            for name in bound_by(one):
                if name in taken and not (isinstance(one, ast.alias) and self._same_import(one, node, scope)):
                    return f"it binds `{name}`, which the recorded program uses: choose another name"
            if isinstance(one, ast.Yield | ast.YieldFrom):
                return "it yields: the recorded function would be another one"
            if isinstance(one, ast.Attribute | ast.Subscript) and not isinstance(one.ctx, ast.Load):
                base = root(one)
                if base is None or base in taken:
                    return f"it changes `{ast.unparse(one)}`, which may be the recorded program's: put the value into a new variable"
            if self._calls.called(one) in _STRUCTURE:
                return f"it adds rv.{self._calls.called(one)}, which changes how the program is recorded"
        return None

    def _same_import(self, alias: ast.alias, statement: ast.AST, scope: ast.AST) -> bool:
        """Whether the very same import stands in that scope of the recorded file: it binds nothing else."""
        known = self._imported.get(id(scope))
        if known is None:
            known = self._imported[id(scope)] = {ast.dump(one) for node in of_own(scope) for one in _imports(node)}
        return any(one.names[0] is alias and ast.dump(one) in known for one in _imports(statement))

    # -- kinds of statement ------------------------------------------------------------------------------------------------

    def _kind(self, statement: ast.stmt, scope: ast.AST, in_loop: bool) -> str | None:
        if in_loop and isinstance(statement, ast.Break | ast.Continue):
            return None
        for kind, why in _OTHER.items():
            if isinstance(statement, kind):
                return f"it {why}"
        if isinstance(statement, ast.Import | ast.ImportFrom):
            special = isinstance(statement, ast.ImportFrom) and (statement.module == "__future__" or statement.names[0].name == "*")
            return "it changes what names of the recorded program mean" if special else None
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return self._definition(statement, scope)
        if isinstance(statement, ast.Expr):
            fits = self._is_log(statement.value) or switches_mode(statement)
            return None if fits else "it does something else than log, and may change the run: put what it gives into a log"
        return None

    def _definition(self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: ast.AST) -> str | None:
        if isinstance(scope, ast.ClassDef) and statement.name.startswith("__") and statement.name.endswith("__"):
            return f"it gives the recorded class {scope.name} a method that Python calls by itself"
        for node in ast.walk(statement):
            if isinstance(node, ast.Global | ast.Nonlocal):
                shared = [name for name in node.names if name in self._means(scope) or name in self._means(self._earlier)]
                if shared:
                    return f"it can change `{shared[0]}` of the recorded program"
        return None

    def _is_log(self, value: ast.expr) -> bool:
        """Whether an expression that stands alone logs, prints, or calls what was added with it."""
        if isinstance(value, ast.Call):
            printing = isinstance(value.func, ast.Name) and value.func.id == "print"
            return self._calls.called(value) == "log" or printing or root(value) in self._new
        if isinstance(value, ast.ListComp | ast.SetComp):
            return self._is_log(value.elt)
        if isinstance(value, ast.IfExp):
            return all(self._is_log(one) or isinstance(one, ast.Constant) for one in (value.body, value.orelse))
        if isinstance(value, ast.BoolOp):
            return self._is_log(value.values[-1])
        if isinstance(value, ast.Tuple | ast.List):
            return all(self._is_log(one) for one in value.elts)
        return isinstance(value, ast.Await) and self._is_log(value.value)


def _name_of(handler: ast.ExceptHandler) -> ast.AST:
    """What `except ... as name` binds."""
    return ast.copy_location(ast.Name(handler.name, ast.Store()) if handler.name else ast.Constant(None), handler)


def _imports(statement: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The same import, one for each name."""
    if isinstance(statement, ast.Import):
        for one in statement.names:
            yield ast.Import([one])
    elif isinstance(statement, ast.ImportFrom):
        for one in statement.names:
            yield ast.ImportFrom(statement.module, [one], statement.level)


def switches_mode(statement: ast.stmt) -> bool:
    """`net.eval()` before a log and `net.train()` behind it: whether it was put back shows in the state."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MODES and not value.args[1:]


def _names(tree: ast.AST) -> set[str]:
    return {name for node in nodes(tree) for name in bound_by(node)}


def _imported_from_elsewhere(node: ast.AST, helpers: frozenset[str]) -> Iterator[str]:
    """Names that an import binds to something that is not new in the project."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.rpartition(".")[2] not in helpers:
                yield from bound_by(alias)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if (node.module or "").rpartition(".")[2] not in helpers and alias.name not in helpers:
                yield from bound_by(alias)
