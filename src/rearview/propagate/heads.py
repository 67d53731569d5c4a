"""What a single statement says by itself: its head without the blocks below it, the words in that, what it is taken hold of by. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator


def head_of(node: ast.AST) -> list[ast.AST]:
    """What of a statement is its own: all of a simple one, the rest around the blocks of others."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [ast.Constant(node.name), node.args, *node.decorator_list]
    if isinstance(node, ast.ClassDef):
        return [ast.Constant(node.name), *node.bases, *node.keywords, *node.decorator_list]
    if isinstance(node, ast.If | ast.While):
        return [node.test]
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.target, node.iter]
    if isinstance(node, ast.With | ast.AsyncWith):
        return [part for one in node.items for part in (one.context_expr, one.optional_vars) if part]
    if isinstance(node, ast.Match):
        return [node.subject]
    if isinstance(node, ast.match_case):
        return [node.pattern, *([node.guard] if node.guard else [])]
    if isinstance(node, ast.ExceptHandler):
        return [*([node.type] if node.type else []), *([ast.Constant(node.name)] if node.name else [])]
    if isinstance(node, ast.Try | ast.TryStar | ast.Module):
        return []
    return [node]


def count_words(node: ast.AST, found: Counter[str]) -> None:
    """The names, attributes, values and operators in some syntax, each as often as it is there."""
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, ast.Name):
            found[one.id] += 1
        elif isinstance(one, ast.Attribute):
            found["." + one.attr] += 1
            pending.append(one.value)
        elif isinstance(one, ast.Constant):
            found[repr(one.value)[:80]] += 1
        else:
            if isinstance(one, ast.arg):
                found[one.arg] += 1
            elif isinstance(one, ast.keyword):
                found[f"{one.arg}="] += 1
            elif isinstance(one, ast.alias):
                found[one.name] += 1
            elif isinstance(one, ast.operator | ast.cmpop | ast.unaryop | ast.boolop):
                found[type(one).__name__] += 1
            pending.extend(ast.iter_child_nodes(one))


def handles_of(node: ast.AST) -> Iterator[str]:
    """What a statement is taken hold of by: what it assigns, and what it calls or reads first."""
    targets: list[ast.expr] = []
    value: ast.AST | None = None
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets, value = [node.target], node.value
    elif isinstance(node, ast.For | ast.AsyncFor):
        targets, value = [node.target], node.iter
    elif isinstance(node, ast.Expr | ast.Return):
        value = node.value
    for target in targets:
        for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            yield "=" + ast.unparse(one)
    while isinstance(value, ast.Await | ast.Subscript):
        value = value.value
    if isinstance(value, ast.Call):
        yield "()" + (value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "?"))
    elif isinstance(value, ast.Name):
        yield value.id
