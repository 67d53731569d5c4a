"""Functions that a statement calls and that take their arguments in another order in the old version.

`gap(model, target)` of today means something else where it was `def gap(target, model)`: it would run, and give another value. Knows
functions by their names, wherever they stand. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from rearview.instrument.calls import statements, tree_of

Parameters = Mapping[str, frozenset[tuple[str, ...]]]
"""The names of functions and classes -> what they are called with by position; several if there are several of a name."""
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def parameters_of(tree: ast.Module) -> Parameters:
    """Of the functions, methods and classes of a file."""
    found: dict[str, frozenset[tuple[str, ...]]] = {}
    for one in statements(tree.body):
        if isinstance(one, _FUNCTION):
            found[one.name] = found.get(one.name, frozenset()) | {_by_position(one.args)}
        elif isinstance(one, ast.ClassDef):
            made = {_by_position(inner.args) for inner in one.body if isinstance(inner, _FUNCTION) and inner.name == "__init__"}
            found[one.name] = found.get(one.name, frozenset()) | made
    return found


@lru_cache(maxsize=512)
def parameters_in(text: str) -> Parameters:
    """The same of a text."""
    try:
        return parameters_of(tree_of(text))
    except (SyntaxError, ValueError, RecursionError):
        return {}


def together(every: Iterable[Parameters]) -> Parameters:
    """Those of several files."""
    found: dict[str, frozenset[tuple[str, ...]]] = {}
    for one in every:
        for name, known in one.items():
            found[name] = found.get(name, frozenset()) | known
    return found


def exchanged(statement: Iterable[ast.AST], new: Parameters, old: Parameters, renamed: Mapping[str, str]) -> Iterator[str]:
    """What is doubtful about the calls of some statements of the new version."""
    for call in (one for node in statement for one in ast.walk(node) if isinstance(one, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
        today, then = new.get(name, frozenset()), old.get(renamed.get(name, name), frozenset())
        given = next((k for k, one in enumerate(call.args) if isinstance(one, ast.Starred)), len(call.args))
        if today and then and not today & then and all(_moved(mine, theirs, given) for mine in today for theirs in then):
            yield f"`{name}` takes its arguments in another order there"


def _by_position(given: ast.arguments) -> tuple[str, ...]:
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    return tuple(names[1:] if names[:1] in (["self"], ["cls"]) else names)


def _moved(new: tuple[str, ...], old: tuple[str, ...], given: int) -> bool:
    """Whether one of the first arguments of one is elsewhere in the other."""
    return any(name in old and old.index(name) != index for index, name in enumerate(new[:given]))
