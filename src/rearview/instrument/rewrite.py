"""The program text that runs in a replay: loops that can be skipped are marked, probes are known as such. Positions stay the original ones.

Three names in it are provided by the replayer: `__rearview_for__(loop)` gives the loop back, marked as one that a `for` statement
drives and nothing else; `__rearview_broke__()` says once that the loop which just yielded had ended by `break`; and
`with __rearview_probe__(k):` stands around the statements of probe k. All three must let any object and any place pass: what looks
like a call of `rv.loop` here may be something else. Must not know what skipping is. Pure: tree in, tree out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import CodeType

from rearview.instrument.calls import DELAYED, Calls, bodies, first_line, heads, last_line, within

MARK = "__rearview_for__"
BROKE = "__rearview_broke__"
PROBE = "__rearview_probe__"
ITEM = "__rearview_item__"
"""A variable that lives from the head of a loop to the first line of its body."""

Span = tuple[int, int] | tuple[int, int, int, int, int]
"""A line and the number of its probe: what begins on that line and logs. Or line, column, end line, end column and the number:
everything between, with the temporaries and the statements around it that were added together."""

_BUILTINS = frozenset({"enumerate", "zip", "iter", "map", "filter"})
_PASS_ON = frozenset({"tqdm", "tqdm_notebook", "track", "islice"})
"""What takes one item at a time, hands it on at once, and never looks ahead: a loop inside is driven by the `for` around. The builtins
only by their bare names: `pool.map` takes all items at once."""


def rewrite(tree: ast.Module, probes: Sequence[Span] = ()) -> ast.Module:
    """The same program with its loops marked and its probes wrapped, in place."""
    _Rewriting(tree, probes).run()
    return tree


def compile_rewritten(data: bytes, path: str, probes: Sequence[Span] = ()) -> CodeType:
    """The code of a file's bytes, rewritten; encoding cookies and future statements count. SyntaxError as from the bytes themselves."""
    tree = ast.parse(data, path)
    work = _Rewriting(tree, probes)
    work.run()
    code: CodeType = compile(tree if work.changed else data, path, "exec", dont_inherit=True)
    return code


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
        for scope in _scopes(self._tree):
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
        """Mark the loops that `for` statements of one scope drive; `scope` has all of its statements."""
        drivers = [one for one in scope if isinstance(one, ast.For) and not _yields(one)]
        for statement in drivers:
            statement.iter, marked = self._marked(statement.iter)
            if marked and statement.orelse:
                _break_first(statement)
        for name in _only_driving(scope, drivers):
            for holder, field in _makers(scope, name):
                value, marked = self._marked(getattr(holder, field))
                setattr(holder, field, value)
                if marked:
                    for statement in drivers:
                        if statement.orelse and _driven(statement.iter, name):
                            _break_first(statement)

    def _marked(self, expression: ast.expr) -> tuple[ast.expr, bool]:
        """An expression that yields items, with the loop in it marked."""
        if isinstance(expression, ast.Call):
            if self._is_loop(expression):
                self.changed = True
                call = ast.Call(func=ast.Name(MARK, ast.Load()), args=[expression], keywords=[])
                return _placed(call, expression), True
            if _passes_on(expression):
                results = [self._marked(argument) for argument in expression.args]
                expression.args = [argument for argument, _ in results]
                return expression, any(marked for _, marked in results)
        elif isinstance(expression, ast.NamedExpr):
            expression.value, marked = self._marked(expression.value)
            return expression, marked
        return expression, False

    def _is_loop(self, call: ast.Call) -> bool:
        named = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        return named == "loop" or self._calls.called(call) == "loop"


def _passes_on(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in _BUILTINS or call.func.id in _PASS_ON
    return isinstance(call.func, ast.Attribute) and call.func.attr in _PASS_ON


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


# -- scopes ------------------------------------------------------------------------------------------------------------


def _scopes(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """The statements of each scope: the module, every function, every class body."""
    pending: list[list[ast.stmt]] = [tree.body]
    while pending:
        scope: list[ast.stmt] = []
        inner = pending.pop()[::-1]
        while inner:
            statement = inner.pop()
            scope.append(statement)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                pending.append(statement.body)
            else:
                inner.extend(reversed([one for body in bodies(statement) for one in body]))
        yield scope


def _yields(statement: ast.For) -> bool:
    """Whether the body runs as part of a generator: then whoever consumes that drives the loop."""
    body = (node for one in statement.body for node in within(one))
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in body)


def _driven(iterated: ast.expr, name: str) -> bool:
    """Whether what a `for` iterates over is a variable, or passes its items on."""
    if isinstance(iterated, ast.Name):
        return iterated.id == name
    return isinstance(iterated, ast.Call) and _passes_on(iterated) and any(_driven(one, name) for one in iterated.args)


def _only_driving(scope: list[ast.stmt], drivers: list[ast.For]) -> list[str]:
    """Variables that hold something which exactly one `for` statement iterates over: `bar = tqdm(rv.loop(...))`, `for x in bar`.

    Elsewhere only attributes of them are used (`bar.set_postfix(...)`), and no other scope sees them.
    """
    driven: dict[str, int] = {}
    loads: dict[str, int] = {}
    shared: set[str] = set()
    for driver in drivers:
        for node in within(driver.iter):
            if isinstance(node, ast.Name) and _driven(driver.iter, node.id):
                driven[node.id] = driven.get(node.id, 0) + 1
    if not driven:
        return []
    for statement in scope:
        if isinstance(statement, ast.Global | ast.Nonlocal):
            shared.update(statement.names)
        for node in [statement, *heads(statement)] if isinstance(statement, DELAYED) else heads(statement):
            _count_loads(node, loads, shared)
    return [name for name, times in driven.items() if times == 1 and loads.get(name, 0) == 1 and name not in shared]


def _count_loads(node: ast.AST, loads: dict[str, int], shared: set[str]) -> None:
    """Count bare reads of names; names that inner scopes read are shared."""
    for one in within(node):
        if isinstance(one, DELAYED):
            shared.update(inner.id for inner in ast.walk(one) if isinstance(inner, ast.Name))
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            loads[one.id] = loads.get(one.id, 0) + 1
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            loads[one.value.id] = loads.get(one.value.id, 0) - 1  # `bar.total`: what it holds is not iterated over


def _makers(scope: list[ast.stmt], name: str) -> list[tuple[ast.AST, str]]:
    """Where a variable gets its value, if that is one place: the node and the field that has it."""
    found: list[tuple[ast.AST, str]] = []
    stores = 0
    for statement in scope:
        for head in heads(statement):
            stores += sum(isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load) for one in within(head))
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_name(statement.targets[0], name):
            found.append((statement, "value"))
        elif isinstance(statement, ast.With):
            found += [(item, "context_expr") for item in statement.items if item.optional_vars and _is_name(item.optional_vars, name)]
    return found if stores == len(found) == 1 else []


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
