"""Statements that only tell: they print, log or report, and change nothing that the program goes on with.

Between such statements any order is as good as another, and a version may tell by other means (`print`, or a function of its own that
passes everything on to it). Knows calls by their names. Must not know where a statement goes. Pure.
"""

from __future__ import annotations

import ast
import builtins

from rearview.instrument.companions import TELLS
from rearview.instrument.scopes import of_own
from rearview.propagate.tree import Node

_METHODS = frozenset("info debug warning warn error exception critical log".split())


def tells(node: Node) -> bool:
    """Whether a statement only tells: a call of what prints or logs, or an `if` around nothing else."""
    statement = node.syntax
    if isinstance(statement, ast.If):
        return set(node.blocks) == {"body"} and all(one.nothing or tells(one) for one in node.blocks["body"])
    name = _called(statement)
    return name is not None and TELLS.fullmatch(name) is not None


def _called(statement: ast.AST) -> str | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    return call.func.attr if isinstance(call.func, ast.Attribute) else voice(statement)


def voice(statement: ast.AST) -> str | None:
    """The plain name of what a statement calls for its own sake."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None


def receivers(statement: ast.AST) -> set[str]:
    """The plain names whose methods a statement logs by: `logger` of `logger.info(...)`."""
    calls = [one.func for one in ast.walk(statement) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
    return {one.value.id for one in calls if isinstance(one.value, ast.Name) and one.attr in _METHODS}


def loggers(module: ast.Module) -> list[str]:
    """What a version logs by: its loggers, or else the module `logging`."""
    made = [one for one in of_own(module) if isinstance(one, ast.Assign) and _makes_logger(one.value)]
    names = {target.id for one in made for target in one.targets if isinstance(target, ast.Name)}
    imports = [one for one in module.body if isinstance(one, ast.Import)]
    plain = {one.asname or one.name for statement in imports for one in statement.names if one.name == "logging"}
    return sorted(names or plain)


def _makes_logger(value: ast.expr) -> bool:
    name = value.func if isinstance(value, ast.Call) else None
    return (name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")) in ("getLogger", "get_logger")


def prints(statement: ast.FunctionDef) -> bool:
    """Whether a function prints what it is given first, as it is: a program's own way to tell."""
    given = [one.arg for one in (*statement.args.posonlyargs, *statement.args.args, statement.args.vararg) if one is not None][:1]
    calls = [one for one in ast.walk(statement) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "print"]
    first = [call.args[0] for call in calls if call.args]
    plain = [one.value if isinstance(one, ast.Starred) else one for one in first]
    return any(isinstance(one, ast.Name) and one.id in given for one in plain)


def passes_on(statement: ast.AST) -> str | None:
    """The builtin that a function passes all its arguments on to, doing nothing else but decide whether to."""
    if not isinstance(statement, ast.FunctionDef) or not statement.args.vararg:
        return None
    inner = statement.body[-1]
    while isinstance(inner, ast.If) and len(inner.body) == 1 and not inner.orelse:
        inner = inner.body[0]
    call = inner.value if isinstance(inner, ast.Expr) else None
    if len(statement.body) > 2 or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    through = [one.value for one in call.args if isinstance(one, ast.Starred)]
    mine = any(isinstance(one, ast.Name) and one.id == statement.args.vararg.arg for one in through)
    return call.func.id if mine and hasattr(builtins, call.func.id) else None
