"""Names that stand in the same place of two statements, and so may be the same variable: evidence for what it is called in each version.

The place of a part is what it does, not where it is written: the operands of a sum or a product may stand in another order, arguments and
entries that have names are known by these. Knows syntax. Must not know which statements are counterparts. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rearview.propagate.heads import head_of

_NAMED: dict[type[ast.AST], tuple[str, ...]] = {ast.Call: ("keywords",), ast.Dict: ("keys", "values")}
"""The fields that hold parts with names."""
_SUM, _PRODUCT = (ast.Add, ast.Sub), (ast.Mult,)


def side_by_side(new: ast.AST, old: ast.AST) -> Iterator[tuple[str, str, bool]]:
    """Names that stand in the same place of two statements: (new, old, whether they are bound there)."""
    mine, theirs = head_of(new), head_of(old)
    if isinstance(new, ast.FunctionDef | ast.AsyncFunctionDef) and isinstance(old, ast.FunctionDef | ast.AsyncFunctionDef):
        yield new.name, old.name, True
        yield from _parameters(new.args, old.args)
        return
    for one, other in zip(mine, theirs, strict=False):
        yield from _walk(one, other)


def _parameters(new: ast.arguments, old: ast.arguments) -> Iterator[tuple[str, str, bool]]:
    mine = [one.arg for one in (*new.posonlyargs, *new.args, *new.kwonlyargs)]
    theirs = [one.arg for one in (*old.posonlyargs, *old.args, *old.kwonlyargs)]
    for name in mine:
        if name in theirs:
            yield name, name, True
    if len(mine) == len(theirs):
        for one, other in zip(mine, theirs, strict=True):
            if one not in theirs and other not in mine:
                yield one, other, True


def _walk(new: ast.AST, old: ast.AST) -> Iterator[tuple[str, str, bool]]:
    if isinstance(new, ast.Name) and isinstance(old, ast.Name):
        yield new.id, old.id, not isinstance(new.ctx, ast.Load)
        return
    if type(new) is not type(old):
        return
    operands = _operands_of(new, old)
    mine, theirs = _named(new), _named(old)
    for left, right in operands if operands is not None else [(mine[key], theirs[key]) for key in mine if key in theirs]:
        yield from _walk(left, right)
    if operands is not None:
        return
    for field in [field for field in new._fields if field not in _NAMED.get(type(new), ())]:
        one, other = getattr(new, field, None), getattr(old, field, None)
        if isinstance(one, ast.AST) and isinstance(other, ast.AST):
            yield from _walk(one, other)
        elif isinstance(one, list) and isinstance(other, list):
            for pair in _zip(*([part for part in parts if isinstance(part, ast.AST)] for parts in (one, other))):
                yield from _walk(*pair)


def _zip(new: list[ast.AST], old: list[ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Parts of two lists that stand in the same place: from both ends where their lengths differ, as far as they are equal."""
    if len(new) == len(old):
        yield from zip(new, old, strict=True)
        return
    mine, theirs = [ast.dump(one) for one in new], [ast.dump(one) for one in old]
    for index, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        if one != other:
            break
        yield new[index], old[index]
    for index, (one, other) in enumerate(zip(reversed(mine), reversed(theirs), strict=False), 1):
        if one != other:
            break
        yield new[-index], old[-index]


def _named(node: ast.AST) -> dict[str, ast.expr]:
    """The parts of a call or a table that have names."""
    if isinstance(node, ast.Call):
        return {one.arg or "": one.value for one in node.keywords}
    if isinstance(node, ast.Dict):
        return {ast.dump(key) if key else "": value for key, value in zip(node.keys, node.values, strict=True)}
    return {}


def _operands_of(new: ast.AST, old: ast.AST) -> list[tuple[ast.expr, ast.expr]] | None:
    """The operands of two sums or products that are each other's: those that share a part with no other, and the last one of each.

    Where none shares anything (`error * error`, `miss * miss`), they are taken in their order, which people keep.
    """
    if not isinstance(new, ast.BinOp) or not isinstance(old, ast.BinOp):
        return None
    kind = next((one for one in (_SUM, _PRODUCT) if isinstance(new.op, one) and isinstance(old.op, one)), None)
    if kind is None:
        return None
    mine, theirs = [(one, _parts(one)) for one in _operands(new, kind)], [(one, _parts(one)) for one in _operands(old, kind)]
    found = []
    for one in list(mine):
        alike = [other for other in theirs if one[1] & other[1]]
        if len(alike) == 1 and sum(1 for rival in mine if rival[1] & alike[0][1]) == 1:
            found.append((one[0], alike[0][0]))
            mine.remove(one)
            theirs.remove(alike[0])
    if len(mine) == len(theirs) and (len(mine) == 1 or not found):
        found += [(one, other) for (one, _), (other, _) in zip(mine, theirs, strict=True)]
    return found


def _operands(node: ast.expr, kind: tuple[type[ast.operator], ...]) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, kind):
        return [*_operands(node.left, kind), *_operands(node.right, kind)]
    return [node]


def _parts(node: ast.AST) -> set[str]:
    """What an operand is known by: the variables, attributes and constants in it."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Constant):
        return {ast.dump(node)}
    return {part for one in ast.iter_child_nodes(node) for part in _parts(one)}
