"""Statements of one version of a project placed into another version of it: into which file, and with which helpers of other modules.

A helper that the old version has is the old version's; one that it lacks travels. Pure: texts in, texts out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from rearview.instrument.calls import nodes_of, statements, tree_of
from rearview.instrument.modules import Modules
from rearview.instrument.pieces import begins, pieces_of
from rearview.instrument.place_at import lines_of
from rearview.instrument.scopes import bound_by, of_own
from rearview.propagate.carry import carry
from rearview.propagate.exchanged import exchanged
from rearview.propagate.names import has_attribute
from rearview.propagate.place import Placed, Refused, propagate

_MOST_FILES = 40
"""So many other files are tried where the statement's own has no place for it."""
_DEFINES = ("def ", "class ", "async def ", "@")


@dataclass(frozen=True, slots=True)
class Statement:
    """Where a statement stands in the new version."""

    file: str
    line: int
    end: int


@dataclass(frozen=True, slots=True)
class Site:
    """Where it went in the old version."""

    file: str
    lines: tuple[int, ...]
    """First and last; empty if it was there already."""
    before: str
    """The line before it, and the one behind it, as they stand there."""
    after: str
    certain: bool
    why: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    """What travelled with it, a line of text each."""
    helpers: tuple[str, ...] = ()
    """Of that, the functions and classes: they are the new version's code, not the old one's."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The old version with the statements in it."""

    files: Mapping[str, str]
    """Those that got something, or are new."""
    sites: tuple[Site, ...]

    @property
    def certain(self) -> bool:
        """Whether every one of them is."""
        return all(site.certain for site in self.sites)


def place_all(
    wanted: Sequence[Statement], new: Mapping[str, str], old: Mapping[str, str], among: Collection[str],
    after: tuple[str, int] | None = None,
) -> Spread | Refused:  # fmt: skip
    """Place statements of a new version into an old one. `among` are the files of the old one that its program can load.

    `after` is a file and line of the old version behind whose statement they are to go: somebody said so.
    """
    try:
        return _Placing(new, dict(old), among, after).all_of(wanted)
    except _Cannot as problem:
        return problem.refused


class _Cannot(Exception):
    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.why)
        self.refused = refused


class _Placing:
    def __init__(self, new: Mapping[str, str], old: dict[str, str], among: Collection[str], after: tuple[str, int] | None) -> None:
        self._new, self._old, self._among, self._after = new, old, among, after
        self._modules = Modules(new)
        self._files = dict(old)
        """As they are by now."""
        self._carried: list[str] = []

    def all_of(self, wanted: Sequence[Statement]) -> Spread:
        sites: list[Site] = []
        for statement in wanted:
            file, placed = self._one(statement)
            sites = [_shifted(site, placed) if site.file == file else site for site in sites]
            self._files[file] = placed.text
            self._carried = []
            inserted = _inserted(placed)
            self._bring(file, inserted)
            self._refuse_lost(file, placed, inserted)
            placed = self._doubted(placed, inserted) if self._after is None else placed
            sites.append(_site(file, placed, self._carried))
        changed = {path: text for path, text in self._files.items() if self._old.get(path) != text}
        return Spread(changed, tuple(sites))

    # -- which file ---------------------------------------------------------------------------------------------------------

    def _one(self, statement: Statement) -> tuple[str, Placed]:
        if self._after is not None:
            return self._by_hand(statement, *self._after)
        refused = Refused(f"this version has no {statement.file}")
        if statement.file in self._files:
            found = self._into(statement, statement.file)
            if isinstance(found, Placed):
                return statement.file, found
            refused = found
        others = [(path, one) for path in self._others(statement) if isinstance(one := self._into(statement, path), Placed)]
        sure = [(path, one) for path, one in others if one.certain] or others
        if len(sure) == 1:
            path, one = sure[0]
            return path, one
        if sure:
            raise _Cannot(Refused(f"it could stand in {' or '.join(path for path, _ in sure[:4])}, and which is meant is not known"))
        raise _Cannot(refused)

    def _by_hand(self, statement: Statement, file: str, line: int) -> tuple[str, Placed]:
        if file not in self._files:
            raise _Cannot(Refused(f"this version has no {file}"))
        found = propagate(self._new[statement.file], statement.line, statement.end, self._files[file], line)
        if isinstance(found, Refused):
            raise _Cannot(found)
        self._after = file, found.lines[-1] if found.lines else line  # the next one goes behind it
        return file, found

    def _into(self, statement: Statement, path: str) -> Placed | Refused:
        return propagate(self._new[statement.file], statement.line, statement.end, self._files[path], many=True)

    def _others(self, statement: Statement) -> list[str]:
        """Files that the statement's function may stand in: those with one of its name; for one outside functions, those that call us."""
        name = _function_around(self._new[statement.file], statement.line)
        word = re.compile(rf"def {re.escape(name)}\b" if name else r"\b(rearview|flor)\b")
        paths = [path for path in sorted(self._among) if path != statement.file and path in self._old and word.search(self._old[path])]
        return paths[:_MOST_FILES]

    # -- helpers of other modules ---------------------------------------------------------------------------------------------

    def _bring(self, file: str, inserted: list[ast.stmt]) -> None:
        """Bring what the new text of a file takes from other modules of the project, and these from others in turn."""
        pending = [(file, node) for node in inserted]
        while pending:
            path, node = pending.pop()
            for module, name in self._taken(path, node):
                pending += [(module, one) for one in self._need(module, name)]

    def _taken(self, path: str, node: ast.AST) -> Iterator[tuple[str, str | None]]:
        """What a piece of program reads of modules of the new version: (file, name); without a name, the module itself."""
        imported = _imports(self._files[path])
        home = path if path in self._new else next(iter(self._new), path)
        for one in ast.walk(node):
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id in imported:
                statement, alias = imported[one.value.id]
                if isinstance(statement, ast.Import) or self._is_module(statement, alias, home):
                    yield from ((file, one.attr) for file in self._last(statement, alias, home))
            elif isinstance(one, ast.Name) and one.id in imported:
                statement, alias = imported[one.id]
                whole = isinstance(statement, ast.Import) or self._is_module(statement, alias, home)
                yield from ((file, None if whole else alias.name) for file in self._last(statement, alias, home))

    def _last(self, statement: ast.Import | ast.ImportFrom, alias: ast.alias, home: str) -> list[str]:
        """The file that an import takes a name from."""
        only = _alone(statement, alias)
        return list(self._modules.meant(only, home))[-1:]

    def _is_module(self, statement: ast.Import | ast.ImportFrom, alias: ast.alias, home: str) -> bool:
        without = ast.ImportFrom(statement.module, [], statement.level) if isinstance(statement, ast.ImportFrom) else statement
        return len(list(self._modules.meant(_alone(statement, alias), home))) > len(list(self._modules.meant(without, home)))

    def _need(self, module: str, name: str | None) -> list[ast.stmt]:
        """Make a module have a name. What was added to it."""
        there = self._files.get(module)
        if there is None:
            self._files[module] = self._new[module]
            for package in _packages(module):
                if package in self._new:
                    self._files.setdefault(package, self._new[package])
            self._carried.append(module)
            return tree_of(self._new[module]).body
        if name is None or name in _bound(there) or name not in _bound(self._new[module]):
            return []
        found = carry(self._new[module], [name], there)
        if isinstance(found, Refused):
            raise _Cannot(Refused(f"it needs `{name}` of {module}, which this version has not: {found.why}"))
        self._files[module] = found.text
        self._carried.append(f"def {name} (of {module})")
        return _inserted(found)

    def _doubted(self, placed: Placed, inserted: list[ast.stmt]) -> Placed:
        """With what is doubtful about helpers, of whichever module: one that takes other arguments there."""
        every = exchanged(inserted, self._new.values(), self._old.values(), {})
        doubts = [one for one in every if one not in placed.why]
        return replace(placed, certain=False, why="; ".join([*([] if placed.certain else [placed.why]), *doubts])) if doubts else placed

    # -- attributes -------------------------------------------------------------------------------------------------------------

    def _refuse_lost(self, file: str, placed: Placed, inserted: list[ast.stmt]) -> None:
        """Refuse an attribute or method that is the new project's own and that the old one nowhere mentions."""
        read = {one.attr for node in inserted for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        if not read:
            return
        own = frozenset().union(*map(_members, self._new.values()))
        before = "\n".join(self._files[path] if path != file else self._old.get(path, "") for path in self._files)
        for name in sorted(read & own):
            if not has_attribute(before, name):
                raise _Cannot(Refused(f"this version has no `{name}`", placed.lines[:1]))


def _function_around(text: str, line: int) -> str:
    """The innermost function around a line."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    around = [
        one for one in statements(tree.body)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.lineno <= line <= (one.end_lineno or one.lineno)
    ]  # fmt: skip
    return around[-1].name if around else ""


def _packages(module: str) -> list[str]:
    """The files of the packages around a module: `a/b/c.py` has `a/__init__.py` and `a/b/__init__.py`."""
    folders = module.split("/")[:-1]
    return ["/".join([*folders[: k + 1], "__init__.py"]) for k in range(len(folders))]


def _alone(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.Import | ast.ImportFrom:
    return ast.Import([alias]) if isinstance(statement, ast.Import) else ast.ImportFrom(statement.module, [alias], statement.level)


def _imports(text: str) -> dict[str, tuple[ast.Import | ast.ImportFrom, ast.alias]]:
    """The names that a file imports, anywhere in it."""
    found: dict[str, tuple[ast.Import | ast.ImportFrom, ast.alias]] = {}
    importing = "".join(piece.text for piece in pieces_of(text) if piece.imports)
    for node in nodes_of(importing):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                for name in bound_by(alias):
                    found[name] = node, alias
    return found


def _bound(text: str) -> set[str]:
    """What a module binds."""
    try:
        return {name for node in of_own(tree_of(text)) for name in bound_by(node)}
    except (SyntaxError, ValueError, RecursionError):
        return set()


@lru_cache(maxsize=64)
def _members(text: str) -> frozenset[str]:
    """Methods and attributes that a file gives its own classes and objects."""
    try:
        every = nodes_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    classes = [node for node in every if isinstance(node, ast.ClassDef)]
    found = {name for node in classes for one in of_own(node) for name in bound_by(one)}
    stores = [node for node in every if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return frozenset(found | {node.attr for node in stores if isinstance(node.value, ast.Name)})


def _inserted(placed: Placed) -> list[ast.stmt]:
    """The statements of a placed text that are new."""
    ranges = [(placed.text.count("\n", 0, start) + 1, placed.text.count("\n", 0, end) + 1) for start, end in placed.inserted]
    found = []
    pieces = pieces_of(placed.text)
    for piece, begin in zip(pieces, begins(pieces), strict=True):
        if not any(first < begin + piece.lines and begin <= end for first, end in ranges):
            continue
        for one in statements(tree_of(piece.text).body):
            line, last = one.lineno + begin - 1, (one.end_lineno or one.lineno) + begin - 1
            if any(first <= line and last <= end for first, end in ranges):
                found.append(one)
    return found


def _shifted(site: Site, placed: Placed) -> Site:
    """A site in a file that got more lines since."""
    if not site.lines:
        return site
    more, before = 0, 0
    for start, end in sorted(placed.inserted):
        lines = placed.text.count("\n", start, end)
        if placed.text.count("\n", 0, start) - before < site.lines[0]:  # by the numbers of the old text
            more += lines
        before += lines
    return replace(site, lines=tuple(line + more for line in site.lines))


def _site(file: str, placed: Placed, brought: Sequence[str]) -> Site:
    lines = lines_of(placed.text)
    first, last = (placed.lines[0], placed.lines[-1]) if placed.lines else (0, 0)
    before = lines[first - 2].strip() if first >= 2 else ""
    after = lines[last].strip() if placed.lines and last < len(lines) else ""
    carried = (*placed.carried, *brought)
    helpers = tuple(one.removesuffix(":") for one in carried if one.startswith(_DEFINES) or one.endswith(".py"))
    return Site(file, placed.lines, before, after, placed.certain, placed.why, dict(placed.renamed), carried, helpers)
