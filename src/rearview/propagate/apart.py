"""Functions that two versions of a file have and that cannot decide where a statement of another one goes: their insides are not compared.

Both versions have each of them once, by its name, and nothing that is in one is anywhere else: its statements are paired with each other
or not at all. Where something is asked that they could answer all the same, `LeftOut` is raised, and the files are compared as a whole.
Must not know where a statement goes. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

from rearview.instrument.pieces import Piece, begins, only_head, pieces_of, without
from rearview.instrument.scopes import bound
from rearview.propagate.hidden import Hidden
from rearview.propagate.likeness import recognised_blurred, recognised_telling, recognised_text
from rearview.propagate.tree import VARIABLE, File


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a piece mentions."""

    names: frozenset[str]
    globals: frozenset[str]
    bound: frozenset[str]
    """What it binds in the module."""
    imports_all: bool
    variables: frozenset[str]
    """Whatever looks like one in its text."""
    bag: frozenset[int]
    """The keys of all statements in it."""


@lru_cache(maxsize=128)
def _file(text: str) -> File:
    """A piece alone: nobody may change it."""
    return File(text)


@lru_cache(maxsize=4096)
def _facts(text: str) -> _Facts:
    file = _file(text)
    variables = frozenset(VARIABLE.findall(text))
    return _Facts(file.names, file.globals, frozenset(bound(file.tree)), file.imports_all, variables, file.module.bag)


@lru_cache(maxsize=4096)
def _marks(text: str, unknown: frozenset[str]) -> frozenset[Hashable]:
    """All by which the statements of a piece are recognised elsewhere. `unknown`: variables in it that only its version has."""
    nodes = _file(text).nodes
    blurred = (one.blurred(unknown) if unknown.intersection(one.words) else one.head for one in nodes if not one.blocks and not one.nothing)
    found: set[Hashable] = {way(one) for one in nodes for way in (recognised_text, recognised_telling)}
    found.update(recognised_blurred(one) for one in blurred)
    return frozenset(found - {None})


class _Version:
    """One version of a file, in pieces."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces = pieces_of(text)
        every = [_facts(one.text) for one in self.pieces]
        self.names = frozenset().union(*(one.names for one in every))
        self.globals = frozenset().union(*(one.globals for one in every))
        self.bound = frozenset().union(*(one.bound for one in every))
        self.imports_all = any(one.imports_all for one in every)
        defined = Counter(name for one in self.pieces for name in one.defines)
        self.functions = {one.defines[0]: one for one in self.pieces if one.outline is not None and defined[one.defines[0]] == 1}

    def marks(self, piece: Piece, unknown: frozenset[str]) -> frozenset[Hashable]:
        return _marks(piece.text, unknown & _facts(piece.text).variables)

    def file(self, apart: frozenset[str], unknown: frozenset[str]) -> File:
        """The file without what is in some functions."""
        left = [self.functions[name] for name in apart]
        bag = frozenset().union(*(_facts(one.text).bag for one in left))
        words = frozenset().union(*(one.words for one in left))
        marks = frozenset().union(*(self.marks(one, unknown) for one in left))
        hidden = Hidden(self.names, self.globals, self.bound, self.imports_all, apart, words, marks, bag)
        gone = {one.text for one in left}
        return File(self.text, without(self.pieces, lambda one: one.text in gone, only_head), hidden)


@lru_cache(maxsize=8)
def _version(text: str) -> _Version:
    """A version in pieces: one is placed into many. Nobody may change it."""
    return _Version(text)


def apart(new: str, lines: tuple[int, int], old: str) -> tuple[File, File] | None:
    """Two versions without what is in functions that do not matter to the statements on some lines of the new one; None if all does."""
    try:
        mine, theirs = _version(new), _version(old)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    asked = {
        piece.text for piece, line in zip(mine.pieces, begins(mine.pieces), strict=True)
        if line <= lines[1] and lines[0] < line + piece.lines
    }  # fmt: skip
    names = {name for name in mine.functions.keys() & theirs.functions.keys() if mine.functions[name].text not in asked}
    only_new, only_old = mine.names - theirs.names, theirs.names - mine.names
    left = _unlike_the_rest(mine, theirs, names, only_new, only_old)
    return (mine.file(left, only_new), theirs.file(left, only_old)) if left else None


def _unlike_the_rest(
    mine: _Version, theirs: _Version, names: set[str], only_new: frozenset[str], only_old: frozenset[str]
) -> frozenset[str]:
    """Those of some functions that have no statement in common with the rest of the files."""
    by_name = {name: mine.marks(mine.functions[name], only_new) | theirs.marks(theirs.functions[name], only_old) for name in names}
    rest: set[Hashable] = set()
    for version, unknown in ((mine, only_new), (theirs, only_old)):
        for piece in version.pieces:
            if piece.outline is None or piece.defines[0] not in names:
                rest |= version.marks(piece, unknown)
    while common := [name for name, marks in by_name.items() if not rest.isdisjoint(marks)]:
        for name in common:
            rest |= by_name.pop(name)
    return frozenset(by_name)
