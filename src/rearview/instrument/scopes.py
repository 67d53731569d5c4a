"""Names and scopes: what a piece of program binds, reads, and what a scope would notice if a name appeared in it.

Knows Python's scoping rules, on the safe side. Must not know rearview's calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from rearview.instrument.calls import DELAYED, bodies, children, heads

Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound_by(node: ast.AST) -> Iterator[str]:
    """The names that one node itself binds, not those inside it."""
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        if node.name:
            yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def of_own(scope: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope (or of some statements in one), without what has a scope of its own; that itself is among them.

    Decorators, defaults and bases of an inner function or class are evaluated in the scope around: they are among them too, and so is
    the first iterable of a comprehension.
    """
    pending: list[ast.AST] = []
    if isinstance(scope, ast.AST):
        pending.extend(_inside(scope))
    else:
        pending.extend(scope)
    pending.reverse()
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(_around(node) if isinstance(node, DELAYED) else children(node)))


def _inside(scope: ast.AST) -> list[ast.AST]:
    """What is evaluated in the scope that a node makes."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        return list(scope.body)
    if isinstance(scope, ast.Lambda):
        return [scope.body]
    return children(scope)


def _around(node: ast.AST) -> list[ast.AST]:
    """What of an inner scope is evaluated outside it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [*node.decorator_list, *_outer_arguments(node.args), *([node.returns] if node.returns else [])]
    if isinstance(node, ast.Lambda):
        return _outer_arguments(node.args)
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, _COMPREHENSIONS):
        walrus = [one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr)]  # binds outside
        return [node.generators[0].iter, *walrus]
    return []


def _outer_arguments(arguments: ast.arguments) -> list[ast.AST]:
    annotations = [one.annotation for one in ast.walk(arguments) if isinstance(one, ast.arg) and one.annotation]
    return [*arguments.defaults, *(one for one in arguments.kw_defaults if one), *annotations]


def parameters(scope: ast.AST) -> set[str]:
    """The names that a function is called with, or that a comprehension runs over."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        given = scope.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
        return {one.arg for one in every}
    if isinstance(scope, _COMPREHENSIONS):
        return {name for one in scope.generators for node in ast.walk(one.target) for name in bound_by(node)}
    return set()


def bound(scope: ast.AST, own: Iterable[ast.AST] | None = None) -> set[str]:
    """The names that are a scope's own. `own`: what `of_own` gives for it, if that is known."""
    names, elsewhere = parameters(scope), set()
    for node in of_own(scope) if own is None else own:
        if isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere.update(node.names)
        names.update(bound_by(node))
    return names - elsewhere


def read(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that statements of one scope read, inner scopes included where they reach out."""
    names: set[str] = set()
    for node in of_own(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, DELAYED):
            names |= free(node)
    return names


def free(scope: ast.AST) -> set[str]:
    """The names that a scope reads from outside."""
    names = read(_inside(scope))
    if isinstance(scope, ast.ClassDef):
        return names  # what a class binds is not seen by its methods
    return names - bound(scope)


def used(scope: ast.AST) -> set[str]:
    """The names that mean something in a scope: a new binding of one of them there could change what the program does."""
    names = parameters(scope)
    for node in of_own(scope):
        names.update(bound_by(node))
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            names.update(node.names)
        elif isinstance(node, DELAYED):
            names |= free(node)
            names |= _declared(node)
    return names


def _declared(scope: ast.AST) -> set[str]:
    """What inner functions say they share with outside."""
    return {name for node in ast.walk(scope) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}


def root(node: ast.AST) -> str | None:
    """The variable that an expression begins with: `a` of `a.b[0].c(1)`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


# -- the order of things in a run of statements --------------------------------------------------------------------------


def read_first(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that statements read before they have surely bound them themselves."""
    return _flow(statements, set())[0]


def surely_bound(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that statements have bound when they are done, whichever way they went."""
    return _flow(statements, set())[1]


def _flow(statements: Iterable[ast.stmt], sure: set[str]) -> tuple[set[str], set[str]]:
    """Names read before they are surely bound, and the names surely bound behind the statements."""
    before: set[str] = set()
    sure = set(sure)
    for statement in statements:
        if isinstance(statement, DELAYED):
            before |= read(_around(statement)) - sure
            sure.update(bound_by(statement))
            continue
        inner = list(bodies(statement))
        own = list(heads(statement)) if inner else [statement]
        before |= read(own) - sure
        targets = {name for node in of_own(own) for name in bound_by(node)}
        targets.update(name for handler in getattr(statement, "handlers", ()) for name in bound_by(handler))
        deleted = {name for one in own if isinstance(one, ast.Delete) for node in one.targets for name in bound_by(node)}
        results = [_flow(body, sure | targets) for body in inner]
        for reads, _ in results:
            before |= reads
        if isinstance(statement, ast.With | ast.AsyncWith):
            sure = results[0][1]
        elif isinstance(statement, ast.If) and statement.orelse:
            sure = results[0][1] & results[1][1]
        elif not inner:
            sure |= targets
        sure -= deleted
    return before, sure
