"""Two versions of a file, statement by statement: which statements of the later one were added to the earlier one.

The earlier one must be there in full, in its order, in the same nesting. Comments, layout, docstrings and `pass` are nothing. Knows
trees. Must not know which additions are harmless. Pure.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rearview.instrument.calls import first_line, nodes
from rearview.instrument.pieces import Piece, means_nothing, pieces_of

_BLOCKS = ("body", "orelse", "finalbody")
_NEVER = float("inf")
_WITH_BLOCKS = (ast.stmt, ast.Module, ast.ExceptHandler, ast.match_case)
_PARTS = (ast.ExceptHandler, ast.match_case)

Pairs = list[tuple[ast.stmt | None, ast.stmt]]
"""Each statement of the later file, with that of the earlier one that it is."""
Around = tuple[ast.AST, ...]
"""The nodes around a statement in the later file, from the module inwards."""


@dataclass(frozen=True, slots=True)
class Run:
    """Statements that were added next to each other."""

    statements: tuple[ast.stmt, ...]
    around: Around
    scope: ast.AST
    """The scope in the *earlier* file that they are now in: module, class or function."""
    body: list[ast.stmt]
    """The statements of the later file among which they are."""


@dataclass(slots=True)
class Difference(Exception):
    """The later file is not the earlier one with statements added."""

    line: int
    why: str


@dataclass(slots=True)
class Matching:
    """Compares two trees; `runs` has what was added."""

    admits: Callable[[ast.stmt, ast.AST], bool]
    """Whether a statement could be one that was added: where several alignments are possible the one that can be is taken."""
    runs: list[Run] = field(default_factory=list)
    _equal: dict[tuple[int, int], bool] = field(default_factory=dict)
    _heads: dict[int, str] = field(default_factory=dict)
    _inner: dict[tuple[int, int], float] = field(default_factory=dict)

    def compare(self, earlier: ast.Module, later: ast.Module) -> None:
        """Fill `runs`, or raise Difference."""
        strip(earlier)
        strip(later)
        self._body(earlier.body, later.body, (later,), earlier)

    def _body(self, earlier: list[ast.stmt], later: list[ast.stmt], around: Around, scope: ast.AST) -> None:
        pairs = self._align(earlier, later, around, scope)
        added: list[ast.stmt] = []
        for before, after in pairs:
            if before is None:
                added.append(after)
                continue
            self._close(added, around, scope, later)
            if not self._same(before, after):
                for one, other in _blocks(before, after):
                    self._body(one, other, (*around, after), _inner_scope(before, scope))
        self._close(added, around, scope, later)

    def _close(self, added: list[ast.stmt], around: Around, scope: ast.AST, body: list[ast.stmt]) -> None:
        if added:
            self.runs.append(Run(tuple(added), around, scope, body))
            added.clear()

    # -- alignment -----------------------------------------------------------------------------------------------------

    def _align(self, earlier: list[ast.stmt], later: list[ast.stmt], around: Around, scope: ast.AST) -> Pairs:
        """Pair each earlier statement with one of the later file, in order, so that what is left over can have been added."""
        costs = self._costs(earlier, later, scope)
        if costs[0][0] == _NEVER:
            raise self._difference(earlier, later, around, scope)
        pairs: Pairs = []
        i = k = 0
        while i + k < len(later):
            if i < len(earlier) and self._cost(earlier[i], later[i + k], scope) + costs[i + 1][k] <= costs[i][k]:
                pairs.append((earlier[i], later[i + k]))
                i += 1
            else:
                pairs.append((None, later[i + k]))
                k += 1
        return pairs

    def _costs(self, earlier: list[ast.stmt], later: list[ast.stmt], scope: ast.AST) -> list[list[float]]:
        """[i][k]: what the best way costs from earlier statement i on, when k later ones were left over before it."""
        spare = len(later) - len(earlier)
        if spare < 0:
            return [[_NEVER]]
        costs = [[0.0] * (spare + 1) for _ in range(len(earlier) + 1)]
        known: dict[int, float] = {}

        def extra(at: int) -> float:
            if at not in known:  # most statements are never left over: they are not looked at
                known[at] = 1.0 if self.admits(later[at], scope) else 1e6
            return known[at]

        for k in range(spare - 1, -1, -1):
            costs[-1][k] = costs[-1][k + 1] + extra(len(earlier) + k)
        for i in range(len(earlier) - 1, -1, -1):
            for k in range(spare, -1, -1):
                left = costs[i][k + 1] + extra(i + k) if k < spare else _NEVER
                rest = costs[i + 1][k]
                pair = self._cost(earlier[i], later[i + k], scope) + rest if rest < _NEVER else _NEVER
                costs[i][k] = min(pair, left)
        return costs

    def _cost(self, earlier: ast.stmt, later: ast.stmt, scope: ast.AST) -> float:
        """What it costs to take one statement for the other: what was added inside it; infinite if it cannot be."""
        if self._same(earlier, later):
            return 0.0
        if self._head(earlier) != self._head(later):
            return _NEVER
        known = self._inner.get((id(earlier), id(later)))
        if known is None:
            known = 0.5  # rather the same statement than one with something inside
            for one, other in _blocks(earlier, later):
                known += self._costs(one, other, _inner_scope(earlier, scope))[0][0]
            self._inner[id(earlier), id(later)] = known
        return known

    def _difference(self, earlier: list[ast.stmt], later: list[ast.stmt], around: Around, scope: ast.AST) -> Difference:
        """Where the first earlier statement is that the later file does not have."""
        at = 0
        for statement in earlier:
            found = next((k for k in range(at, len(later)) if self._cost(statement, later[k], scope) < _NEVER), None)
            if found is None:
                return self._inner_difference(statement, later[at:], around, scope)
            at = found + 1
        return Difference(first_line(around[-1]) if isinstance(around[-1], ast.stmt) else 1, "statements were changed")

    def _inner_difference(self, lost: ast.stmt, later: list[ast.stmt], around: Around, scope: ast.AST) -> Difference:
        for candidate in later:
            if self._head(lost) == self._head(candidate) and any(True for _ in _blocks(lost, candidate)):
                for one, other in _blocks(lost, candidate):
                    try:
                        self._align(one, other, (*around, candidate), _inner_scope(lost, scope))
                    except Difference as problem:
                        return problem
        line = first_line(later[0]) if later else getattr(around[-1], "end_lineno", None) or 1
        return Difference(line, f"`{_short(lost)}` (line {first_line(lost)} of the recorded file) was changed, moved or removed")

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _same(self, earlier: ast.stmt, later: ast.stmt) -> bool:
        pair = id(earlier), id(later)
        known = self._equal.get(pair)
        if known is None:
            known = self._equal[pair] = same(earlier, later)
        return known

    def _head(self, statement: ast.stmt) -> str:
        """A compound statement without what is in its bodies; of a simple one, all of it."""
        head = self._heads.get(id(statement))
        if head is None:
            head = self._heads[id(statement)] = type(statement).__name__ + repr(list(_head_fields(statement)))
        return head


def surely_changed(earlier: str, later: str) -> bool:
    """Whether the earlier file has something that the later one has not, or less often: then it is not there in full. Quick."""
    try:
        mine, theirs = pieces_of(earlier), pieces_of(later)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # somebody who compares them will say so
    gone, new = _beyond(mine, theirs), _beyond(theirs, mine)
    if not set().union(*gone) <= set().union(*new):  # before anything is counted: so it is nearly always
        return True
    return bool(sum(gone, Counter[str]()) - sum(new, Counter[str]()))


def _beyond(some: tuple[Piece, ...], others: tuple[Piece, ...]) -> list[Counter[str]]:
    """What is in each of the pieces that others have not."""
    known = Counter(one.text for one in others)
    found = []
    for one in some:
        known[one.text] -= 1
        if known[one.text] < 0:
            found.append(one.inventory)
    return found


def same(one: object, other: object) -> bool:
    """Whether two trees are the same but for their places: as if both were dumped, without doing it."""
    pending = [(one, other)]
    while pending:
        left, right = pending.pop()
        if left.__class__ is not right.__class__:
            return False
        if isinstance(left, ast.AST):
            pending += [(getattr(left, name, None), getattr(right, name, None)) for name in left._fields]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pending += zip(left, right, strict=True)
        elif left != right and repr(left) != repr(right):
            return False
        elif isinstance(left, float | complex) and repr(left) != repr(right):
            return False  # 0.0 and -0.0
    return True


def _inner_scope(statement: ast.stmt, scope: ast.AST) -> ast.AST:
    return statement if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else scope


def strip(tree: ast.AST) -> None:
    """Take out of a tree what means nothing: docstrings and other bare constants, `pass`."""
    for node in nodes(tree):
        if not isinstance(node, _WITH_BLOCKS):
            continue
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list):
                block[:] = [one for one in block if not means_nothing(one)]


def _head_fields(node: ast.AST) -> Iterator[str]:
    for name, value in ast.iter_fields(node):
        if name in _BLOCKS and isinstance(value, list):
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, _PARTS):
                yield f"{name}: {list(_head_fields(one))}"
            else:
                yield f"{name}={ast.dump(one) if isinstance(one, ast.AST) else one!r}"


def _blocks(earlier: ast.AST, later: ast.AST) -> Iterator[tuple[list[ast.stmt], list[ast.stmt]]]:
    """The bodies of two statements with equal heads, side by side."""
    for name, value in ast.iter_fields(earlier):
        other = getattr(later, name)
        if not isinstance(value, list):
            continue
        if name in _BLOCKS:
            yield value, other
        else:
            for one, two in zip(value, other, strict=True):
                if isinstance(one, _PARTS):
                    yield from _blocks(one, two)


def _short(statement: ast.stmt) -> str:
    text = ast.unparse(statement).splitlines()[0]
    return text if len(text) <= 60 else text[:57] + "..."
