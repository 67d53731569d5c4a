"""What a program sets on things that are not its own: modules, classes and objects of libraries (`torch.backends.cudnn.benchmark = True`).

No stored state has that. What is set before the main loop is set again in every worker; of what is set later, a statement that reads it, or
uses the library, is not answered from a state. Knows source. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rearview.instrument.calls import MODULE, bodies, first_line, heads, nodes, statements, tree_of
from rearview.instrument.depth import Depth, depths
from rearview.instrument.modules import Modules

_KEPT = ("environ",)
"""What states do have: the environment."""
_SETTERS = ("setattr", "delattr")
_PREFIX = (Depth(), Depth(prefix=True))

Lines = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Store:
    """An attribute that is set on something of a library's."""

    file: str
    line: int
    attribute: str
    """`benchmark`; empty for one whose name is computed."""
    owner: str
    """By which name the program has the library; empty for what a call gave."""

    @property
    def words(self) -> frozenset[str]:
        """A statement with one of these words may read it."""
        return frozenset(filter(None, (self.attribute, self.owner)))


def stores(files: Mapping[str, str], entry: str | None, added: Sequence[tuple[str, Lines]] = ()) -> list[Store]:
    """Everything of that kind that may run after the main loop has begun; not what was `added` in hindsight."""
    modules = Modules(files)
    found = []
    for file, text in files.items():
        if not file.endswith(".py"):
            continue
        try:
            tree = tree_of(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        theirs = imported(tree, file, modules)
        mine = [place for path, place in added if path == file]
        found += [one for one in _stores(tree, file, theirs) if not any(place[0] <= one.line <= place[2] for place in mine)]
    if not found:
        return []
    where = depths(files, [(one.file, one.line) for one in found], entry, added)
    return [one for one, depth in zip(found, where, strict=True) if depth not in _PREFIX]


def imported(tree: ast.Module, file: str, modules: Modules) -> set[str]:
    """Names that stand for what comes from libraries."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom) or next(modules.meant(node, file), None) is not None:
            continue
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").partition(".")[0] == MODULE):
            continue
        for alias in node.names:
            if alias.name.partition(".")[0] != MODULE:
                names.add(alias.asname or alias.name.partition(".")[0])
    return names


def _stores(tree: ast.Module, file: str, theirs: set[str]) -> Iterator[Store]:
    for statement in statements(tree.body):
        for part in heads(statement) if next(bodies(statement), None) is not None else [statement]:
            for node in nodes(part):
                if not isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
                    continue
                target, attribute = _target(node)
                if target is not None:
                    owner = _owner(target)
                    if (owner is None or owner in theirs) and attribute not in _KEPT:
                        yield Store(file, first_line(statement), attribute, owner or "")


def _target(node: ast.AST) -> tuple[ast.expr | None, str]:
    """On what an attribute is set, and which."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node.value, node.attr
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Attribute):
        return node.value.value, node.value.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SETTERS and len(node.args) > 1:
        named = node.args[1]
        return node.args[0], str(named.value) if isinstance(named, ast.Constant) else ""
    return None, ""


def _owner(target: ast.expr) -> str | None:
    """The name that an expression begins with; None if that is a call of something."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None
