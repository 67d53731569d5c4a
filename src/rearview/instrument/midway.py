"""What a statement is in the middle of while a call in it, or the loop that it drives, goes on: what it has worked out by then and goes on
with behind it, what it gathers, which `with` blocks are around it.

Pure: a syntax tree and positions in its text. Knows the order in which Python works out the parts of an expression, and no frames.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Position = tuple[int, int, int, int]
"""First line, last line, first column, last column (in bytes), as instructions have it."""

_GATHERING = (ast.ListComp, ast.SetComp, ast.DictComp)
_CALLING = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, *_GATHERING, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NOTHING_WAITS = (ast.BoolOp, ast.IfExp)
"""What is worked out first decides, and is gone by then."""


@dataclass(frozen=True, slots=True)
class Midway:
    """Of one place in a program."""

    called: str
    """The name of the function that is called there, without what it is looked up in."""
    gathers: str
    """The comprehension around it, as it is written."""
    waiting: tuple[str, ...]
    """What calls gave that were made for the same statement before, as these are written."""
    managers: tuple[str, ...]
    """What the `with` blocks around it were given, the innermost first, as expressions."""


def look(tree: ast.AST, at: Position, within: Position | None = None) -> Midway | None:
    """What is known of a place; None if there is nothing. `within`: what drives the loop of which it is an iteration; what is around that
    loop does not count."""
    path = path_to(tree, at)
    if path is None:
        return None
    end = _loop_of(path, None if within is None else path_to(tree, within))
    gathers, managers = ast.unparse(path[-1]) if isinstance(path[-1], _GATHERING) else "", list[str]()
    waiting = list[str]()
    in_statement = True
    for above, below in zip(path[-2::-1], path[:0:-1], strict=True):
        if above is end or isinstance(above, _FUNCTIONS):
            break
        if isinstance(above, ast.GeneratorExp):  # what is around it runs when it is asked for its next item
            break
        if isinstance(above, _GATHERING):
            gathers = gathers or ast.unparse(above)
        if isinstance(above, (ast.With, ast.AsyncWith)):
            entered = above.items[: above.items.index(below)] if isinstance(below, ast.withitem) else above.items
            managers += [ast.unparse(item.context_expr) for item in reversed(entered)]
        if in_statement:
            waiting = [*(ast.unparse(one) for one in _before(above, below) if _calls(one)), *waiting]
            in_statement = not isinstance(above, ast.stmt)
    here = path[-1]
    called = ast.unparse(here.func).rpartition(".")[2] if isinstance(here, ast.Call) else ""
    return Midway(called, gathers, tuple(waiting), tuple(managers))


def path_to(tree: ast.AST, at: Position) -> list[ast.AST] | None:
    """From the whole text to the innermost expression that stands exactly there; a call may be told by its end alone."""
    exact: list[ast.AST] | None = None
    ending: list[ast.AST] | None = None
    pending: list[list[ast.AST]] = [[tree]]
    while pending:
        path = pending.pop()
        node = path[-1]
        place = _position(node)
        if place is not None:
            if not _holds(place, at):
                continue
            if place == at and isinstance(node, (ast.For, ast.AsyncFor)):  # Python 3.11 says so of what drives a loop
                return [*path, node.iter]
            if place == at and isinstance(node, ast.expr) and (exact is None or len(path) > len(exact)):
                exact = path
            elif isinstance(node, ast.Call) and (place[1], place[3]) == (at[1], at[3]) and (ending is None or len(path) > len(ending)):
                ending = path
        pending += [[*path, child] for child in ast.iter_child_nodes(node)]
    return exact or ending


def _position(node: ast.AST) -> Position | None:
    if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno is None or node.end_col_offset is None:
        return None
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _holds(place: Position, at: Position) -> bool:
    """Whether a place ends behind the end of another, and does not begin behind its end. Decorated functions begin at their decorators."""
    return (place[1], place[3]) >= (at[1], at[3]) and (place[0], place[2]) <= (at[1], at[3])


def _loop_of(path: Sequence[ast.AST], driven_by: Sequence[ast.AST] | None) -> ast.AST | None:
    """The innermost loop statement that both are in."""
    both = [] if driven_by is None else [one for one, other in zip(path, driven_by, strict=False) if one is other]
    return next((node for node in reversed(both) if isinstance(node, _LOOPS)), None)


def _before(above: ast.AST, below: ast.AST) -> Iterator[ast.AST]:
    """What of an expression or statement is worked out before one of its parts, and waits for it."""
    if isinstance(above, (*_NOTHING_WAITS, *_GATHERING)) or (isinstance(above, ast.stmt) and not isinstance(above, ast.AugAssign)):
        return
    if isinstance(above, ast.Call) and below is not above.func:
        yield from _until([*above.args, *above.keywords], below)  # whose method it is, is found again
    elif isinstance(above, ast.Dict):
        yield from _until([part for pair in zip(above.keys, above.values, strict=True) for part in pair if part is not None], below)
    elif not isinstance(above, ast.Call):
        yield from _until(list(ast.iter_child_nodes(above)), below)


def _until(parts: Sequence[ast.AST], below: ast.AST) -> Sequence[ast.AST]:
    return parts[: parts.index(below)] if below in parts else ()


def _calls(node: ast.AST) -> bool:
    return any(isinstance(inner, _CALLING) for inner in ast.walk(node))
