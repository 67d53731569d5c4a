"""How alike two statements of two versions are, from 0 to 1.

Names that only one of the two files has may be the same variable under another name: they count half. Spelling is never compared. Pure.
"""

from __future__ import annotations

from collections import Counter

from rearview.propagate.telling import tells
from rearview.propagate.tree import VARIABLE, File, Node

_BLURRED = 0.97
"""For statements that are the same but for variables that only one version has."""
_TOLD = 0.9
"""For statements that tell the same by other means."""
SAYS_ENOUGH = 14
"""Characters: a shorter statement stands in many places."""
_KINDRED = ({"Assign", "AugAssign", "Expr"}, {"Return", "Expr"}, {"Return", "Assign"}, {"For", "While"}, {"If", "Elif"})


class Likeness:
    """Of the statements of one file and those of another."""

    def __init__(self, new: File, old: File) -> None:
        self._known: dict[tuple[int, int], float] = {}
        self._blurred: dict[Node, str] = {}
        self._strangers: dict[Node, list[tuple[str, int]]] = {}
        self._files = new, old
        self._only_new, self._only_old = new.names - old.names, old.names - new.names

    def of(self, new: Node, old: Node) -> float:
        """How alike two statements are, all that is in them included."""
        known = self._known.get((id(new), id(old)))
        if known is None:
            known = self._known[id(new), id(old)] = self._compute(new, old)
        return known

    def _compute(self, new: Node, old: Node) -> float:
        if new.kind != old.kind:
            return 0.8 * self.heads(new, old) if any({new.kind, old.kind} <= kin for kin in _KINDRED) else 0.0
        if new.key == old.key:
            return 1.0
        head = self.heads(new, old)
        if not new.blocks and not old.blocks:
            return head
        body = max(dice(new.bag, old.bag), 0.8 * _shared(new.sayings, old.sayings))
        if new.kind in ("FunctionDef", "ClassDef"):
            same = new.syntax.name == old.syntax.name  # type: ignore[attr-defined]
            return 0.6 + 0.4 * body if same else 0.9 * body
        if new.kind in ("Try", "ExceptHandler"):
            return 0.3 + 0.7 * body if new.bag and old.bag else 0.3 + 0.3 * head
        if not new.bag or not old.bag:  # one of them has nothing in it, or nothing but calls for their own sake
            full = new if new.bag else old
            return 0.9 * head if head == 1 or all(one.kind == "Expr" or one.nothing for one in full.below()) else 0.55 * head
        return max(0.55 * head + 0.45 * body, 0.9 * body)

    def heads(self, new: Node, old: Node) -> float:
        """How alike two statements are without what is in their blocks."""
        if new.head == old.head:
            return 1.0
        if self.blurred(new) == self.blurred(old):
            return _BLURRED
        told = recognised_telling(new)
        if told is not None and told == recognised_telling(old):
            return _TOLD
        words = self._words(new, old)
        mine, theirs = new.handles, old.handles
        if not mine or not theirs:
            return words
        shared = len(mine & theirs) / max(len(mine), len(theirs))
        return 0.7 * words + 0.3 * shared

    def blurred(self, node: Node) -> str:
        """The text of a statement without its blocks, variables that only its version has all alike."""
        known = self._blurred.get(node)
        if known is None:
            unknown = self._only_new if node.file is self._files[0] else self._only_old
            known = self._blurred[node] = node.blurred(unknown) if self._strange(node) else node.head
        return known

    def _words(self, new: Node, old: Node) -> float:
        mine, theirs = new.words, old.words
        if not mine or not theirs:
            return 1.0 if not mine and not theirs else 0.0
        common = sum(min(count, theirs[word]) for word, count in mine.items() if word in theirs)
        known = sum(count for word, count in self._strange(new) if word not in theirs)
        other = sum(count for word, count in self._strange(old) if word not in mine)
        return (2 * common + min(known, other)) / (new.said + old.said)

    def _strange(self, node: Node) -> list[tuple[str, int]]:
        """The words of a statement that are variables which only its version has."""
        known = self._strangers.get(node)
        if known is None:
            unknown = self._only_new if node.file is self._files[0] else self._only_old
            said = node.words.items() if _may_say(node, unknown) else ()
            known = self._strangers[node] = [(word, count) for word, count in said if word in unknown]
        return known


def _may_say(node: Node, variables: frozenset[str]) -> bool:
    """Whether one of some variables can be in a statement: by its text, for to list its words takes longer."""
    if node.blocks or not variables:
        return bool(variables)
    return not variables.isdisjoint(VARIABLE.findall("".join(node.file.lines[node.line - 1 : node.end])))


def recognised_text(node: Node) -> int | None:
    """By what a statement is recognised wherever it stands: all of its text, if that says enough."""
    if node.left_out or node.nothing or node.kind in ("ExceptHandler", "Elif"):
        return None  # what is left out is recognised by its name
    return node.key if node.weight >= SAYS_ENOUGH else None


def recognised_blurred(text: str) -> str | None:
    """The same for one whose variables that only one version has are all alike."""
    return text if len(text.replace("?", "")) >= SAYS_ENOUGH + 6 else None


def recognised_telling(node: Node) -> str | None:
    """By what a statement that tells is recognised, by whatever means it does: by all that it tells."""
    if node.kind != "Expr" or node.nothing or not tells(node):
        return None
    told: str | None = node.__dict__.get("told")
    if told is None:
        call = node.syntax.value  # type: ignore[attr-defined]
        told = node.__dict__["told"] = ",".join(node.file.plain(one) for one in (*call.args, *call.keywords))
    return f"told:{told}" if len(told) >= SAYS_ENOUGH + 6 else None


def dice(new: frozenset[int], old: frozenset[int]) -> float:
    """Twice what two sets share, as a part of both."""
    return 2 * len(new & old) / (len(new) + len(old)) if new and old else 0.0


def _shared(new: Counter[str], old: Counter[str]) -> float:
    total = new.total() + old.total()
    return 2 * sum((new & old).values()) / total if total else 0.0
