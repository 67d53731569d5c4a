"""Variables that no iteration of a loop reads before it has given them a value: what they hold between two iterations is of no further use.

Pure: a syntax tree and a place in its text. Where that is in doubt, a variable is read.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence

from rearview.instrument.midway import Position, path_to

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_READ, _SET, _NEITHER = "read", "set", "neither"
_BACKWARD = ("backward", "grad")


def rebound(tree: ast.AST, at: Position, behind: Position | None = None) -> frozenset[str]:
    """Those of the `for` loop that runs over the expression at this place, between two iterations. `behind`: in one, behind the loop in it
    that runs over the expression there."""
    path = path_to(tree, at) or []
    loop = _driven(path)
    if loop is None:
        return frozenset()
    body = loop.body
    if behind is not None:
        nested = _driven(path_to(tree, behind) or [])
        if nested not in body:  # the rest of what it is in comes first
            return frozenset()
        body = [*nested.orelse, *body[body.index(nested) + 1 :], *body]
    function = next(node for node in reversed(path) if isinstance(node, (*_FUNCTIONS, ast.Module)))
    stored = {name.id for one in loop.body for name in _names(one) if isinstance(name.ctx, ast.Store)} - set(_seen_elsewhere(function))
    later = {name.id for one in _behind(function, loop) for name in _names(one)} if _goes_backward(_behind(function, loop)) else set()
    given = {name.id for name in _names(loop.target)}
    return frozenset(name for name in stored - later if (name in given and behind is None) or _first(body, name) != _READ)


def _driven(path: Sequence[ast.AST]) -> ast.For | ast.AsyncFor | None:
    """The innermost loop that runs over what is on the path."""
    found = [node for node, below in itertools.pairwise(path) if isinstance(node, (ast.For, ast.AsyncFor)) and below is node.iter]
    return found[-1] if found else None


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Name))


def _seen_elsewhere(function: ast.AST) -> Iterator[str]:
    """What functions inside it, or for the text itself functions anywhere in it, read or write as well."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from node.names
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and node is not function:
            yield from (name.id for name in _names(node))


def _behind(function: ast.AST, loop: ast.AST) -> list[ast.AST]:
    """What is written behind the loop."""
    end = getattr(loop, "end_lineno", 0)
    return [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node.lineno > end]


def _goes_backward(nodes: Iterable[ast.AST]) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr in _BACKWARD for node in nodes for one in ast.walk(node))


def _first(body: Sequence[ast.stmt], name: str) -> str:
    """What happens first to a variable in these statements, on the way on which it is soonest read."""
    return next((found for statement in body if (found := _of(statement, name)) != _NEITHER), _NEITHER)


def _of(statement: ast.stmt, name: str) -> str:
    def reads(*nodes: ast.AST | None) -> bool:
        return any(one.id == name and isinstance(one.ctx, ast.Load) for node in nodes if node is not None for one in _names(node))

    def sets(*targets: ast.AST | None) -> bool:
        return any(name in _given(target) for target in targets if target is not None)

    match statement:
        case ast.Assign(targets=targets, value=value):
            return _READ if reads(value, *targets) else _SET if sets(*targets) else _NEITHER
        case ast.AnnAssign(target=target, value=value):
            return _READ if reads(value, target) else _SET if value is not None and sets(target) else _NEITHER
        case ast.AugAssign(target=target, value=value):
            return _READ if reads(value, target) or sets(target) else _NEITHER
        case ast.Delete(targets=targets):
            return _READ if reads(*targets) else _SET if any(isinstance(one, ast.Name) and one.id == name for one in targets) else _NEITHER
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            if reads(*items):
                return _READ
            return _SET if sets(*(item.optional_vars for item in items)) else _first(body, name)
        case ast.For(target=target, iter=over, body=body, orelse=orelse) | ast.AsyncFor(target=target, iter=over, body=body, orelse=orelse):
            if reads(over):
                return _READ
            return _SET if sets(target) else _first([*body, *orelse], name)
        case ast.If(test=test, body=body, orelse=orelse):
            ways = [_first(body, name), _first(orelse, name)]
            return _READ if reads(test) or _READ in ways else _SET if ways == [_SET, _SET] else _NEITHER
        case _:
            return _READ if reads(statement) else _NEITHER


def _given(target: ast.AST) -> Iterator[str]:
    """The variables that an assignment to this gives a value."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from _given(one)
    elif isinstance(target, ast.Starred):
        yield from _given(target.value)
