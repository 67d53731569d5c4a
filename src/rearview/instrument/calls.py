"""How a file calls rearview: by which names it has the module, and its functions.

Knows import statements. Must not know what is done with the calls. Over a whole file: an import inside a function counts for all of it.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache

MODULE = "rearview"
_CUSTOMARY = frozenset({"rv", "rearview", "flor"})
"""A module of the project may pass rearview on under these names: `from common import rv`."""

_PUBLIC = frozenset({"arg", "background", "checkpoint", "checkpointing", "dataframe", "log", "loop", "resume", "run", "skip_block"})


def parse(text: str, path: str = "<unknown>") -> ast.Module:
    """The tree of a file's text. Looking at a program repeats none of its warnings. SyntaxError, ValueError, RecursionError as usual."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text.removeprefix("\ufeff"), path)


@lru_cache(maxsize=64)
def tree_of(text: str) -> ast.Module:
    """The same, known from before if it was looked at lately: a tree that nobody may change."""
    return parse(text)


def check(text: str, path: str, like: str | None = None) -> None:
    """SyntaxError or ValueError if a text cannot be compiled. `like` is what it was made from: cells of a notebook, which may wait for
    something outside of functions, are no program in one piece either, and then it is enough that it can be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, path, "exec", dont_inherit=True)
        except SyntaxError:
            if like is None or _compiles(like):
                raise
            ast.parse(text, path)


def _compiles(text: str) -> bool:
    try:
        compile(text, "<like>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


class Calls:
    """The names by which one file reaches rearview."""

    def __init__(self, tree: ast.AST) -> None:
        self.modules: set[str] = set()
        """Names of the module itself: `rv`."""
        self.functions: dict[str, str] = {}
        """Names of its functions -> what they are there: `{"l": "log"}`."""
        aliases = []
        bound: set[str] = set()
        read: set[str] = set()
        for node in nodes(tree):
            if isinstance(node, ast.Name):
                (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.alias):
                bound.add(node.asname or node.name)
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
            elif isinstance(node, ast.Assign):
                aliases.append(node)
        self.modules |= (read & _CUSTOMARY) - bound  # a cell of a notebook: another one imports it
        for assign in aliases:  # `log = rv.log`
            called = self._name_of(assign.value)
            if called is not None:
                self.functions.update((target.id, called) for target in assign.targets if isinstance(target, ast.Name))

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name == MODULE:
                self.modules.add(alias.asname or MODULE)
            elif alias.name.startswith(MODULE + ".") and alias.asname is None:
                self.modules.add(MODULE)

    def _import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name
            if node.module in (MODULE, MODULE + ".api") and node.level == 0:
                self.functions.update({one: one for one in _PUBLIC} if alias.name == "*" else {name: alias.name})
            elif alias.name in _CUSTOMARY:
                self.modules.add(name)

    def _name_of(self, node: ast.AST) -> str | None:
        """What of rearview an expression is, if it is something of it."""
        if isinstance(node, ast.Name):
            return self.functions.get(node.id)
        if isinstance(node, ast.Attribute):
            above = node.value
            if isinstance(above, ast.Name) and above.id in self.modules:
                return node.attr
            if isinstance(above, ast.Call) and _imports_it(above):
                return node.attr
        return None

    def called(self, node: ast.AST) -> str | None:
        """The function of rearview that a call calls: "log", "loop" ...; None for any other node."""
        return self._name_of(node.func) if isinstance(node, ast.Call) else None


@lru_cache(maxsize=64)
def calls_of(text: str) -> Calls:
    """How a file calls rearview, known from before if it was looked at lately."""
    return Calls(tree_of(text))


@lru_cache(maxsize=64)
def nodes_of(text: str) -> list[ast.AST]:
    """Every node of a file, in the order of `ast.walk`; nobody may change them."""
    return nodes(tree_of(text))


def _imports_it(call: ast.Call) -> bool:
    """`__import__("rearview")`, which is how a statement is placed in a file that does not import it."""
    named = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
    first = call.args[0] if call.args else None
    return named in ("__import__", "import_module") and isinstance(first, ast.Constant) and first.value == MODULE


def name_given(call: ast.Call) -> str | None:
    """The name that a log or loop is given, if it stands there as text; None if it is computed."""
    named = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "name"), None)
    return named.value if isinstance(named, ast.Constant) and isinstance(named.value, str) else None


DELAYED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""What has a scope of its own."""


def children(node: ast.AST) -> list[ast.AST]:
    """What is directly in a node, in the order of its fields: `ast.iter_child_nodes` as a list, in a third of the time."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [one for one in value if isinstance(one, ast.AST)]
    return found


def nodes(tree: ast.AST) -> list[ast.AST]:
    """A node and everything below it, in the order of `ast.walk`."""
    found = [tree]
    for node in found:
        found += children(node)
    return found


def within(node: ast.AST, stop: tuple[type[ast.AST], ...] = DELAYED) -> Iterator[ast.AST]:
    """A node and what is in it, in the order of the text, not going into nodes of some types."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        if one is node or not isinstance(one, stop):
            pending.extend(reversed(children(one)))


def bodies(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists directly in a statement, also those of handlers and cases."""
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value:
            if isinstance(value[0], ast.stmt):
                yield value
            elif isinstance(value[0], ast.ExceptHandler | ast.match_case):
                for part in value:
                    yield part.body


def heads(statement: ast.AST) -> Iterator[ast.AST]:
    """What of a statement is not in a body of it: targets, conditions, arguments, decorators."""
    for _, value in ast.iter_fields(statement):
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.ExceptHandler):
                yield from filter(None, [one.type])
            elif isinstance(one, ast.match_case):
                yield from filter(None, [one.pattern, one.guard])
            elif isinstance(one, ast.AST) and not isinstance(one, ast.stmt):
                yield one


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a body and those inside them, in the order of the text."""
    pending = list(body)[::-1]
    while pending:
        one = pending.pop()
        yield one
        pending.extend(reversed([inner for inside in bodies(one) for inner in inside]))


def first_line(statement: ast.stmt) -> int:
    """The line where a statement begins, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def last_line(statement: ast.stmt) -> int:
    """The line where a statement ends."""
    return statement.end_lineno or statement.lineno
