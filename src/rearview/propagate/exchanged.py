"""Functions that a statement calls and that take their arguments in another order in the old version.

`gap(model, target)` of today means something else where it was `def gap(target, model)`: it would run, and give another value. Knows
functions by their names, wherever they stand. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache

from rearview.instrument.calls import statements, tree_of
from rearview.instrument.pieces import pieces_of

Parameters = Mapping[str, frozenset[tuple[str, ...]]]
"""The names of functions and classes -> what they are called with by position; several if there are several of a name."""
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=4096)
def _parameters(text: str) -> Parameters:
    """Of the functions, methods and classes of a piece of a file."""
    found: dict[str, frozenset[tuple[str, ...]]] = {}
    for one in statements(tree_of(text).body):
        if isinstance(one, _FUNCTION):
            found[one.name] = found.get(one.name, frozenset()) | {_by_position(one.args)}
        elif isinstance(one, ast.ClassDef):
            made = {_by_position(inner.args) for inner in one.body if isinstance(inner, _FUNCTION) and inner.name == "__init__"}
            found[one.name] = found.get(one.name, frozenset()) | made
    return found


def _called(name: str, texts: Iterable[str]) -> frozenset[tuple[str, ...]]:
    """What the functions and classes of a name are called with by position, in some files."""
    found: frozenset[tuple[str, ...]] = frozenset()
    for text in texts:
        try:
            pieces = [piece for piece in pieces_of(text) if name in piece.defines] if _may_define(text, name) else []
            found = found.union(*(_parameters(piece.text).get(name, ()) for piece in pieces))
        except (SyntaxError, ValueError, RecursionError):
            continue  # a file that is no program has none
    return found


def _may_define(text: str, name: str) -> bool:
    """Whether a file may define a function or class of a name: most define none, and need not be taken to pieces."""
    return any(before.rstrip("\\ \t\f\r\n").endswith(("def", "class")) for before in text.split(name)[:-1])


def exchanged(statement: Iterable[ast.AST], new: Collection[str], old: Collection[str], renamed: Mapping[str, str]) -> Iterator[str]:
    """What is doubtful about the calls of some statements of the new version. `new`, `old`: the texts of the two versions."""
    for call in (one for node in statement for one in ast.walk(node) if isinstance(one, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
        given = next((k for k, one in enumerate(call.args) if isinstance(one, ast.Starred)), len(call.args))
        today = _called(name, new) if name and given else frozenset()
        then = _called(renamed.get(name, name), old) if today else frozenset()
        if today and then and not today & then and all(_moved(mine, theirs, given) for mine in today for theirs in then):
            yield f"`{name}` takes its arguments in another order there"


def _by_position(given: ast.arguments) -> tuple[str, ...]:
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    return tuple(names[1:] if names[:1] in (["self"], ["cls"]) else names)


def _moved(new: tuple[str, ...], old: tuple[str, ...], given: int) -> bool:
    """Whether one of the first arguments of one is elsewhere in the other."""
    return any(name in old and old.index(name) != index for index, name in enumerate(new[:given]))
