"""Calls by which a program may change what belongs to a library: `np.set_printoptions(...)`, `locale.setlocale(...)`.

Of what they set only some is in a stored state (`state/process`). Of such a call that may run after the main loop has begun, a statement is
not answered from states: always, if the function is called like one that sets something, or if the statement calls it too. What sets a
thing before the main loop sets it again in every worker. Knows source. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rearview.instrument.calls import bodies, first_line, heads, nodes, statements, tree_of
from rearview.instrument.depth import Depth, depths
from rearview.instrument.foreign import Lines, imported
from rearview.instrument.modules import Modules

_SETTING = re.compile(r"(set(?!diff1d|xor1d)|unset|use_|use$|enable_|disable_|register|unregister|add_|install|configure)")
_KNOWN = frozenset(
    "set_default_dtype use_deterministic_algorithms set_float32_matmul_precision set_num_threads seterr setrecursionlimit setstate "
    "set_state set_rng_state set_rng_state_all set_epoch set_seed setattr".split()
)
"""What states have, with the random streams, or `foreign` finds."""
_ELSEWHERE = frozenset("os sys logging warnings gc signal threading atexit time unittest click argparse".split())
"""Modules whose settings change no value, or which a statement that names them is not answered from states for anyway."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A call that may change what belongs to a library."""

    file: str
    line: int
    text: str
    """`np.set_printoptions`."""
    sets: bool
    """It is called like something that sets; else it may only be meant by a statement that calls it too."""

    @property
    def function(self) -> str:
        return self.text.rpartition(".")[2]


def settings(files: Mapping[str, str], entry: str | None, added: Sequence[tuple[str, Lines]] = ()) -> list[Setting]:
    """Everything of that kind that may run after the main loop has begun; not what was `added` in hindsight."""
    modules = Modules(files)
    found: list[Setting] = []
    for file, text in files.items():
        try:
            tree = tree_of(text) if file.endswith(".py") else None
        except (SyntaxError, ValueError, RecursionError):
            continue
        if tree is not None:
            mine = [place for path, place in added if path == file]
            body = tree.body if entry in (None, file) else _in_functions(tree)  # what a module does when it is imported, it does again
            calls = _calls(body, file, imported(tree, file, modules))
            found += [one for one in calls if not any(place[0] <= one.line <= place[2] for place in mine)]
    where = depths(files, [(one.file, one.line) for one in found], entry, added) if found else []
    return [one for one, depth in zip(found, where, strict=True) if depth not in (Depth(), Depth(prefix=True))]


def _in_functions(tree: ast.Module) -> list[ast.stmt]:
    """The bodies of a module's functions, and of the methods of its classes."""
    found: list[ast.stmt] = []
    pending: list[ast.stmt] = list(tree.body)
    for one in pending:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            found += one.body
        else:
            pending += [inner for body in bodies(one) for inner in body]
    return found


def _calls(body: list[ast.stmt], file: str, theirs: set[str]) -> Iterator[Setting]:
    """Calls of libraries that set something, and those whose value nobody takes: they are made for their effect."""
    for statement in statements(body):
        if isinstance(statement, ast.With | ast.AsyncWith):
            continue  # what it sets, it puts back
        dropped = {id(one) for one in _dropped(statement.value)} if isinstance(statement, ast.Expr) else set()
        for part in heads(statement):
            for node in nodes(part):
                text = _dotted(node.func) if isinstance(node, ast.Call) else ""
                first, last = text.partition(".")[0], text.rpartition(".")[2]
                if first in theirs and first not in _ELSEWHERE and last not in _KNOWN:
                    sets = _SETTING.match(last) is not None
                    if sets or id(node) in dropped:
                        yield Setting(file, first_line(statement), text, sets)


def _dropped(value: ast.expr) -> Iterator[ast.expr]:
    """An expression whose value is dropped, with those that it may come to."""
    yield value
    for one in [value.body, value.orelse] if isinstance(value, ast.IfExp) else value.values if isinstance(value, ast.BoolOp) else []:
        yield from _dropped(one)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""
