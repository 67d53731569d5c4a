"""What a variable of the new version is called in the old one: by matched definitions and uses, never by likeness of spelling.

Knows scopes and matched statements. Must not know where a statement is placed. Pure.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rearview.instrument.scopes import bound
from rearview.propagate.gives import given
from rearview.propagate.match import Matching
from rearview.propagate.roles import side_by_side
from rearview.propagate.telling import passes_on, prints, tells, voice
from rearview.propagate.tree import File, Node

_BUILTIN = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__spec__", "__builtins__", "__class__"}
_DEFINITION = 3.0
"""What a matched definition counts, against a matched use."""
_A_USE = 0.6
"""What a use in statements that are nearly the same counts at least: where it has another name, that may be the variable's."""


class Scopes:
    """Which names are bound where in a file."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._bound: dict[int, set[str]] = {}

    def bound(self, scope: Node) -> set[str]:
        """The names that are a function's, a class's or the module's own."""
        known = self._bound.get(id(scope))
        if known is None:
            hidden = self.file.hidden if scope.owner is None else None
            known = self._bound[id(scope)] = set(hidden.bound) if hidden is not None else bound(scope.syntax)
            if scope.owner is None:  # what functions declare global is the module's
                known.update(self.file.globals)
        return known

    def chain(self, node: Node) -> Iterator[Node]:
        """The scopes in which a statement finds its names, the innermost first."""
        scope = node if node.owner is None else node.scope
        yield scope
        for one in scope.above():
            if isinstance(one.syntax, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                yield one

    def home(self, name: str, node: Node) -> Node | None:
        """The scope that a name belongs to, seen from a statement; None if the file does not bind it."""
        return next((scope for scope in self.chain(node) if name in self.bound(scope)), None)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name is in the old version."""

    name: str | None
    """None: it has no counterpart."""
    sure: bool = True


class Names:
    """Finds the counterpart of names."""

    def __init__(self, matching: Matching) -> None:
        self._matching = matching
        self.new, self.old = Scopes(matching.new), Scopes(matching.old)
        self._star = matching.old.imports_all

    def meaning(self, name: str, new: Node, old: Node) -> Meaning:
        """What a name read by a statement of the new file is called at a place of the old one (`old`: what the place is in)."""
        home = self.new.home(name, new)
        seen = self.visible(name, old)
        if home is None:  # neither file binds it: a builtin, a star import, something that is given from outside
            return Meaning(name, True) if seen or name in _BUILTIN or self._star or not self._binds(name, new) else Meaning(None)
        votes, defined = self._votes(name, home)
        mine = votes.pop(name, 0.0)
        for other, weight in sorted(votes.items(), key=lambda item: -item[1]):
            if not self.visible(other, old) and other not in _BUILTIN:
                continue
            second = max([value for key, value in votes.items() if key != other], default=0.0)
            if self._is_itself(other, new):
                continue
            if weight > 2 * mine and weight > 1.5 * second and (not seen or defined[other] > defined[name]):
                return Meaning(other, weight >= 2 and second == 0 and mine == 0)
            break
        if seen:
            itself = mine >= 1 and max(votes.values(), default=0.0) < _A_USE
            return Meaning(name, itself or (not votes and not isinstance(home.syntax, ast.FunctionDef | ast.AsyncFunctionDef)))
        return Meaning(name, sure=False) if mine >= 1 and not self._bound_anywhere(name) else Meaning(None)

    def _bound_anywhere(self, name: str) -> bool:
        """Whether the old version binds a name at all; if it reads it and does not, it is given from outside."""
        file = self._matching.old
        file.need([name])
        scopes = [one for one in file.nodes if isinstance(one.syntax, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        return any(name in self.old.bound(one) for one in (file.module, *scopes))

    def _is_itself(self, name: str, new: Node) -> bool:
        """Whether a name of the old version is the same name's in the new one: then it is no other's."""
        home = self.new.home(name, new)
        if home is None:
            return False
        votes, _ = self._votes(name, home)
        return votes.get(name, 0.0) > 0.5 * sum(votes.values())

    def voices_of(self, builtin: str) -> set[str]:
        """Functions of the old version that pass everything on to a builtin, or that do so in the new version."""
        new = {one.name for one in _functions(self._matching.new) if passes_on(one) == builtin}
        old = _functions(self._matching.old)
        return {one.name for one in old if passes_on(one) == builtin or (one.name in new and one.args.vararg)}

    def several_ways(self, group: Sequence[Node]) -> list[str]:
        """Names that statements print by and for which the old version has another: `print`, and a function of its own that prints."""
        files = self._matching.new, self._matching.old
        there = self.old.bound(files[1].module)
        names = sorted({name for one in group if (name := voice(one.syntax)) and (name == "print" or name in there)})
        if not names:
            return []
        for file in files:
            file.need(["print"])
        ways = {one.name for file in files for one in _functions(file) if prints(one)} & there
        return [name for name in names if name in ways or (ways and name == "print")]

    def said(self, name: str, node: Node) -> str | None:
        """By what the old version tells where the new one calls `name`: as the nearest statements that both have, in the same function."""
        builtin = name if hasattr(builtins, name) else self._builtin(name)
        voices = self.voices_of(builtin) | {builtin} if builtin else set()
        if len(voices) < 2:
            return None
        near: list[tuple[int, str]] = []
        for one, other in self._matching.old_of.items():
            if one.function is node.function and voice(one.syntax) == name and voice(other.syntax) in voices:
                near.append((abs(one.line - node.line), str(voice(other.syntax))))
        return min(near)[1] if near else None

    def told(self, name: str, node: Node) -> tuple[str, bool] | None:
        """What the old version tells where the new one tells a variable under the same label: in the nearest such pair of its function, and
        whether that decides: it stands in the statement's own block, where nothing else gives the variable a value."""
        near: list[tuple[int, str, bool]] = []
        for one, other in self._matching.old_of.items():
            if one.function is node.function and not one.blocks and name in one.words and tells(one) and tells(other):
                pairs = {theirs for mine, theirs, _ in side_by_side(one.syntax, other.syntax) if mine == name}
                if len(pairs) == 1 and _label(one.syntax) and _label(one.syntax) == _label(other.syntax):
                    near.append((abs(one.line - node.line), pairs.pop(), one.siblings is node.siblings))
        if not near:
            return None
        _, instead, beside = min(near)
        return instead, beside and not any(name in given(one) for one in node.siblings)

    def stands_for(self, name: str, node: Node) -> str | None:
        """What the old version reads in the place of a variable that it does not have, in all statements of the statement's own block."""
        found: set[str] = set()
        for one in node.siblings:
            other = self._matching.old_of.get(one)
            if other is None or one.blocks or name not in one.head:
                continue
            pairs = {theirs for mine, theirs, binds in side_by_side(one.syntax, other.syntax) if mine == name and not binds}
            if any(theirs in one.words for theirs in pairs):
                return None  # what both mention is itself
            found |= pairs
        return found.pop() if len(found) == 1 else None

    def _builtin(self, name: str) -> str | None:
        """The builtin that a function of the new version passes everything on to."""
        functions = [one for one in _functions(self._matching.new) if one.name == name]
        return passes_on(functions[0]) if len(functions) == 1 else None

    def _binds(self, name: str, node: Node) -> bool:
        return self.new.home(name, node) is not None

    def visible(self, name: str, node: Node) -> bool:
        """Whether a statement of the old version finds a name that this file binds."""
        return any(name in self.old.bound(scope) for scope in self.old.chain(node))

    def _votes(self, name: str, home: Node) -> tuple[dict[str, float], dict[str, float]]:
        """What matched statements have in the place of a name: in all, and where it is bound."""
        if home.owner is None:
            home.file.need([name])
        votes: dict[str, float] = defaultdict(float)
        defined: dict[str, float] = defaultdict(float)
        inside = [home, *home.below()]
        for node in inside:
            other = self._matching.old_of.get(node)
            if other is None or node.left_out or name not in node.head or node.owner is None:
                continue
            alike = self._matching.likeness.heads(node, other)
            for mine, theirs, binds in side_by_side(node.syntax, other.syntax):
                if mine == name:
                    votes[theirs] += alike * (_DEFINITION if binds else 1.0)
                    if binds:
                        defined[theirs] += alike
        return votes, defined


def has_attribute(text: str, name: str) -> bool:
    """Whether a text mentions an attribute of a name: not a mere variable. A string may name one, an indented assignment be a class's."""
    word = re.escape(name)
    return (
        re.search(rf"\.\s*{word}\b|['\"][^'\"\n]*\b{word}\b|\b(?:def|class)\s+{word}\b|^[ \t]+{word}\s*[:=]", text, re.MULTILINE)
        is not None
    )


def _label(statement: ast.AST) -> list[str]:
    """The text that a statement tells with its values."""
    return [one.value for one in ast.walk(statement) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _functions(file: File) -> list[ast.FunctionDef]:
    return [one.syntax for one in file.nodes if isinstance(one.syntax, ast.FunctionDef)]
