"""What travels with a statement: imports, functions, classes and constants of its file, and temporaries that are assigned only for it.

Knows what names are bound by. Must not know text. Pure.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rearview.instrument.scopes import bound_by, of_own, read, root
from rearview.propagate.hidden import LeftOut
from rearview.propagate.names import Meaning, Names
from rearview.propagate.telling import loggers, passes_on, receivers
from rearview.propagate.tree import Node

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FILLING = frozenset("append extend add update appendleft setdefault insert push put".split())
_TEMPORARIES = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Import, ast.ImportFrom)
_CONSTANT = (
    ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.JoinedStr,
    ast.FormattedValue, ast.Name, ast.Attribute, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.Subscript,
)  # fmt: skip


@dataclass(slots=True)
class Needs:
    """What some statements need of their version that the old one does not have."""

    module: list[Node] = field(default_factory=list)
    """Statements of the module: imports, definitions, constants."""
    temporaries: list[Node] = field(default_factory=list)
    """Statements of the function that it is in."""
    renamed: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    missing: str | None = None
    """A name that has no counterpart and cannot travel."""
    missing_for: str | None = None
    """The name of the statement that would need it, if that is another one."""
    stand_in: tuple[str, str] | None = None
    """A name, and another of the old version that may stand for it: a function that passes everything on to the builtin that it calls, or
    a variable that is told under the same label."""
    names: set[str] = field(default_factory=set)
    """Names that travel."""


class Finding:
    """Finds what a group of statements needs at a place of the old file (`old`: a statement or module that the place is in)."""

    def __init__(self, names: Names, group: Sequence[Node], old: Node, matched: Callable[[Node], bool]) -> None:
        self._names, self._group, self._old, self._matched = names, group, old, matched
        self._inside = {one for node in group for one in (node, *node.below())}
        self._module = old.file.module

    def find(self) -> Needs:
        """Everything, or the first name that is missing."""
        found = Needs(doubts=[f"whether it tells by `{name}` there" for name in self._names.several_ways(self._group)])
        pending: list[tuple[str, Node]] = [(name, self._group[0]) for name in sorted(self._reads(self._group))]
        seen: set[str] = set()
        behind_it: dict[str, str] = {}
        while pending:
            name, node = pending.pop(0)
            if name in seen:
                continue
            seen.add(name)
            meaning = self._meant(name, node, found)
            carried = None if meaning.name is not None or hasattr(builtins, name) else self._carry(name, node)
            if meaning.name is None and (other := self._instead(name, node, carried)) is not None:
                meaning = Meaning(other, sure=False)
            if meaning.name is not None:
                if meaning.name != name:
                    found.renamed[name] = meaning.name
                if not meaning.sure:
                    found.doubts.append(f"whether `{name}` is `{meaning.name}` there")
                continue
            if carried is None or (node is self._group[0] and self._loggers(name)):  # of several loggers, none is known to be it
                found.missing, found.missing_for = name, behind_it.get(name)
                return found
            found.names.add(name)
            for one in carried:
                home = found.module if one.owner is one.file.module and self._above(one) else found.temporaries
                if one not in home:
                    home.append(one)
                    needed = sorted(self._reads([one]))
                    pending += [(other, one) for other in needed]
                    behind_it = {**{other: behind_it.get(name, name) for other in needed if other not in seen}, **behind_it}
        found.module.sort(key=lambda one: (not isinstance(one.syntax, ast.Import | ast.ImportFrom), one.line))
        found.temporaries.sort(key=lambda one: one.line)
        return found

    def _meant(self, name: str, node: Node, found: Needs) -> Meaning:
        """What a name is in the old version by definitions and uses, or else by what the statements next to it tell."""
        meaning = self._meaning(name, node)
        said = self._names.said(name, self._group[0]) if node is self._group[0] else None
        if said is not None:  # statements next to it tell by this
            return Meaning(said, meaning.sure and said == name)
        if meaning.name == name and (other := self._stand_in(name)) is not None:
            found.stand_in = name, other
        told = self._names.told(name, self._group[0]) if meaning.name is not None else None
        if told is None or told[0] == meaning.name:
            return meaning
        if told[1] and self._may_be(told[0]):  # definitions and uses say that it is another, what stands next to it tells this
            return Meaning(told[0], sure=False)
        found.stand_in = found.stand_in or (name, told[0])
        return meaning

    def _instead(self, name: str, node: Node, carried: list[Node] | None) -> str | None:
        """What the old version has for a name that it does not have."""
        behind = passes_on(carried[0].syntax) if carried else None
        if behind is not None or node is not self._group[0]:
            return behind  # today's way to print, which the old version did without
        others = self._loggers(name)
        if others:
            return others[0] if len(others) == 1 else None
        other = self._names.stands_for(name, node) if carried is None else None
        return other if other is not None and self._may_be(other) else None

    def _may_be(self, name: str) -> bool:
        """Whether a variable of the old version can be read at the place, and is not read there as itself."""
        return self._names.visible(name, self._old) and name not in self._reads(self._group)

    def _loggers(self, name: str) -> list[str]:
        """What the old version logs by, for a logger that it does not have."""
        return loggers(self._old.file.tree) if any(name in receivers(one.syntax) for one in self._group) else []

    def _meaning(self, name: str, node: Node) -> Meaning:
        place = self._module if node.owner is node.file.module and node not in self._inside and self._above(node) else self._old
        return self._names.meaning(name, node, place)

    @staticmethod
    def _above(node: Node) -> bool:
        return isinstance(node.syntax, (*_DEFINITIONS, ast.Import, ast.ImportFrom)) or constant(node.syntax)

    @staticmethod
    def _reads(nodes: Sequence[Node]) -> set[str]:
        """Names that statements read from outside themselves."""
        mine: set[str] = set()
        found: set[str] = set()
        for node in nodes:
            found |= read([node.syntax]) - mine
            mine |= _made(node)
        return found - {name for node in nodes for name in _own(node)}

    def _stand_in(self, name: str) -> str | None:
        """A function that the old version has, the new one has not, and that is used in the place of a builtin."""
        if not hasattr(builtins, name) or self._names.new.home(name, self._group[0]) is not None:
            return None
        same = self._group[0].scope.qualified == self._old.scope.qualified  # else it comes from elsewhere, where other ways may be usual
        known = self._names.new.bound(self._group[0].file.module) if same else set()
        return next((other for other in sorted(self._names.voices_of(name)) if other not in known), None)

    def _carry(self, name: str, node: Node) -> list[Node] | None:
        """The statements that give a name its value, if they can travel."""
        home = self._names.new.home(name, node)
        if home is None:
            return None
        binders = [one for one in home.below() if one.function is home and binds(one, name)]
        top = [one for one in binders if one.owner is one.file.module]
        if len(binders) == 1 and top and self._above(top[0]) and not self._filled(name, home):
            if top[0].left_out:
                raise LeftOut
            imports = isinstance(top[0].syntax, ast.Import | ast.ImportFrom)
            return top if imports or not _made(top[0]) & self._names.old.bound(self._module) else None
        if home is not self._group[0].function or not binders:
            return None
        return self._temporaries(name, home, binders)

    def _filled(self, name: str, home: Node) -> bool:
        """Whether the new version fills what a name holds: `history = []` is no constant then."""
        home.file.need([name])
        return any(one not in self._inside and name in one.head and fills(one, name) for one in home.below())

    def _temporaries(self, name: str, home: Node, binders: list[Node]) -> list[Node] | None:
        """All that binds or fills a name, if nothing that the old version has reads it."""
        if home.owner is None:
            home.file.need([name])
        makers = [one for one in home.below() if one not in self._inside and (one in binders or fills(one, name))]
        if not all(isinstance(one.syntax, (*_TEMPORARIES, ast.Expr)) and not self._matched(one) for one in makers):
            return None
        if any(self._names.visible(other, self._old) for one in makers for other in _made(one) - {name}):
            return None  # `low, width = split(low)` where the old version has its own `low`: it would get another value
        others = [one for one in home.below() if one not in self._inside and one not in makers and name in one.words]
        return None if any(self._matched(one) or not (self._logs(one) or self._temporary(one)) for one in others) else makers

    def _temporary(self, node: Node) -> bool:
        """Whether a statement may be a temporary, too: the old version has no such name. Whether it travels is asked when that is."""
        return _only_binds(node) and not any(self._names.visible(name, self._old) for name in _made(node))

    def _logs(self, node: Node) -> bool:
        """Whether a statement is another one that was added to look: it logs or prints."""
        value = node.syntax.value if isinstance(node.syntax, ast.Expr) else None
        if not isinstance(value, ast.Call):
            return False
        return node.file.calls.called(value) == "log" or (isinstance(value.func, ast.Name) and value.func.id in ("print", "log"))


def _only_binds(node: Node) -> bool:
    """Whether a statement does nothing but give variables their values."""
    return isinstance(node.syntax, ast.Assign | ast.AnnAssign) and all(isinstance(one, ast.Name) for one in _targets(node.syntax))


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _own(node: Node) -> set[str]:
    """Names that a statement binds before it reads them: targets of a loop or `with` around the rest."""
    if not node.blocks:
        return set()
    return _made(node)


def _made(node: Node) -> set[str]:
    """Names that a statement binds."""
    return {name for one in of_own([node.syntax]) for name in bound_by(one)}


def binds(node: Node, name: str) -> bool:
    """Whether a statement itself gives a name its value, its blocks left out."""
    statement = node.syntax
    if isinstance(statement, _DEFINITIONS):
        return statement.name == name
    parts = [statement] if not node.blocks else _heads(statement)
    return any(name in bound_by(one) for part in parts for one in of_own([part]))


def _heads(statement: ast.AST) -> list[ast.AST]:
    if isinstance(statement, ast.For | ast.AsyncFor):
        return [statement.target]
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [one.optional_vars for one in statement.items if one.optional_vars]
    if isinstance(statement, ast.If | ast.While):
        return [statement.test]
    return [ast.Name(statement.name, ast.Store())] if isinstance(statement, ast.ExceptHandler) and statement.name else []


def fills(node: Node, name: str) -> bool:
    """Whether a statement does nothing but change what a name holds: `losses.append(x)`, `table[k] = v`."""
    statement = node.syntax
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return isinstance(called, ast.Attribute) and called.attr in _FILLING and root(called) == name
    if isinstance(statement, ast.Assign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return any(isinstance(one, ast.Attribute | ast.Subscript) and root(one) == name for one in targets)
    return False


def constant(statement: ast.AST) -> bool:
    """Whether a statement gives names a value that is written there."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    return all(isinstance(one, _CONSTANT) for one in ast.walk(statement.value))
