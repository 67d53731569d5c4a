"""A walk through a program in the order in which it runs, keeping track of what loops are open. Used by `depth`, which says what for.

Branches join, loops repeat until nothing new comes, calls of project functions are walked into; from three main loops on they are not
told apart. Pure.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable

from rearview.instrument.calls import name_given
from rearview.instrument.places import (
    ANYWHERE,
    IN,
    MAIN,
    NEST,
    NOWHERE,
    OUT,
    START,
    UNKNOWN,
    Places,
    by_kind,
    in_skip_block,
    outside,
)
from rearview.instrument.program import Part, Program
from rearview.instrument.structure import Structure

_MOST = 3
_FRAMES = 4000
_CONSUME = frozenset({"sum", "list", "tuple", "set", "dict", "sorted", "max", "min", "any", "all", "frozenset", "join", "fsum"})
"""What takes all items of a generator expression at once."""


class Walk:
    """One walk; `places` has what may go on around each statement, by its identity."""

    def __init__(self, program: Program, added: Iterable[tuple[str, tuple[int, int, int, int]]] = ()) -> None:
        """`added`: where statements were added. Loops in them are none of the record's."""
        self._program = program
        self.structure = Structure(program, added)
        self.places: dict[int, Places] = {}
        self.strange = self.structure.strange
        """Why nothing can be said about this program."""
        self.checkpointed = False
        """A main loop was found."""
        self.entered_after: set[int] = set()
        """Behind how many main loops another one may begin."""
        self._known: dict[tuple[int, Places, bool], Places] = {}
        self._open: set[tuple[int, bool]] = set()
        self._recursive: set[int] = set()

    def run(self, entry: str | None) -> None:
        """Walk from the file that the run began with, or from each."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _FRAMES))  # some ten for each call that is followed, and for each block in it
        try:
            self._run(entry)
        except RecursionError:
            self.strange = self.strange or "the calls of the program go deeper than can be followed"
        finally:
            sys.setrecursionlimit(limit)

    def _run(self, entry: str | None) -> None:
        files = self._program.bodies
        cells = sorted(path for path in files if path.startswith("cells/"))
        if cells and entry not in files:
            places = START
            for path in cells:  # one program, in pieces
                places = self.part(files[path], places, as_main=True)
        else:
            for path in [entry] if entry in files else sorted(files):
                self.part(files[path], START, as_main=True)
        for part in self._program.parts:
            if part.anywhere:
                self.part(part, ANYWHERE)
            elif self._program.dynamic and self.structure.drives(part) and id(part.node.body[0]) not in self.places:
                self.strange = self.strange or f"`{part.name}`, which has a loop, may be called by a name that the program computes"

    # -- loops -----------------------------------------------------------------------------------------------------------

    def loop(self, calls: list[ast.Call], places: Places, body: Callable[[Places], tuple[Places, Places]]) -> tuple[Places, Places]:
        """Go through a loop of the record. Gives the places behind it, and those from which the function is left."""
        name = name_given(calls[0]) if len(calls) == 1 else None
        ends, lefts = NOWHERE, NOWHERE
        for kind, some in by_kind(places):
            if kind == OUT:
                end, left = self.repeat(some, body)
            elif kind == UNKNOWN:
                self.strange = self.strange or f"the loop {name or ''!r} may be entered from anywhere"
                end, left = self.repeat(some, body)
            elif kind == IN:
                self.checkpointed = True
                self.entered_after.update(place[1] for place in some)
                _, left = body(frozenset((MAIN, place[1], False) for place in some))
                end = frozenset((IN, min(place[1] + 1, _MOST)) for place in some)
                left = end if left else NOWHERE
            elif kind == MAIN:
                _, left = body(frozenset((NEST, place[1], name) for place in some))
                end = frozenset((MAIN, place[1], True) for place in some)
                left = end if left else NOWHERE
            else:
                _, left = body(some)
                end = some
            ends, lefts = ends | end, lefts | left
        return ends, lefts

    def repeat(self, places: Places, body: Callable[[Places], tuple[Places, Places]]) -> tuple[Places, Places]:
        """Go through a plain loop until nothing new comes."""
        lefts = NOWHERE
        while True:
            end, left = body(places)
            lefts |= left
            if end <= places:
                return places, lefts
            places |= end

    def checkpointing(self, places: Places, body: Callable[[Places], tuple[Places, Places]]) -> tuple[Places, Places]:
        """Go through what is inside `with rv.checkpointing`."""
        ends, lefts = NOWHERE, NOWHERE
        for kind, some in by_kind(places):
            if kind == OUT:
                end, left = body(frozenset((IN, place[1]) for place in some))
                end, left = outside(end), outside(left)
            else:
                end, left = body(some)
            if kind == UNKNOWN:
                self.strange = self.strange or "rv.checkpointing may be entered from anywhere"
            ends, lefts = ends | end, lefts | left
        return ends, lefts

    # -- functions -------------------------------------------------------------------------------------------------------

    def part(self, part: Part, places: Places, *, as_main: bool = False) -> Places:
        """Run a function, or the body of a file, from some places: the places behind it. `as_main`: the file that the run began with."""
        if part.suspends and places != ANYWHERE:
            return places
        key = id(part.node), places, as_main
        known = self._known.get(key)
        if known is not None:
            return known
        now = id(part.node), as_main
        if now in self._open:
            if not isinstance(part.node, ast.Module):  # a file is loaded once, also by one that it loads
                self._recursive.add(id(part.node))
            return places
        self._open.add(now)
        ends, lefts = _Body(self, self._program, part, as_main).statements(part.node.body, places)
        self._open.discard(now)
        if id(part.node) in self._recursive and (self.structure.drives(part) or not ends | lefts <= places):
            self.strange = self.strange or f"`{part.name}` calls itself around a loop"
        self._known[key] = ends | lefts
        return ends | lefts


class _Body:
    """The statements of one function."""

    def __init__(self, walk: Walk, program: Program, part: Part, as_main: bool) -> None:
        self._as_main = as_main
        self._walk = walk
        self._program = program
        self._part = part
        self._file = part.file
        self._calls = program.files[part.file].calls

    def statements(self, body: Iterable[ast.stmt], places: Places) -> tuple[Places, Places]:
        """The places behind some statements, and those from which the function is left in them."""
        lefts = NOWHERE
        for statement in body:
            places, left = self._statement(statement, places)
            lefts |= left
        return places, lefts

    def _statement(self, statement: ast.stmt, places: Places) -> tuple[Places, Places]:
        at = id(statement)
        self._walk.places[at] = self._walk.places.get(at, NOWHERE) | places
        if not places:
            return places, NOWHERE
        go = getattr(self, f"_{type(statement).__name__.lower()}", None)
        if go is not None:
            result: tuple[Places, Places] = go(statement, places)
            return result
        return self._each(ast.iter_child_nodes(statement), places), NOWHERE

    def _return(self, statement: ast.Return | ast.Raise, places: Places) -> tuple[Places, Places]:
        return NOWHERE, self._each(ast.iter_child_nodes(statement), places)

    _raise = _return

    def _functiondef(self, statement: ast.FunctionDef | ast.AsyncFunctionDef, places: Places) -> tuple[Places, Places]:
        outside = [*statement.decorator_list, *statement.args.defaults, *(one for one in statement.args.kw_defaults if one)]
        return self._each(outside, places), NOWHERE

    _asyncfunctiondef = _functiondef

    def _classdef(self, statement: ast.ClassDef, places: Places) -> tuple[Places, Places]:
        return self.statements(statement.body, self._each([*statement.decorator_list, *statement.bases], places))

    def _import(self, statement: ast.Import | ast.ImportFrom, places: Places) -> tuple[Places, Places]:
        for path in self._program.modules.meant(statement, self._file):
            if path in self._program.bodies:
                places |= self._walk.part(self._program.bodies[path], places)
        return places, NOWHERE

    _importfrom = _import

    def _if(self, statement: ast.If, places: Places) -> tuple[Places, Places]:
        if _is_main_guard(statement.test) and not self._as_main:
            return self.statements(statement.orelse, places)
        places = self._expression(statement.test, places)
        if _steps_into(statement.test):
            self.statements(statement.body, frozenset(in_skip_block(place) for place in places))
        one, left = self.statements(statement.body, places)
        other, also = self.statements(statement.orelse, places)
        return one | other, left | also

    def _for(self, statement: ast.For, places: Places) -> tuple[Places, Places]:
        places = self._expression(statement.iter, places)
        calls = self._walk.structure.drivers.get(id(statement), [])

        def body(inside: Places) -> tuple[Places, Places]:
            return self.statements(statement.body, inside)

        end, left = self._walk.loop(calls, places, body) if calls else self._walk.repeat(places, body)
        last, also = self.statements(statement.orelse, end)
        return end | last, left | also

    def _asyncfor(self, statement: ast.AsyncFor, places: Places) -> tuple[Places, Places]:
        places = self._expression(statement.iter, places)
        end, left = self._walk.repeat(places, lambda inside: self.statements(statement.body, inside))
        last, also = self.statements(statement.orelse, end)
        return end | last, left | also

    def _while(self, statement: ast.While, places: Places) -> tuple[Places, Places]:
        def body(inside: Places) -> tuple[Places, Places]:
            return self.statements(statement.body, self._expression(statement.test, inside))

        end, left = self._walk.repeat(self._expression(statement.test, places), body)
        last, also = self.statements(statement.orelse, end)
        return end | last, left | also

    def _with(self, statement: ast.With | ast.AsyncWith, places: Places) -> tuple[Places, Places]:
        for item in statement.items:
            places = self._expression(item.context_expr, places)

        def body(inside: Places) -> tuple[Places, Places]:
            return self.statements(statement.body, inside)

        if any(self._calls.called(item.context_expr) == "checkpointing" for item in statement.items):
            return self._walk.checkpointing(places, body)
        return body(places)

    _asyncwith = _with

    def _try(self, statement: ast.Try, places: Places) -> tuple[Places, Places]:
        seen, lefts = places, NOWHERE
        end = places
        for one in statement.body:
            end, left = self._statement(one, end)
            seen, lefts = seen | end | left, lefts | left
        ends, also = self.statements(statement.orelse, end)
        for handler in statement.handlers:
            behind, left = self.statements(handler.body, seen)
            ends, seen, lefts = ends | behind, seen | behind | left, lefts | left
        last, left = self.statements(statement.finalbody, ends | seen | also)
        return (last if statement.finalbody else ends), lefts | also | left

    _trystar = _try

    def _match(self, statement: ast.Match, places: Places) -> tuple[Places, Places]:
        places = self._expression(statement.subject, places)
        ends, lefts = places, NOWHERE
        for case in statement.cases:
            inside = self._expression(case.guard, places) if case.guard else places
            end, left = self.statements(case.body, inside)
            ends, lefts = ends | end, lefts | left
        return ends, lefts

    # -- expressions -----------------------------------------------------------------------------------------------------

    def _each(self, nodes: Iterable[ast.AST], places: Places) -> Places:
        for node in nodes:
            places = self._expression(node, places)
        return places

    def _expression(self, node: ast.AST, places: Places) -> Places:
        """Run the calls of an expression in their order."""
        if isinstance(node, ast.Lambda):
            self._expression(node.body, ANYWHERE)
            return places
        if isinstance(node, ast.GeneratorExp):
            self._comprehension(node, ANYWHERE)
            return places
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
            return self._comprehension(node, places)
        if isinstance(node, ast.BoolOp):
            places = self._expression(node.values[0], places)
            return places | self._each(node.values[1:], places)
        if isinstance(node, ast.IfExp):
            places = self._expression(node.test, places)
            return self._expression(node.body, places) | self._expression(node.orelse, places)
        if isinstance(node, ast.Call):
            return self._call(node, places)
        return self._each(ast.iter_child_nodes(node), places)

    def _call(self, call: ast.Call, places: Places) -> Places:
        places = self._expression(call.func, places)
        named = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
        for given in [*call.args, *(word.value for word in call.keywords)]:
            if isinstance(given, ast.GeneratorExp) and named in _CONSUME:
                places = self._comprehension(given, places)
            else:
                places = self._expression(given, places)
        parts = self._program.called(call, self._part)
        if not parts:
            return places
        ends = NOWHERE
        for part in parts:
            ends |= self._walk.part(part, places)
        return ends or places

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, places: Places) -> Places:
        first = node.generators[0].iter
        places = self._expression(first, places)
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner = [*(one for made in node.generators for one in made.ifs), *(made.iter for made in node.generators[1:]), *values]

        def body(inside: Places) -> tuple[Places, Places]:
            return self._each(inner, inside), NOWHERE

        if self._walk.structure.is_loop(first, self._file):
            assert isinstance(first, ast.Call)
            return self._walk.loop([first], places, body)[0]
        return self._walk.repeat(places, body)[0]


def _steps_into(test: ast.expr) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "step_into" for one in ast.walk(test))


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
