"""Added statements that nobody asked for are left out of what runs; every other line stays where it is. Pure: text in, text out.

Only calls that stand alone are left out, with the conditions around them: what assigns something, or calls something else, may be needed
by another statement.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from rearview.instrument.added import Added, Log, Place
from rearview.instrument.calls import bodies, heads, statements, tree_of

_NOTHING = b"pass"
_STILL = frozenset("len isinstance hasattr int float abs no_grad inference_mode".split())


def narrowed(added: Added, files: dict[str, str], asked: Collection[Log]) -> tuple[Added, dict[str, str]]:
    """What was added, and the files, without the statements that only log what is not asked for."""
    left = dict(files)
    gone: set[int] = set()
    for file in {group.file for group in added.groups if group.file in files}:
        groups = {number: group.place for number, group in enumerate(added.groups) if group.file == file}
        wanted = frozenset(log.line for log in asked if log.file == file)  # a line with one of them stays as it is
        others = [log for log in added.logs if log.file == file and log.line not in wanted]
        if not others:
            continue
        tree = tree_of(files[file])
        places: list[Place] = []
        for number, group in groups.items():
            inside = outermost(tree, group)
            dropped = [one for one in inside if only_logs(others, one)]
            places += map(_place, dropped)
            if inside and len(dropped) == len(inside):
                gone.add(number)
        left[file] = without(files[file], places)
    return _without_groups(added, gone), left


def is_one_of(logs: Iterable[Log], statement: ast.stmt) -> bool:
    """Whether a statement of their file is one of some logs, and nothing else: others may share its line."""
    here = [log for log in logs if log.line == statement.lineno] if isinstance(statement, ast.Expr) else []
    return any(ast.unparse(tree_of(log.text)) == ast.unparse(statement) for log in here)


def only_logs(logs: Sequence[Log], statement: ast.stmt) -> bool:
    """Whether a statement is one of some logs, or a condition around nothing else that computes no more than whether it holds."""
    if not isinstance(statement, ast.If | ast.With):
        return is_one_of(logs, statement)
    inside = [one for body in bodies(statement) for one in body]
    around = [node for head in heads(statement) for node in ast.walk(head)]
    does = any(isinstance(node, ast.NamedExpr) or (isinstance(node, ast.Call) and not _is_still(node)) for node in around)
    named = isinstance(statement, ast.With) and any(item.optional_vars for item in statement.items)
    return not does and not named and all(isinstance(one, ast.Pass) or only_logs(logs, one) for one in inside)


def _is_still(call: ast.Call) -> bool:
    """A call that leaves everything as it was."""
    return (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) in _STILL


def outermost(tree: ast.Module, group: Place) -> list[ast.stmt]:
    """The statements of a group, without those inside them."""
    inside = [one for one in statements(tree.body) if group[:2] <= _place(one)[:2] and _place(one)[2:] <= group[2:]]
    deeper = {id(inner) for one in inside for body in bodies(one) for inner in statements(body)}
    return [one for one in inside if id(one) not in deeper]


def _place(statement: ast.stmt) -> Place:
    return statement.lineno, statement.col_offset, statement.end_lineno or statement.lineno, statement.end_col_offset or 0


def without(text: str, places: Sequence[Place]) -> str:
    """A file whose statements at some places do nothing. Lines keep their numbers.

    >>> without("a = 1\\nlog(\\n  a)\\nb = 2\\n", [(2, 0, 3, 4)])
    'a = 1\\npass\\n\\nb = 2\\n'
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = [line.encode("utf-8", "surrogatepass") for line in text.removeprefix(mark).split("\n")]
    for first, column, last, end in sorted(places, reverse=True):
        head, tail = lines[first - 1][:column], lines[last - 1][end:]
        lines[first - 1 : last] = [head + _NOTHING + tail, *([b""] * (last - first))]
    return mark + b"\n".join(lines).decode("utf-8", "surrogatepass")


def _without_groups(added: Added, gone: Collection[int]) -> Added:
    kept = [number for number in range(len(added.groups)) if number not in gone]
    now = {number: at for at, number in enumerate(kept)}
    logs = tuple(replace(log, group=now[log.group]) for log in added.logs if log.group in now)
    return replace(added, logs=logs, groups=tuple(added.groups[number] for number in kept))
