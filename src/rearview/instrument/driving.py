"""Which `for` statement drives which loop: takes its items one at a time, and nothing else takes any.

Directly, through what hands items on at once (`enumerate`, `tqdm`), or by a variable in between. Knows statements and scopes. Must not
know what follows from it. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rearview.instrument.calls import DELAYED, bodies, heads, within

_BUILTINS = frozenset({"enumerate", "zip", "iter"})
_PASS_ON = frozenset({"tqdm", "tqdm_notebook", "track", "islice"})
"""What takes one item at a time, hands it on at once as it is, and never looks ahead: a loop inside is driven by the `for` around. Not
`map`: it calls a function with what a skipped loop yields in the place of an item."""


@dataclass(frozen=True, slots=True)
class Driven:
    """A loop, the `for` statement that drives it, and where the call stands that makes it."""

    statement: ast.For
    call: ast.Call
    holder: ast.AST
    field: str
    place: int | None
    """In a field that is a list."""
    held: bool = False
    """A variable holds it too: leaving the `for` by `break` does not let go of it."""

    def put(self, expression: ast.expr) -> None:
        """Put another expression in the place of the call."""
        if self.place is None:
            setattr(self.holder, self.field, expression)
        else:
            getattr(self.holder, self.field)[self.place] = expression


def driven_loops(scope: list[ast.stmt], is_loop: Callable[[ast.Call], bool]) -> Iterator[Driven]:
    """The loops that `for` statements of one scope drive; `scope` has all of its statements."""
    drivers = [one for one in scope if isinstance(one, ast.For) and not _yields(one)]
    for statement in drivers:
        held = any(isinstance(one, ast.NamedExpr) for one in ast.walk(statement.iter))
        for call, holder, field, place in _loops_in(statement, "iter", None, is_loop):
            yield Driven(statement, call, holder, field, place, held)
    for name in _only_driving(scope, drivers):
        driver = next(one for one in drivers if _driven(one.iter, name))
        for maker, made in _makers(scope, name):
            for call, holder, field, place in _loops_in(maker, made, None, is_loop):
                yield Driven(driver, call, holder, field, place, held=True)


def _loops_in(
    holder: ast.AST, field: str, place: int | None, is_loop: Callable[[ast.Call], bool]
) -> Iterator[tuple[ast.Call, ast.AST, str, int | None]]:
    """The loops whose items an expression hands on."""
    held = getattr(holder, field)
    expression = held if place is None else held[place]
    if isinstance(expression, ast.NamedExpr):
        yield from _loops_in(expression, "value", None, is_loop)
    elif isinstance(expression, ast.Call):
        if is_loop(expression):
            yield expression, holder, field, place
        elif passes_on(expression):
            for k in range(len(expression.args)):
                yield from _loops_in(expression, "args", k, is_loop)


def passes_on(call: ast.Call) -> bool:
    """Whether a call hands on the items of what it is given."""
    if isinstance(call.func, ast.Name):
        return call.func.id in _BUILTINS or call.func.id in _PASS_ON
    return isinstance(call.func, ast.Attribute) and call.func.attr in _PASS_ON


def scopes(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """The statements of each scope: the module, every function, every class body."""
    pending: list[list[ast.stmt]] = [tree.body]
    while pending:
        scope: list[ast.stmt] = []
        inner = pending.pop()[::-1]
        while inner:
            statement = inner.pop()
            scope.append(statement)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                pending.append(statement.body)
            else:
                inner.extend(reversed([one for body in bodies(statement) for one in body]))
        yield scope


def _yields(statement: ast.For) -> bool:
    """Whether the body runs as part of a generator: then whoever consumes that drives the loop. One that it defines is another."""
    body = (node for one in statement.body if not isinstance(one, DELAYED) for node in within(one))
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in body)


def _driven(iterated: ast.expr, name: str) -> bool:
    """Whether what a `for` iterates over is a variable, or passes its items on."""
    if isinstance(iterated, ast.Name):
        return iterated.id == name
    return isinstance(iterated, ast.Call) and passes_on(iterated) and any(_driven(one, name) for one in iterated.args)


def _only_driving(scope: list[ast.stmt], drivers: list[ast.For]) -> list[str]:
    """Variables that hold something which exactly one `for` statement iterates over: `bar = tqdm(rv.loop(...))`, `for x in bar`.

    Elsewhere only attributes of them are used (`bar.set_postfix(...)`), and no other scope sees them.
    """
    driven: dict[str, int] = {}
    loads: dict[str, int] = {}
    shared: set[str] = set()
    for driver in drivers:
        for node in within(driver.iter):
            if isinstance(node, ast.Name) and _driven(driver.iter, node.id):
                driven[node.id] = driven.get(node.id, 0) + 1
    if not driven:
        return []
    for statement in scope:
        if isinstance(statement, ast.Global | ast.Nonlocal):
            shared.update(statement.names)
        for node in [statement, *heads(statement)] if isinstance(statement, DELAYED) else heads(statement):
            _count_loads(node, loads, shared)
    return [name for name, times in driven.items() if times == 1 and loads.get(name, 0) == 1 and name not in shared]


def _count_loads(node: ast.AST, loads: dict[str, int], shared: set[str]) -> None:
    """Count bare reads of names; names that inner scopes read are shared."""
    for one in within(node):
        if isinstance(one, DELAYED):
            shared.update(inner.id for inner in ast.walk(one) if isinstance(inner, ast.Name))
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            loads[one.id] = loads.get(one.id, 0) + 1
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            loads[one.value.id] = loads.get(one.value.id, 0) - 1  # `bar.total`: what it holds is not iterated over


def _makers(scope: list[ast.stmt], name: str) -> list[tuple[ast.AST, str]]:
    """Where a variable gets its value, if that is one place: the node and the field that has it."""
    found: list[tuple[ast.AST, str]] = []
    stores = 0
    for statement in scope:
        for head in heads(statement):
            stores += sum(isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load) for one in within(head))
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_name(statement.targets[0], name):
            found.append((statement, "value"))
        elif isinstance(statement, ast.With):
            found += [(item, "context_expr") for item in statement.items if item.optional_vars and _is_name(item.optional_vars, name)]
    return found if stores == len(found) == 1 else []


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
