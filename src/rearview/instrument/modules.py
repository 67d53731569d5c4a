"""The files of a project as modules: which file an import means, and which files are reached from others.

A module is found by the end of its path, wherever the project's roots are: `import a.b` means every `.../a/b.py` and `.../a/b/__init__.py`
there is. Knows import statements and paths as text. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping

from rearview.instrument.calls import bodies, tree_of
from rearview.instrument.pieces import pieces_of

_INIT = "/__init__"


class Modules:
    """The Python files among some files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._ends: dict[str, list[str]] = {}
        for path in files:
            for name in self.names(path):
                self._ends.setdefault(name, []).append(path)
        self._imports: dict[str, list[str]] = {}

    def names(self, path: str) -> list[str]:
        """The dotted names that may mean a file: `pkg/a.py` is `a` and `pkg.a`."""
        if not path.endswith(".py"):
            return []
        parts = f"/{path[:-3]}".removesuffix(_INIT).split("/")[1:]
        return [".".join(parts[k:]) for k in range(len(parts)) if parts[k]]

    def meant(self, statement: ast.AST, path: str) -> Iterator[str]:
        """The files that an import statement in a file may load, those of the packages around them included."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield from self._all(alias.name)
        elif isinstance(statement, ast.ImportFrom):
            base = statement.module or ""
            if statement.level:
                package = path.split("/")[: -statement.level]
                base = ".".join([*package, *([base] if base else [])])
            yield from self._all(base)
            for alias in statement.names:
                yield from self._ends.get(f"{base}.{alias.name}" if base else alias.name, ())

    def _all(self, name: str) -> Iterator[str]:
        parts = name.split(".")
        for k in range(1, len(parts) + 1):
            yield from self._ends.get(".".join(parts[:k]), ())

    def imports(self, path: str) -> list[str]:
        """The files that a file imports, anywhere in it."""
        known = self._imports.get(path)
        if known is None:
            try:
                every = tuple(one for piece in pieces_of(self._files[path]) for one in piece.imports)
            except (SyntaxError, ValueError, RecursionError):
                every = ()
            known = self._imports[path] = [file for node in every for file in self.meant(node, path)]
        return known

    def reached(self, start: Iterable[str], among: Collection[str] | None = None) -> set[str]:
        """The files that some files import, and those import in turn; with `among`, only those of them, through those."""
        found: set[str] = set()
        pending = list(start)
        while pending:
            for path in self.imports(pending.pop()):
                if path not in found and (among is None or path in among):
                    found.add(path)
                    pending.append(path)
        return found


def reachable(files: Mapping[str, str], start: str) -> set[str]:
    """The Python files that a program which begins with one of them can load by its import statements, that one included."""
    return {start, *Modules(files).reached([start])} if start in files else set()


def only_definitions(text: str) -> tuple[int, str] | None:
    """The first line of a file that does more than import, define and name constants, and what it is; None if there is none."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError) as problem:
        return getattr(problem, "lineno", None) or 1, "it cannot be read as Python"
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        statement = pending.pop(0)
        if isinstance(statement, ast.If | ast.Try):
            pending[:0] = [one for body in bodies(statement) for one in body]
        elif not _defines(statement):
            return statement.lineno, f"`{ast.unparse(statement).splitlines()[0]}`"
    return None


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Pass):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return all(isinstance(one, ast.Name | ast.Tuple) for one in targets)
    return False
