"""A statement of one version of a file placed into another version: the old file's own text with lines put in, or why not.

It refuses rather than guesses: a statement in the wrong place would log something else under the same name. Pure: text in, text out.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rearview.instrument.calls import check, parse
from rearview.instrument.pieces import pieces_of
from rearview.instrument.scopes import bound_by, read
from rearview.propagate.apart import apart
from rearview.propagate.beside import left_behind
from rearview.propagate.certain import reasons
from rearview.propagate.choose import choose, not_yet, stale, wait_for
from rearview.propagate.exchanged import exchanged
from rearview.propagate.hidden import LeftOut
from rearview.propagate.match import Matching
from rearview.propagate.names import Names, has_attribute
from rearview.propagate.needs import Finding, Needs
from rearview.propagate.order import otherwise_ordered
from rearview.propagate.origins import otherwise_given
from rearview.propagate.splice import Insertion, line_of, meaning, splice, text_of, whole
from rearview.propagate.spots import Anchor, Nowhere, Spot, Spots
from rearview.propagate.tree import File, Node

_ANYWHERE = frozenset({
    ast.Expr, ast.Call, ast.Name, ast.Load, ast.Attribute, ast.Constant, ast.keyword, ast.JoinedStr, ast.FormattedValue, ast.BinOp,
    ast.Subscript, ast.Tuple, ast.List, ast.Dict, *ast.operator.__subclasses__(),
})  # fmt: skip
"""What is right at any place of a program that it can be written at: it binds nothing and leaves nothing."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The old file with the statement in it."""

    text: str
    lines: tuple[int, ...]
    """Where the statement now begins and ends; empty if it was there already."""
    certain: bool
    why: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    inserted: tuple[tuple[int, int], ...] = ()
    """Ranges of characters of `text` that are new: without them it is the old file."""
    bare: str = ""
    """The old file with the statement alone, without what was carried along."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It was not placed, and why."""

    why: str
    candidates: tuple[int, ...] = ()
    """Lines of the old file before which it could stand."""


def propagate(new: str, line: int, end: int | None, old: str, after: int | None = None, *, many: bool = False) -> Placed | Refused:
    """Place the statements on lines `line` to `end` of one version into another; `after` is a line behind whose statement they are to go.

    `many`: into many versions, one by one. What does not matter to the statements is then not compared again and again.

    >>> found = propagate("for i in x:\\n    a = f(i)\\n    log(a)\\n", 3, None, "for i in x:\\n    b = f(i)\\n")
    >>> print(found.text, end="")
    for i in x:
        b = f(i)
        log(b)
    """
    files = apart(new, (line, end or line), old) if many and after is None else None
    if files is not None:
        try:
            return _placed(*files, line, end, None)
        except LeftOut:
            pass  # as a whole, then
    whole = both(new, old)
    return whole if isinstance(whole, Refused) else _placed(*whole, line, end, after)


def _placed(new: File, old: File, line: int, end: int | None, after: int | None) -> Placed | Refused:
    group = _group(new, line, end)
    if not group:
        return Refused(f"there is no statement on line {line} of the new version")
    try:
        return _Placing(new, old, group).result(after)
    except RecursionError:
        return Refused("its statements are nested too deeply to be compared")


def both(new: str, old: str) -> tuple[File, File] | Refused:
    """Two versions of a file, or which of them is none."""
    files = []
    for text, whose in ((new, "the new version"), (old, "this version")):
        try:
            files.append(File(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            return Refused(f"{whose} cannot be read as Python: {getattr(problem, 'msg', problem)}")
    return files[0], files[1]


def _group(file: File, line: int, end: int | None) -> list[Node]:
    """The statements on some lines: those that stand next to each other, in no other one on these lines."""
    last = end or line
    found: list[Node] = []
    for node in file.nodes:
        beside = not found or (node.owner is found[0].owner and node.field == found[0].field)
        if _statement(node) and beside and line <= node.line and node.end <= last:
            found.append(node)
    return found or [node for node in file.nodes if _statement(node) and node.line <= line <= node.end][-1:]


def _statement(node: Node) -> bool:
    return isinstance(node.syntax, ast.stmt) and node.field != "elif"


class _Placing:
    def __init__(self, new: File, old: File, group: list[Node]) -> None:
        self._new, self._old, self._group = new, old, group
        self._leave_out(group)  # the new version as it was without it
        self._matching = Matching(new, old)
        self._names = Names(self._matching)
        self._spots = Spots(self._matching)

    @staticmethod
    def _leave_out(group: list[Node]) -> None:
        for node in group:
            for one in [node, *node.below()]:
                one.nothing = True

    def result(self, after: int | None) -> Placed | Refused:
        wrapped = self._wrap()
        spot = self._spots.find(self._group) if after is None else self._behind(after)
        if isinstance(spot, Nowhere):
            return Refused(spot.why, tuple(one.line for one in spot.spots))
        refusal = spot.refusal() if after is None else None
        if refusal:
            return Refused(refusal, (spot.line,))
        needs = Finding(self._names, self._group, _inside(spot), self._surely_matched).find()
        if needs.missing is not None:
            needed = f", which `{needs.missing_for}` needs" if needs.missing_for else ""
            return Refused(f"this version has no `{needs.missing}`{needed}", (spot.line,))
        if needs.stand_in is not None:
            name, other = needs.stand_in
            return Refused(f"this version has `{other}` for `{name}`: which of them is meant is not known", (spot.line,))
        attribute = self._lost_attribute()
        if attribute:
            return Refused(f"this version has no `{attribute}`", (spot.line,))
        reads = {old for old, _ in self._read_as(needs)}
        one = choose(spot, self._group, reads)
        there = self._already(spot, needs.renamed)
        if there is not None:
            return Placed(self._old.mark + self._old.text, (), True, f"it is there already, in line {there}", needs.renamed, bare="")
        if not one:
            places = spot.siblings[spot.low].line, spot.siblings[spot.high - 1].end + 1
            return Refused(f"two places are equally good, before line {places[0]} and before line {places[1]}", places)
        late = self._too_early(spot, needs, said_so=after is not None)
        if late is not None:
            return late
        doubts = [*spot.doubts, *needs.doubts] if after is None else []
        if after is None:
            doubts += reasons(self._matching, spot, self._group)
            doubts += otherwise_given(self._matching, spot, self._group, self._read_as(needs))
            reading = [node.syntax for node in (*needs.temporaries, *self._group)]
            doubts += exchanged(reading, [self._new.text], [self._old.text], needs.renamed)
        behind = left_behind(self._matching, self._group, [*needs.module, *needs.temporaries]) if after is None else {}
        lost = [why for line, why in behind.items() if line < self._group[0].line]
        if lost and (spot.low < spot.high or not spot.block):
            return Refused(f"{lost[0]}, and other statements are", (spot.line,))
        doubts += behind.values()
        if after is None and not doubts:
            doubts += otherwise_ordered(self._matching, spot, self._group, [*needs.module, *needs.temporaries], needs.renamed)
        placed = self._text(spot, needs, doubts, wrapped)
        return replace(placed, why="somebody said so") if after is not None and isinstance(placed, Placed) else placed

    def _too_early(self, spot: Spot, needs: Needs, *, said_so: bool) -> Refused | None:
        """Refuse a place where a variable has no value yet, or that of the time before, if none is right behind where it gets it."""
        late = [name for name, _ in self._read_as(needs) if not_yet(spot, name)]
        if late:
            return Refused(f"in this version `{late[0]}` has no value there yet", (spot.line,))
        late = self._stale(spot, needs) if not said_so else []
        if late and wait_for(spot, late):
            late = self._stale(spot, needs)
        return Refused(f"in this version `{late[0]}` gets its value only behind that place", (spot.line,)) if late else None

    def _stale(self, spot: Spot, needs: Needs) -> list[str]:
        return [old for old, new in self._read_as(needs) if stale(spot, self._group, new, old)]

    def _read_as(self, needs: Needs) -> list[tuple[str, str]]:
        """The variables that are read and do not travel: what they are called in the old version, and in the new one."""
        every = [node.syntax for node in (*needs.temporaries, *self._group)]
        return sorted((needs.renamed.get(name, name), name) for name in read(every) - needs.names)

    def _behind(self, line: int) -> Spot | Nowhere:
        """The place behind the statement on a line of the old file."""
        there = [node for node in self._old.nodes if _statement(node) and node.line <= line <= node.end]
        if not there or there[-1].owner is None:
            return Nowhere(f"there is no statement on line {line} of this version")
        node = there[-1]
        at = node.index + 1
        return Spot(node.owner or node, node.field, at, at, at, Anchor(node, node, 0.0, 1.0), None, block=True)

    def _wrap(self) -> list[str]:
        """Take a block along that is around nothing but the statement and temporaries, and that the old version does not have."""
        found = []
        owner = self._group[0].owner
        while owner is not None and owner not in self._matching.old_of and _only_wraps(owner, self._group):
            found.append(owner.kind.lower())
            self._group = [owner]
            self._leave_out(self._group)
            owner = owner.owner
        return found

    def _surely_matched(self, node: Node) -> bool:
        other = self._matching.old_of.get(node)
        return other is not None and self._matching.likeness.of(node, other) >= 0.75

    def _lost_attribute(self) -> str | None:
        """An attribute of `self` that the new version sets and the old one nowhere mentions."""
        every = [one for statement in self._group for one in ast.walk(statement.syntax) if isinstance(one, ast.Attribute)]
        for name in [one.attr for one in every if isinstance(one.value, ast.Name) and one.value.id == "self"]:
            sets = re.search(rf"self\.{re.escape(name)}\s*(:[^=]+)?=[^=]", self._new.text)
            if sets and not has_attribute(self._old.text, name):
                return f"self.{name}"
        return None

    def _already(self, spot: Spot, renamed: Mapping[str, str]) -> int | None:
        """The line where the statements stand already."""
        wanted = [meaning(node, renamed) for node in self._group]
        block = [one for one in spot.siblings if isinstance(one.syntax, ast.stmt)]
        for at in range(max(0, spot.low - len(wanted)), min(spot.high, len(block) - len(wanted)) + 1):
            run = block[at : at + len(wanted)]
            known = [self._matching.new_of.get(one) for one in run]
            taken = all(other is not None and other.key == one.key for one, other in zip(run, known, strict=True))
            if not taken and [ast.dump(one.syntax) for one in run] == wanted:
                return run[0].line
        return None

    # -- the text -------------------------------------------------------------------------------------------------------------

    def _text(self, spot: Spot, needs: Needs, doubts: list[str], wrapped: list[str]) -> Placed | Refused:
        at = line_of(spot)
        if at is None:
            return Refused(f"the place shares a line with other statements, line {spot.line}", (spot.line,))
        line, indent = at
        lines = text_of(self._group, indent, needs.renamed)
        if lines is None:
            return Refused("its text cannot be written there", (line,))
        statement = Insertion(line, tuple(lines))
        carried = self._carried(spot, line, indent, needs)
        if isinstance(carried, Refused):
            return carried
        insertions = [*carried, statement]
        text, ranges, begins = splice(self._old, insertions)
        only_tells = all(type(one) in _ANYWHERE for node in self._group for one in ast.walk(node.syntax))
        try:
            if only_tells and not carried:
                (parse if self._old.hidden is None else pieces_of)(text)  # among many versions its pieces are known, and asked for again
            else:
                check(text.removeprefix(self._old.mark), "<placed>", self._old.text)
        except (SyntaxError, ValueError) as problem:
            return Refused(f"the version would not be a program any more: {getattr(problem, 'msg', problem)}", (line,))
        bare = splice(self._old, [statement])[0]
        module = [whole(one, needs.names)[0] for one in needs.module]
        told = [*wrapped, *module, *(_short(one) for one in needs.temporaries)]
        why = "; ".join(dict.fromkeys(doubts)) or "its neighbours are there, and nothing between them"
        begin = begins[-1]
        return Placed(text, (begin, begin + len(lines) - 1), not doubts, why, needs.renamed, tuple(told), tuple(ranges), bare)

    def _carried(self, spot: Spot, line: int, indent: str, needs: Needs) -> list[Insertion] | Refused:
        """What travels along: of the module before what contains the place, temporaries at their own places."""
        found: list[Insertion] = []
        if needs.module:
            top = next((one for one in [spot.owner, *spot.owner.above()] if one.owner is self._old.module), None)
            lines = [text for one in needs.module for text in whole(one, needs.names)]
            found.append(Insertion(top.line if top else line, tuple(lines)))
        for node in needs.temporaries:
            here = self._temporary(node, line, indent, needs.renamed)
            if here is None:
                return Refused(f"this version has no `{_short(node)}`, and no sure place for it", (line,))
            found.append(here)
        return found

    def _temporary(self, node: Node, line: int, indent: str, renamed: Mapping[str, str]) -> Insertion | None:
        first = self._group[0]
        beside = node.owner is first.owner and node.field == first.field and node.index < first.index
        between = first.siblings[node.index + 1 : first.index] if beside else []
        if beside and all(one not in self._matching.old_of for one in between):
            lines = text_of([node], indent, renamed)
            return Insertion(line, tuple(lines)) if lines is not None else None
        spot = self._spots.find([node])
        if isinstance(spot, Nowhere) or not spot.block:
            return None
        at = line_of(spot) if choose(spot, [node], read([node.syntax])) else None
        lines = text_of([node], at[1], renamed) if at and not spot.doubts else None
        return Insertion(at[0], tuple(lines)) if at and lines is not None else None


def _only_wraps(owner: Node, group: list[Node]) -> bool:
    """Whether a block is around nothing but some statements and temporaries that only they read."""
    if owner.kind not in ("If", "With", "For") or set(owner.blocks) != {"body"} or owner.field == "elif":
        return False
    for one in owner.blocks["body"]:
        if one in group or one.nothing:
            continue
        if not isinstance(one.syntax, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom) or _acts(one.syntax, owner):
            return False
        mine = {name for node in ast.walk(one.syntax) for name in bound_by(node)}
        if owner.function is owner.file.module:
            owner.file.need(mine)
        outside = [other for other in owner.function.below() if other is not owner and not _within(other, owner) and not other.blocks]
        if any(mine & set(other.words) for other in outside):
            return False
    return True


def _acts(statement: ast.stmt, owner: Node) -> bool:
    """Whether a statement may do more than give a name a value: under an `if`, also by a call."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Call) and owner.kind == "If" and not (isinstance(node.func, ast.Name) and node.func.id in dir(builtins)):
            return True
    return False


def _within(node: Node, owner: Node) -> bool:
    return any(one is owner for one in node.above())


def _short(node: Node) -> str:
    text = node.file.lines[node.line - 1].strip()
    return text if len(text) <= 60 else text[:57] + "..."


def _inside(spot: Spot) -> Node:
    """A statement that stands where the place is: its scopes are the place's."""
    return spot.siblings[0] if spot.siblings else spot.owner
