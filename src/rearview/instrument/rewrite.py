"""The program text that runs in a replay: loops that can be skipped are marked, probes are known as such. Positions stay the original ones.

Three names in it are provided by the replayer: `__rearview_for__(loop, has_else)` gives the loop back, marked as one that a `for`
statement drives and nothing else; `__rearview_broke__()` says once that the loop which just yielded had ended by `break`; and
`with __rearview_probe__(k):` stands around the statements of probe k. All three must let any object and any place pass: what looks
like a call of `rv.loop` here may be something else. Must not know what skipping is. Pure: tree in, tree out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from types import CodeType

from rearview.instrument.calls import DELAYED, Calls, bodies, first_line, last_line
from rearview.instrument.driving import driven_loops, scopes

MARK = "__rearview_for__"
BROKE = "__rearview_broke__"
PROBE = "__rearview_probe__"
ITEM = "__rearview_item__"
"""A variable that lives from the head of a loop to the first line of its body."""

_DELETING = ("pop", "__delitem__", "__delattr__", "delattr")

Span = tuple[int, int] | tuple[int, int, int, int, int]
"""A line and the number of its probe: what begins on that line and logs. Or line, column, end line, end column and the number:
everything between, with the temporaries and the statements around it that were added together."""


def rewrite(tree: ast.Module, probes: Sequence[Span] = ()) -> ast.Module:
    """The same program with its loops marked and its probes wrapped, in place."""
    _Rewriting(tree, probes).run()
    return tree


def deleted_names(tree: ast.Module) -> set[str]:
    """Variables and attributes that a program deletes somewhere; also by their names, in what may be a namespace.

    >>> sorted(deleted_names(ast.parse("del x, a.b, c[0]; globals().pop('y', 0); delattr(m, 'z'); exec('del w')")))
    ['b', 'w', 'x', 'y', 'z']
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Delete):
            found.update(name for target in node.targets for one in ast.walk(target) if (name := _deleted(one)) is not None)
        elif isinstance(node, ast.Call):
            found |= _deleted_by(node)
    return found


def _deleted(target: ast.AST) -> str | None:
    if not isinstance(getattr(target, "ctx", None), ast.Del):
        return None
    if isinstance(target, ast.Subscript):
        return _constant(target.slice)
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else None


def _deleted_by(call: ast.Call) -> set[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
    given = _constant(call.args[name == "delattr"]) if len(call.args) > (name == "delattr") else None
    if given is None:
        return set()
    if name in ("exec", "eval"):
        try:
            return deleted_names(ast.parse(given))
        except (SyntaxError, ValueError, RecursionError):
            return set()
    return {given} if name in _DELETING else set()


def _constant(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def compile_rewritten(
    data: bytes, path: str, probes: Sequence[Span] = (), deleted: set[str] | None = None, placed: Sequence[tuple[int, int]] = ()
) -> CodeType:  # fmt: skip
    """The code of a file's bytes, rewritten; encoding cookies and future statements count. SyntaxError as from the bytes themselves.

    `deleted` takes the names that the program deletes. `placed`: lines that are in no file of the user's, and how they are called: the
    lines behind them are numbered as if they were not there.
    """
    tree = ast.parse(data, path)
    if deleted is not None:
        deleted |= deleted_names(tree)
    work = _Rewriting(tree, probes)
    work.run()
    for line, called in placed:
        _leave_out(tree, line, called)
        work.changed = True
    try:
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
    except RecursionError:  # a tree may be too deep where the text is not
        if work.changed:
            raise
        code = compile(data, path, "exec", dont_inherit=True)
    return code


def without_lines(data: bytes, lines: Sequence[int]) -> bytes:
    """The bytes of a file without some lines.

    >>> without_lines(b"a\\nb\\nc\\n", [2])
    b'a\\nc\\n'
    """
    return b"".join(text for at, text in enumerate(re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", data), 1) if at not in lines)


def _leave_out(tree: ast.Module, line: int, called: int) -> None:
    """Number lines as if one were not there."""
    for node in ast.walk(tree):
        for name in ("lineno", "end_lineno"):
            at = getattr(node, name, None)
            if isinstance(at, int) and at >= line:
                setattr(node, name, called if at == line else at - 1)


class _Rewriting:
    def __init__(self, tree: ast.Module, probes: Sequence[Span]) -> None:
        self._tree = tree
        self._calls = Calls(tree)
        self._places = [span for span in probes if len(span) == 5]
        self._lines = dict(span for span in probes if len(span) == 2)
        self.changed = False

    def run(self) -> None:
        """Probes first: they are found by their places, which stay; then loops, scope by scope."""
        if self._places or self._lines:
            pending = [self._tree.body]
            while pending:
                body = pending.pop()
                outside = [one for one in body if self._probe_of(one) is None]  # what is in a probe is not looked into
                pending.extend(inner for one in outside for inner in bodies(one))
                self._wrap_probes(body)
        for scope in scopes(self._tree):
            self._mark_loops(scope)

    # -- probes --------------------------------------------------------------------------------------------------------

    def _wrap_probes(self, body: list[ast.stmt]) -> None:
        wrapped: list[ast.stmt] = []
        open_index: int | None = None
        for statement in body:
            index = self._probe_of(statement)
            if index is not None and index == open_index:
                around = wrapped[-1]
                assert isinstance(around, ast.With)
                around.body.append(statement)
                around.end_lineno, around.end_col_offset = statement.end_lineno, statement.end_col_offset
            elif index is not None:
                wrapped.append(_probe(statement, index))
                self.changed = True
            else:
                wrapped.append(statement)
            open_index = index
        body[:] = wrapped

    def _probe_of(self, statement: ast.stmt) -> int | None:
        for line, column, end_line, end_column, index in self._places:
            if _inside(statement, (line, column), (end_line, end_column)):
                return index
        known = self._lines.get(statement.lineno)
        if known is None or isinstance(statement, DELAYED) or not any(self._calls.called(one) == "log" for one in ast.walk(statement)):
            return None
        return known

    # -- loops ---------------------------------------------------------------------------------------------------------

    def _mark_loops(self, scope: list[ast.stmt]) -> None:
        broken: set[int] = set()
        for loop in list(driven_loops(scope, self._is_loop)):
            mark = ast.Call(func=ast.Name(MARK, ast.Load()), args=[loop.call, *_whether_else(loop.statement)], keywords=[])
            loop.put(_placed(mark, loop.call))
            self.changed = True
            if loop.statement.orelse and id(loop.statement) not in broken:
                broken.add(id(loop.statement))
                _break_first(loop.statement)

    def _is_loop(self, call: ast.Call) -> bool:
        named = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        return named == "loop" or self._calls.called(call) == "loop"


def _whether_else(statement: ast.For) -> list[ast.expr]:
    return [ast.Constant(True)] if statement.orelse else []


def _placed(node: ast.expr, at: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(ast.copy_location(node, at))


def _inside(statement: ast.stmt, begin: tuple[int, int], end: tuple[int, int]) -> bool:
    line = first_line(statement)
    at = (line, statement.col_offset if line == statement.lineno else 0)
    return begin <= at and (last_line(statement), statement.end_col_offset or 0) <= end


def _probe(statement: ast.stmt, index: int) -> ast.With:
    call = ast.Call(func=ast.Name(PROBE, ast.Load()), args=[ast.Constant(index)], keywords=[])
    around = ast.With(items=[ast.withitem(context_expr=call)], body=[])
    line = first_line(statement)
    around.lineno, around.col_offset = line, statement.col_offset
    around.end_lineno, around.end_col_offset = line, statement.col_offset + 1
    ast.fix_missing_locations(around)
    around.body.append(statement)
    around.end_lineno, around.end_col_offset = statement.end_lineno, statement.end_col_offset
    return around


def _break_first(statement: ast.For) -> None:
    """`for T in E: BODY` to `for item in E: if broke(): del item; break; T = item; del item; BODY`: a target is assigned only if it was."""
    target = statement.target
    at = ast.copy_location(ast.Pass(), target)
    leave = ast.If(
        test=ast.Call(func=ast.Name(BROKE, ast.Load()), args=[], keywords=[]), body=[ast.Delete([ast.Name(ITEM, ast.Del())]), ast.Break()],
        orelse=[],
    )  # fmt: skip
    first: list[ast.stmt] = [leave, ast.Assign([target], ast.Name(ITEM, ast.Load())), ast.Delete([ast.Name(ITEM, ast.Del())])]
    statement.target = ast.copy_location(ast.Name(ITEM, ast.Store()), target)
    statement.body[:0] = [_located(one, at) for one in first]


def _located(statement: ast.stmt, at: ast.stmt) -> ast.stmt:
    for node in ast.walk(statement):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, at)
    return statement
