"""What became of a case: the statement is where it was, or elsewhere, or in other words.

exact: the program is X again. same: right up to the order among adjacent log statements. names: right place, other variables. wrong:
another place. other: something else was changed too. broken: no program any more. refuse: nothing placed, which is right for a *cannot*;
false: placed though it cannot be.
"""

from __future__ import annotations

import ast
import csv
from pathlib import Path
from typing import Any

from bench.propagate.logunits import dump, find_insertion, is_unit, norm

_NUMBERS = ("y_line", "y_end", "x_line", "x_end", "dist_lines")
_FLAGS = ("moved", "multi", "only_child")


def load(path: Path) -> list[dict[str, Any]]:
    """The cases."""
    with path.open(newline="", encoding="utf-8") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row.update({name: int(row[name]) for name in _NUMBERS})
        row.update({name: row[name] == "True" for name in _FLAGS})
    return rows


def judge(case: dict[str, Any], truth: str, without: str, out: str | None) -> str:
    """The verdict on what came back."""
    if out is None:
        return "refuse"
    try:
        tree = ast.parse(out)
    except SyntaxError:
        return "broken"
    if case["kind"] == "place" and ast.dump(tree) == ast.dump(ast.parse(truth)):
        return "exact"
    got_tree, before = norm(tree), norm(ast.parse(without))
    if dump(got_tree) == dump(before):
        return "refuse"
    if case["kind"] == "cannot":
        return "false"
    truth_tree = norm(ast.parse(truth))
    if dump(got_tree) == dump(truth_tree):
        return "exact"
    return _compare(before, find_insertion(before, truth_tree), find_insertion(before, got_tree))


def _compare(before: ast.AST, truth: Any, got: Any) -> str:
    if not isinstance(truth, tuple) or not isinstance(got, tuple):
        return "other"
    (path, index, statement), (got_path, got_index, got_statement) = truth, got
    if path != got_path:
        return "wrong"
    block = _block(before, path)
    if not all(is_unit(one) for one in block[min(index, got_index) : max(index, got_index)]):
        return "wrong"
    return "same" if dump(statement) == dump(got_statement) else "names"


def _block(tree: Any, path: tuple[Any, ...]) -> Any:
    """The statement list that a path leads to."""
    for step in path:
        if isinstance(step, int):
            tree = tree[step]
        elif step.startswith(("handlers", "cases")):
            kind = "handlers" if step.startswith("handlers") else "cases"
            tree = getattr(tree, kind)[int(step[len(kind) :])].body
        else:
            tree = getattr(tree, step)
    return tree
