"""What a probe's value may come from, through variables that no state holds: arguments and variables of functions that are called.

`report(digest())` gives `report` a value that no state has and nothing compares; a probe in it reads what `digest` reads. Variables of
files and of functions that the main loop runs in, and attributes, are part of each state, and compared with it: there the search ends,
unless they are bound in several places of the loop, so that what the probe saw may be gone when the state is taken, or behind it. By name,
on the safe side. Knows source. Must not know checkpoints. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from rearview.instrument.calls import bodies, first_line, heads, last_line, statements
from rearview.instrument.program import Part, Program
from rearview.instrument.scopes import bound, bound_by, of_own, root

EVERYTHING = "*"
"""For a program that is too large to be searched: the value may come from anything."""
_MOST_STEPS = 10_000
_NOWHERE = (1 << 31, 1 << 31)
_LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Raise)


def feeds(program: Program, file: str, lines: tuple[int, int]) -> frozenset[str]:
    """The words in what the statements on some lines of a file may get values from, with those in the functions that are called there."""
    if file not in program.files:
        return frozenset()
    return _Search(program).words(file, lines)


@dataclass
class _Search:
    program: Program
    words_found: set[str] = field(default_factory=set)
    pending: list[tuple[ast.AST, Part]] = field(default_factory=list)
    places: list[tuple[ast.AST, Part]] = field(default_factory=list)
    """From where functions are called: whatever is around these is to be followed too."""
    seen: set[int | tuple[int, str]] = field(default_factory=set)
    leading: set[int] = field(default_factory=set)
    """Statements that the main loop is in, or what leads to it: `best = main()` is bound behind it."""
    above: set[int] = field(default_factory=set)
    """Functions that a probe is in or that lead to it. One that is merely called gets what it is given where that is."""

    def __post_init__(self) -> None:
        self.parts = [*self.program.bodies.values(), *self.program.parts]
        self.sites: dict[int, list[tuple[Part, ast.Call]]] = {}
        self.named: dict[str, list[tuple[ast.AST, Part]]] = {}
        """Where a name or an attribute stands."""
        self.setting: dict[str, list[tuple[ast.stmt, Part]]] = {}
        """The statements that set an attribute."""
        self.around: dict[int, list[Part]] = {}
        """The functions that a function is in, and itself; the innermost last."""
        for part in self.parts:
            self._look_at(part)
        self.held = self._held()

    def _look_at(self, part: Part) -> None:
        for one in _nodes(part):
            if isinstance(one, ast.Call):
                for called in self.program.called(one, part):
                    self.sites.setdefault(id(called.node), []).append((part, one))
            elif isinstance(one, ast.Name | ast.Attribute):
                self.named.setdefault(one.id if isinstance(one, ast.Name) else one.attr, []).append((one, part))
        for statement in _statements(part):
            for name in {one.attr for one in _own(statement) if isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load)}:
                self.setting.setdefault(name, []).append((statement, part))
        if not isinstance(part.node, ast.Module):
            for inner in ast.walk(part.node):
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.around.setdefault(id(inner), []).append(part)

    def _held(self) -> dict[int, tuple[int, int]]:
        """Functions and files whose variables are part of a state, with the lines that the main loop is in, or what leads to it."""
        held = {id(part.node): _NOWHERE for part in self.program.bodies.values()}
        pending = [(part, call) for part in self.parts for call in _nodes(part) if self._begins(call, part)]
        while pending:
            part, call = pending.pop()
            if held.get(id(part.node), _NOWHERE) == _NOWHERE:
                around = _around(call, part)
                held[id(part.node)] = (first_line(around[0]), last_line(around[0])) if around else _NOWHERE
                self.leading.update(map(id, around[-1:]))
                pending += self.sites.get(id(part.node), ())
        return held

    def _begins(self, node: ast.AST, part: Part) -> bool:
        return isinstance(node, ast.Call) and self.program.files[part.file].calls.called(node) == "checkpointing"

    def _lost(self, binding: list[tuple[ast.stmt, Part]]) -> list[tuple[ast.stmt, Part]]:
        """Of the statements that bind something which states hold, those whose value no state may have any more, or yet."""
        inside, behind = [], []
        for one, part in binding:
            first, last = self.held.get(id(part.node), (0, 0))
            if (first_line(one) > last and last) or id(one) in self.leading:
                behind.append((one, part))
            elif last_line(one) >= first and getattr(part.node, "name", "") != "__init__":
                inside.append((one, part))
        return [*behind, *(inside if len(inside) > 1 else [])]

    def words(self, file: str, lines: tuple[int, int]) -> frozenset[str]:
        for part in self.parts:
            own = [one for one in _statements(part) if part.file == file and first_line(one) <= lines[1] and lines[0] <= last_line(one)]
            for one in own:
                self.above.add(id(part.node))
                self._reach(one, part)
        for _ in range(_MOST_STEPS):
            if not (self.pending or self.places):
                return frozenset(self.words_found)
            if self.pending:
                self._follow(*self.pending.pop())
            else:
                self._place(*self.places.pop())
        return frozenset({EVERYTHING})

    def _reach(self, statement: ast.stmt, part: Part) -> None:
        """A statement that runs: what it says, and what decides whether it does; so does whoever calls its function."""
        self.pending += [(one, part) for one in heads(statement)] if any(True for _ in bodies(statement)) else [(statement, part)]
        layout = _layout(part)
        for other in [*layout.around.get(id(statement), ()), *(() if (id(part.node), "leaves") in self.seen else layout.leaving)]:
            self.pending += [(one, part) for one in heads(other)]
        self.seen.add((id(part.node), "leaves"))
        self._callers(part)

    def _follow(self, node: ast.AST, part: Part) -> None:
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        for one in ast.walk(node):
            if isinstance(one, ast.Attribute):
                self.words_found.add(one.attr)
                self._attribute(one.attr)
            elif isinstance(one, ast.Name):
                self.words_found.add(one.id)
                self._variable(one.id, part)
            elif isinstance(one, ast.Call):
                self.pending += [(inner, called) for called in self.program.called(one, part) for inner in _body(called)]

    def _variable(self, name: str, part: Part) -> None:
        """Where a variable has its value from."""
        owner = self._owner(name, part)
        if (id(owner.node), name) in self.seen:
            return
        self.seen.add((id(owner.node), name))
        binding = [(one, owner) for one in _statements(owner) if _binds(one, name)]
        if id(owner.node) in self.held:
            binding = self._lost(binding)
        else:
            binding += [(one, owner) for one in _statements(owner) if isinstance(one, ast.Expr) and root(one.value) == name]
            self._callers(owner)
        for one, part in binding:
            self._reach(one, part)

    def _attribute(self, name: str) -> None:
        """The same of an attribute, whosever it is."""
        if (0, name) in self.seen:
            return
        self.seen.add((0, name))
        for one, part in self._lost(self.setting.get(name, [])):
            self.above.add(id(part.node))
            self._reach(one, part)

    def _owner(self, name: str, part: Part) -> Part:
        """The function whose variable it is, or the file."""
        for one in sorted(self.around.get(id(part.node), ()), key=lambda one: getattr(one.node, "lineno", 0), reverse=True):
            if name in _bound(one):
                return one
        return self.program.bodies[part.file]

    def _callers(self, part: Part) -> None:
        """Where a function that no state has anything of is called from."""
        if id(part.node) in self.held or id(part.node) not in self.above or (id(part.node), "") in self.seen:
            return
        self.seen.add((id(part.node), ""))
        for caller, call in self.sites.get(id(part.node), ()):
            self.places.append((call, caller))
        if part.anywhere:  # handed on as a value: with what stands beside it there
            self.places += self.named.get(part.name, ())

    def _place(self, node: ast.AST, part: Part) -> None:
        """A place in a function: the innermost statement around it."""
        self.above.add(id(part.node))
        if isinstance(node, ast.Call):
            self.pending.append((node, part))
        for one in _around(node, part)[-1:]:
            self._reach(one, part)


def _nodes(part: Part) -> Iterator[ast.AST]:
    """What a function says itself, also in comprehensions and lambdas; functions inside it are parts of their own."""
    pending = list(of_own(part.node))
    while pending:
        one = pending.pop()
        yield one
        if isinstance(one, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            pending += [inner for inner in ast.walk(one) if inner is not one]


@lru_cache(maxsize=4096)
def _bound(part: Part) -> set[str]:
    return bound(part.node)


@lru_cache(maxsize=4096)
def _statements(part: Part) -> list[ast.stmt]:
    """The statements of a function itself, outer ones first."""
    return [one for one in of_own(part.node) if isinstance(one, ast.stmt)]


def _around(node: ast.AST, part: Part) -> list[ast.stmt]:
    """The statements of a function that a node is in, outer ones first."""
    layout = _layout(part)
    inner = layout.holder.get(id(node))
    return [] if inner is None else [*layout.around.get(id(inner), ()), inner]


@dataclass(slots=True)
class _Layout:
    """Of a function: the statements around each of its statements, in which each node stands, and those in which it may be left."""

    around: dict[int, list[ast.stmt]] = field(default_factory=dict)
    holder: dict[int, ast.stmt] = field(default_factory=dict)
    leaving: list[ast.stmt] = field(default_factory=list)


@lru_cache(maxsize=4096)
def _layout(part: Part) -> _Layout:
    made = _Layout()
    for one in _statements(part):
        above = made.around.setdefault(id(one), [])
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = [inner for body in bodies(one) for inner in body]
            made.around.update({id(child): [*above, one] for child in inner})
            if any(isinstance(child, _LEAVES) for child in statements(inner)):
                made.leaving.append(one)
        made.holder.update({id(node): one for node in _own(one)})
    return made


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """What of a statement is not in others inside it."""
    for top in heads(statement) if any(True for _ in bodies(statement)) else [statement]:
        yield from ast.walk(top)


def _binds(statement: ast.stmt, name: str) -> bool:
    return any(name in bound_by(one) for one in _own(statement))


def _body(part: Part) -> Iterable[ast.AST]:
    return part.node.body
