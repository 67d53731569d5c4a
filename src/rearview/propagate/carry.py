"""Definitions that one version of a file has and another lacks, appended to the other with what they need.

For helper functions that stand in another module than the statement that calls them. What the old file binds is its own: a function of
that name is never replaced. Knows definitions of a module. Must not know where a statement goes. Pure: text in, text out.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection, Iterator

from rearview.instrument.calls import check
from rearview.instrument.scopes import bound_by, read
from rearview.propagate.names import Scopes
from rearview.propagate.needs import binds, constant, fills
from rearview.propagate.place import Placed, Refused, both
from rearview.propagate.splice import Insertion, splice, whole
from rearview.propagate.tree import File, Node

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_TYPE_ALIAS: tuple[type[ast.AST], ...] = (ast.TypeAlias,) if sys.version_info >= (3, 12) else ()  # type: ignore[attr-defined]
_MAKERS = frozenset({
    "re.compile", "logging.getLogger", "collections.namedtuple", "namedtuple", "Path", "pathlib.Path", "TypeVar", "typing.TypeVar",
    "frozenset", "set", "tuple", "list", "dict", "range", "len", "int", "float", "str", "bool", "min", "max", "sum", "object",
})  # fmt: skip
"""Called for a constant, these do nothing but make a value."""


def carry(new: str, names: Collection[str], old: str) -> Placed | Refused:
    """Append to the old file the definitions of some names of the new one, with what those need, where it does not bind them.

    >>> found = carry("import math\\n\\ndef size(x):\\n    return math.sqrt(x)\\n", ["size"], "a = 1\\n")
    >>> print(found.text, end="")
    a = 1
    import math
    <BLANKLINE>
    <BLANKLINE>
    def size(x):
        return math.sqrt(x)
    """
    files = both(new, old)
    if isinstance(files, Refused):
        return files
    try:
        return _Carrying(*files).result(names)
    except RecursionError:
        return Refused("its statements are nested too deeply to be compared")


class _Cannot(Exception):
    """Why a name cannot travel."""


class _Carrying:
    def __init__(self, new: File, old: File) -> None:
        self._new, self._old = new, old
        self._bound = Scopes(new).bound(new.module)
        self._there = Scopes(old).bound(old.module)
        self._names: set[str] = set()

    def result(self, names: Collection[str]) -> Placed | Refused:
        old = self._old.mark + self._old.text
        try:
            statements = self._statements(names)
        except _Cannot as problem:
            return Refused(str(problem))
        if not statements:
            return Placed(old, (), True, "all of it is there already")
        lines: list[str] = []
        for one in statements:
            apart = isinstance(one.syntax, _DEFINITIONS) or (bool(lines) and lines[-1].startswith((" ", "\t")))
            lines += [*(["", ""] if apart else []), *whole(one, self._names)]
        at = len(self._old.lines) + 1
        text, ranges, _ = splice(self._old, [Insertion(at, tuple(lines))])
        try:
            check(text.removeprefix(self._old.mark), "<carried>", self._old.text)
        except (SyntaxError, ValueError) as problem:
            return Refused(f"the version would not be a program any more: {getattr(problem, 'msg', problem)}")
        told = tuple(whole(one, self._names)[0] for one in statements)
        return Placed(text, (at, at + len(lines) - 1), True, "this version lacks it", {}, told, tuple(ranges), old)

    def _statements(self, names: Collection[str]) -> list[Node]:
        """What travels, imports first, else in the order of the new file."""
        for name in names:
            if name not in self._there and name not in self._bound:
                raise _Cannot(f"the new version has no `{name}` at its module level")
        pending, seen = sorted(names, reverse=True), set(names)
        found: list[Node] = []
        while pending:
            name = pending.pop()
            if name in self._there or name not in self._bound:  # what no version binds is a builtin, or given from outside
                continue
            self._names.add(name)
            for one in self._binders(name):
                if one not in found:
                    found.append(one)
                    needed = read([one.syntax]) if not isinstance(one.syntax, _IMPORTS) else set()
                    pending += sorted(needed - seen, reverse=True)
                    seen |= needed
        return sorted(found, key=lambda one: (not isinstance(one.syntax, _IMPORTS), one.line))

    def _binders(self, name: str) -> list[Node]:
        """The statements of the module that give a name its value, if they do nothing else."""
        top = self._new.module.blocks["body"]
        found = [one for one in top if any(binds(inner, name) for inner in _here(one))]
        if not found or not all(_travels(one) for one in found):
            raise _Cannot(f"`{name}` is made by statements of the new version that do more than define it")
        if any(fills(inner, name) for one in top for inner in _here(one)):
            raise _Cannot(f"`{name}` is filled by statements of the new version that do not travel")
        imported = all(isinstance(one.syntax, _IMPORTS) for one in found)
        if not imported and self._old.imports_all:
            raise _Cannot(f"whether this version has `{name}` is not known: it may come from its `import *`")
        if hasattr(builtins, name) and name in self._old.names:
            raise _Cannot(f"this version uses the builtin `{name}`, which the new version has replaced")
        if any(_for_checkers(one) for one in found) and not _postponed(self._old):
            raise _Cannot(f"`{name}` is there for type checkers only, and this version evaluates its annotations")
        also = {made for one in found for made in _made(one)} - {name}
        if not imported and also & self._there:
            raise _Cannot(f"`{name}` is made together with `{min(also & self._there)}`, which this version has of its own")
        return found


def _here(node: Node) -> Iterator[Node]:
    """A statement of the module and those in it that run there."""
    yield node
    if not isinstance(node.syntax, _DEFINITIONS):
        for block in node.blocks.values():
            for one in block:
                yield from _here(one)


def _made(node: Node) -> set[str]:
    """The names of the module that a statement binds."""
    if isinstance(node.syntax, _DEFINITIONS):
        return {node.syntax.name}
    parts = [node.syntax] if not node.blocks else []
    own = {name for part in parts for one in ast.walk(part) for name in bound_by(one)}
    return own.union(*(_made(one) for block in node.blocks.values() for one in block))


def _travels(node: Node) -> bool:
    """Whether a statement does nothing but define: an import, a function, a class, a constant, or a choice between such."""
    statement = node.syntax
    if isinstance(statement, (*_DEFINITIONS, *_IMPORTS, *_TYPE_ALIAS)) or node.nothing:
        return not (isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*")
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        named = all(isinstance(one, ast.Name | ast.Tuple) for one in _targets(statement))
        return named and (constant(statement) or _makes(statement.value))
    if isinstance(statement, ast.If | ast.Try | ast.ExceptHandler):
        return all(_travels(one) for block in node.blocks.values() for one in block)
    return False


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _makes(value: ast.expr | None) -> bool:
    """Whether an expression makes a value and does nothing else, calls included."""
    if value is None or isinstance(value, ast.Lambda):
        return value is not None
    calls = [one for one in ast.walk(value) if isinstance(one, ast.Call)]
    other = any(isinstance(one, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr) for one in ast.walk(value))
    return not other and all(ast.unparse(one.func) in _MAKERS for one in calls)


def _for_checkers(node: Node) -> bool:
    test = node.syntax.test if isinstance(node.syntax, ast.If) else None
    return test is not None and ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"


def _postponed(file: File) -> bool:
    """Whether annotations of a file are not evaluated."""
    futures = [one for one in file.tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    return any(name.name == "annotations" for one in futures for name in one.names)
