"""Which statement of one version is which statement of another: tree matching in the manner of GumTree, over statements.

From above: what is equal and stands once in each file, functions and classes of the same name, `rv.loop`s of the same name; then block by
block, each with its counterpart, as two sequences. From below: what is left over is paired by what it contains, then by its neighbours.
Knows trees. Must not know which statement is to be placed. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise

from rearview.propagate.callees import called_otherwise, only_calls, same_callee
from rearview.propagate.headings import same_heading
from rearview.propagate.hidden import LeftOut
from rearview.propagate.likeness import SAYS_ENOUGH, Likeness, dice, recognised_blurred, recognised_telling, recognised_text
from rearview.propagate.loops import Loops
from rearview.propagate.tree import File, Node

ALIKE = 0.45
"""Statements less alike than this are two statements."""
_SURELY_ALIKE = 0.6
"""For statements that do not stand in blocks that are the same."""
_CLEARLY = 0.1
"""More alike than any other by this."""
_STILL_ALIKE = 0.25
"""For the only block of its kind that is left over."""
_SHORT = 3
_SAYS_MUCH = SAYS_ENOUGH + 6
"""Characters of the head of a block by which alone it is recognised."""
_WRAPPERS = ("If", "With", "For", "While", "Try")
_LARGEST_TABLE = 30_000
"""Pairs that are compared at most when two runs of statements are aligned."""


class Matching:
    """Pairs of statements: `old_of` a statement of the new file, `new_of` one of the old."""

    def __init__(self, new: File, old: File) -> None:
        self.new, self.old = new, old
        self.old_of: dict[Node, Node] = {}
        self.new_of: dict[Node, Node] = {}
        self.likeness = Likeness(new, old)
        self._hints: dict[Node, Node] = {}
        self._hinted: dict[Node, Node] = {}
        self._hint()
        self._align(new.module, old.module)
        for one, other in list(self._hints.items()):
            self._pair_and_align(one, other)
        self._hints.clear()
        self._hinted.clear()
        self._contained()
        self._left_over()
        self.headed = dict(same_heading(new, old))
        self._callees = called_otherwise(self.old_of)
        self._same_step()
        self._unwrapped()
        self._neighbours()
        self._strays()

    def _pair(self, new: Node, old: Node) -> bool:
        if new in self.old_of or old in self.new_of:
            return False
        self.old_of[new] = old
        self.new_of[old] = new
        return True

    def _pair_and_align(self, new: Node, old: Node) -> None:
        if new not in self.old_of and old not in self.new_of:
            self._align(new, old)

    # -- from above -------------------------------------------------------------------------------------------------------

    def _hint(self) -> None:
        """What is surely the same, wherever it stands."""
        self._need_marks()
        loops, old_loops = Loops(self.new), Loops(self.old)
        ways: list[Callable[[Node], Hashable]] = [
            loops.here,
            loops.anywhere,
            loops.log,
            _definition,
            recognised_text,
            self._blurred,
            recognised_telling,
            _block,
        ]
        old_ways: list[Callable[[Node], Hashable]] = [
            old_loops.here, old_loops.anywhere, old_loops.log, _definition, recognised_text, self._blurred, recognised_telling, _block
        ]  # fmt: skip
        for way, old_way in zip(ways, old_ways, strict=True):
            for new, old in _once_each(self.new.nodes, self.old.nodes, way, old_way):
                if new not in self._hints and old not in self._hinted:
                    self._hints[new] = old
                    self._hinted[old] = new

    def _need_marks(self) -> None:
        """LeftOut if a statement could be one of a function that was left out."""
        marks = frozenset().union(*(file.hidden.marks for file in (self.new, self.old) if file.hidden is not None))
        for one in [*self.new.nodes, *self.old.nodes] if marks else []:
            if recognised_text(one) in marks or self._blurred(one) in marks or recognised_telling(one) in marks:
                raise LeftOut

    def _blur(self, node: Node) -> Hashable:
        """All of a statement, with variables that only one version has all alike."""
        inner = [(name, [self._blur(one) for one in block if not one.nothing]) for name, block in node.blocks.items()]
        return self.likeness.blurred(node), repr(inner)

    def _blurred(self, node: Node) -> Hashable:
        if node.blocks or node.nothing:
            return None
        return recognised_blurred(self.likeness.blurred(node))

    def _align(self, new: Node, old: Node) -> None:
        """Two statements are the same one: so are, block by block, those inside them."""
        if not self._pair(new, old):
            return
        for name, block in new.blocks.items():
            if name in old.blocks:
                self._blocks([one for one in block if not one.nothing], [one for one in old.blocks[name] if not one.nothing])

    def _blocks(self, new: list[Node], old: list[Node]) -> None:
        at = {one: index for index, one in enumerate(old)}
        fixed = [(i, at[other]) for i, one in enumerate(new) if (other := self._hints.get(one)) is not None and other in at]
        pairs = increasing(fixed)
        i = j = 0
        for next_i, next_j in [*pairs, (len(new), len(old))]:
            self._gap(new[i:next_i], old[j:next_j])
            if next_i < len(new):
                self._align(new[next_i], old[next_j])
            i, j = next_i + 1, next_j + 1

    def _gap(self, new: list[Node], old: list[Node]) -> None:
        """Two runs of statements with nothing surely the same in them."""
        new = [one for one in new if one not in self._hints and one not in self.old_of]
        old = [one for one in old if one not in self._hinted and one not in self.new_of]
        if not new or not old:
            return
        for way in (_key, self._blur, _about):
            if way is _about and len(new) * len(old) <= _LARGEST_TABLE:
                break
            found = list(_once_each(new, old, way, way))
            if found:
                self._divide(new, old, found)
                return
        if len(new) * len(old) <= _LARGEST_TABLE:
            for one, other in self._best(new, old):
                self._align(one, other)
            self._only_ones(new, old)
            self._peel(new, old)

    def _peel(self, new: list[Node], old: list[Node]) -> None:
        """What is left over of two runs: a block of one side may have been put around statements of the other."""
        mine = [one for one in new if one not in self.old_of]
        theirs = [one for one in old if one not in self.new_of]
        for node in [one for one in mine if one.kind in _WRAPPERS]:
            for block in node.blocks.values():
                self._peeled([one for one in block if not one.nothing], theirs)
        for node in [one for one in theirs if one.kind in _WRAPPERS]:
            for block in node.blocks.values():
                self._peeled(mine, [one for one in block if not one.nothing])

    def _peeled(self, new: list[Node], old: list[Node]) -> None:
        new = [one for one in new if one not in self.old_of and one not in self._hints]
        old = [one for one in old if one not in self.new_of and one not in self._hinted]
        if new and old and len(new) * len(old) <= _LARGEST_TABLE:
            found = [(one, other) for one, other in self._best(new, old) if self.likeness.of(one, other) >= _SURELY_ALIKE]
            for one, other in found:
                self._align(one, other)
            self._only_ones(new, old)

    def _only_ones(self, new: list[Node], old: list[Node]) -> None:
        """The only loop, say, that is left over of each of two short runs: it has changed, but there is no other."""
        new = [one for one in new if one not in self.old_of]
        old = [one for one in old if one not in self.new_of]
        if len(new) > _SHORT or len(old) > _SHORT:
            return
        for one, other in _once_each(new, old, _block_kind, _block_kind):
            if max(self.likeness.of(one, other), self.likeness.heads(one, other) - 0.1) >= _STILL_ALIKE:
                self._align(one, other)

    def _divide(self, new: list[Node], old: list[Node], found: list[tuple[Node, Node]]) -> None:
        places = {one: index for index, one in enumerate(new)}, {one: index for index, one in enumerate(old)}
        pairs = increasing(sorted((places[0][one], places[1][other]) for one, other in found))
        i = j = 0
        for next_i, next_j in [*pairs, (len(new), len(old))]:
            self._gap(new[i:next_i], old[j:next_j])
            if next_i < len(new):
                self._align(new[next_i], old[next_j])
            i, j = next_i + 1, next_j + 1

    def _best(self, new: list[Node], old: list[Node]) -> list[tuple[Node, Node]]:
        """The alignment of two runs that is most alike in sum."""
        rows, columns = len(new), len(old)
        alike = [[self._alike(one, other) for other in old] for one in new]
        best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
        for i in range(rows - 1, -1, -1):
            row, below, here = best[i], best[i + 1], alike[i]
            for j in range(columns - 1, -1, -1):
                row[j] = max(below[j], row[j + 1], here[j] + below[j + 1] if here[j] else 0.0)
        pairs, i, j = [], 0, 0
        while i < rows and j < columns:
            if alike[i][j] and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
                pairs.append((new[i], old[j]))
                i, j = i + 1, j + 1
            elif best[i][j] == best[i + 1][j]:
                i += 1
            else:
                j += 1
        return pairs

    def _alike(self, new: Node, old: Node) -> float:
        value = self.likeness.of(new, old)
        return value if value >= ALIKE else 0.0

    # -- from below ---------------------------------------------------------------------------------------------------------

    def _contained(self) -> None:
        """Pair what contains the same: a renamed function, a loop that was moved."""
        new = [one for one in self.new.nodes if one.blocks and one not in self.old_of and one.bag]
        old = [one for one in self.old.nodes if one.blocks and one not in self.new_of and one.bag]
        for file, others in ((self.old, new), (self.new, old)):
            if file.hidden is not None and not all(one.bag.isdisjoint(file.hidden.bag) for one in others):
                raise LeftOut
        if len(new) * len(old) > 4 * _LARGEST_TABLE:
            return
        scored = []
        for one in new:
            for other in old:
                if one.kind == other.kind and not one.bag.isdisjoint(other.bag):
                    value = 0.8 * dice(one.bag, other.bag) + 0.2 * self.likeness.heads(one, other)
                    if value >= 0.5:
                        scored.append((-value, -len(one.bag), one.line, other.line, one, other))
        for *_, one, other in sorted(scored, key=lambda found: found[:4]):
            self._pair_and_align(one, other)

    def _left_over(self) -> None:
        new = [one for one in self.new.nodes if one not in self.old_of]
        old = [one for one in self.old.nodes if one not in self.new_of]
        for one, other in _once_each(new, old, recognised_text, recognised_text):
            self._pair_and_align(one, other)

    def same_step(self, new: Node, old: Node) -> bool:
        """Whether two statements are the same step of a program by other evidence than their words: a comment, the function they call."""
        return self.headed.get(new) is old or same_callee(new, old, self._callees)

    def _same_step(self) -> None:
        """Pair what calls the same function under another name, and what stands below the same comment and is not quite another."""
        known = {*self.old_of, *self.new_of} if self._callees else ()
        for one, other in only_calls((self.new, self.old), known, self._callees):
            self._pair(one, other)
        for one, other in self.headed.items():
            if self.likeness.of(one, other) >= _STILL_ALIKE:
                self._pair_and_align(one, other)

    def _unwrapped(self) -> None:
        """Between pairs in two blocks of which only one has a counterpart: a function that was split, a block that was put into another."""
        for node in [self.new.module, *self.new.nodes]:
            for block in node.blocks.values():
                homes: dict[tuple[int, str], list[tuple[int, int]]] = {}
                owners: dict[tuple[int, str], list[Node]] = {}
                for index, one in enumerate(block):
                    other = self.old_of.get(one)
                    if other is not None and other.owner is not None and other.owner is not self.old_of.get(node):
                        home = (id(other.owner), other.field)
                        homes.setdefault(home, []).append((index, other.index))
                        owners[home] = other.siblings
                for home, found in homes.items():
                    self._between(block, owners[home], increasing(found))

    def _between(self, new: list[Node], old: list[Node], pairs: list[tuple[int, int]]) -> None:
        for (i, j), (next_i, next_j) in pairwise(pairs):
            mine, theirs = new[i + 1 : next_i], old[j + 1 : next_j]
            if len(mine) * len(theirs) <= _LARGEST_TABLE:
                self._gap([one for one in mine if not one.nothing], [one for one in theirs if not one.nothing])

    def _neighbours(self) -> None:
        """What stands next to a pair that was moved."""
        for one, other in list(self.old_of.items()):
            for step in (-1, 1):
                new, old = one, other
                while True:
                    after, behind = _next(new, step), _next(old, step)
                    if after is None or behind is None or after in self.old_of or behind in self.new_of:
                        break
                    if self.likeness.of(after, behind) < ALIKE:
                        break
                    self._align(after, behind)
                    new, old = after, behind

    def _strays(self) -> None:
        """What is left over of two functions that are the same: statements that went to another block, changed a little."""
        mine = _by_function(one for one in self.new.nodes if one not in self.old_of)
        theirs = _by_function(one for one in self.old.nodes if one not in self.new_of)
        for home, new in mine.items():
            other = self.old_of.get(home)
            old = theirs.get(other, []) if other is not None else []
            if not old or len(new) * len(old) > _LARGEST_TABLE // 10:
                continue
            rows = [(self.likeness.of(one, two), one, two) for one in new for two in old]
            rows = [row for row in rows if row[0] >= _SURELY_ALIKE - _CLEARLY]
            for value, one, two in sorted(rows, key=lambda row: (-row[0], row[1].line, row[2].line)):
                rivals = max((row[0] for row in rows if (row[1] is one) != (row[2] is two)), default=0.0)
                if value >= _SURELY_ALIKE and value > rivals + _CLEARLY:
                    self._pair(one, two)


def _by_function(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Simple statements that say enough to be known again, by the function that they are in."""
    found: dict[Node, list[Node]] = {}
    for one in nodes:
        if not one.blocks and not one.nothing and one.weight >= SAYS_ENOUGH:
            found.setdefault(one.function, []).append(one)
    return found


def _next(node: Node, step: int) -> Node | None:
    """The next statement of a block that is not nothing."""
    block = node.siblings
    at = node.index + step
    while 0 <= at < len(block) and block[at].nothing:
        at += step
    return block[at] if 0 <= at < len(block) else None


# -- by what statements are recognised --------------------------------------------------------------------------------------


def _key(node: Node) -> Hashable:
    return node.key


def _about(node: Node) -> Hashable:
    return (node.kind, node.handles) if node.handles else None


def _block_kind(node: Node) -> Hashable:
    return node.kind if node.kind in ("For", "While", "If", "With") else None


def _block(node: Node) -> Hashable:
    """What recognises a block in the function that it is in, whatever stands in it."""
    return (node.qualified, node.head) if _block_kind(node) is not None and len(node.head) >= _SAYS_MUCH else None


def _definition(node: Node) -> Hashable:
    return (node.kind, node.qualified) if node.kind in ("FunctionDef", "ClassDef") else None


def _once_each(
    new: Iterable[Node], old: Iterable[Node], way: Callable[[Node], Hashable], old_way: Callable[[Node], Hashable]
) -> Iterable[tuple[Node, Node]]:
    """Pairs that are recognised alike and stand once on each side."""
    mine = [(way(one), one) for one in new]
    theirs = [(old_way(one), one) for one in old]
    counts, old_counts = Counter(key for key, _ in mine), Counter(key for key, _ in theirs)
    by_key = {key: one for key, one in theirs if key is not None and old_counts[key] == 1}
    for key, one in mine:
        if key is not None and counts[key] == 1 and key in by_key:
            yield one, by_key[key]


def increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of pairs, sorted by the first, whose second numbers grow."""
    tails: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        place = bisect_left(tails, second)
        if place == len(tails):
            tails.append(second)
            at.append(index)
        else:
            tails[place] = second
            at[place] = index
        before.append(at[place - 1] if place else -1)
    found = []
    index = at[-1] if at else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]
