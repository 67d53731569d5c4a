"""A program without functions that cannot matter to where statements run, nor to what they read.

Such a function has no loop of the record, sets nothing outside itself, looks nothing up by name, and mentions no function or class of the
project but others of the same kind: going through it ends where it began. One that a statement may call is kept: what it reads counts.
By name, on the safe side. Every line keeps its number. Knows source. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from rearview.instrument.pieces import Piece, begins, only_lines, pieces_of, without
from rearview.instrument.place_at import lines_of
from rearview.instrument.program import PLAIN_DECORATORS

_WORD = re.compile(r"[^\W\d]\w*")
_MATTERS = frozenset(
    "loop checkpointing skip_block step_into getattr hasattr setattr delattr methodcaller attrgetter eval exec globals locals vars".split()
)


def relevant(files: Mapping[str, str], lines: Iterable[tuple[str, int, int]]) -> dict[str, str]:
    """The files of a program as they matter to the statements on some lines: (file, first, last)."""
    pieces = {path: _pieces(text) for path, text in files.items() if path.endswith(".py")}
    every = [piece for some in pieces.values() for piece in some]
    renamed = {alias.asname: alias.name for piece in every for one in piece.imports for alias in one.names if alias.asname}
    lines = list(lines)
    asked = {piece.text for path, first, last in lines for piece in _on(pieces.get(path, ()), first, last)}
    words = [word for path, first, last in lines for text in lines_of(files[path])[first - 1 : last] for word in _WORD.findall(text)]
    quiet = _quiet(every, asked, renamed) - _mentioned(every, words, renamed)
    return {
        path: without(pieces[path], lambda piece: piece.defines[0] in quiet, only_lines) if pieces.get(path) else text
        for path, text in files.items()
    }


def _pieces(text: str) -> tuple[Piece, ...]:
    try:
        return pieces_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()


def _on(pieces: tuple[Piece, ...], first: int, last: int) -> list[Piece]:
    return [piece for piece, begin in zip(pieces, begins(pieces), strict=True) if begin <= last and first < begin + piece.lines]


def _quiet(every: Collection[Piece], asked: Collection[str], renamed: Mapping[str, str]) -> set[str]:
    """The names of functions that lead nowhere."""
    left = {piece for piece in every if piece.outline is not None and not piece.stores and piece.text not in asked}
    left = {piece for piece in left if piece.words.isdisjoint(_MATTERS)}
    matter = {name for piece in every if piece not in left for name in piece.defines}
    while True:
        matter |= {name for name, other in renamed.items() if other in matter}
        loud = {piece for piece in left if not piece.words.isdisjoint(matter)}
        if not loud:
            return {piece.defines[0] for piece in left} - matter - PLAIN_DECORATORS
        left -= loud
        matter |= {piece.defines[0] for piece in loud}


def _mentioned(every: Collection[Piece], words: Iterable[str], renamed: Mapping[str, str]) -> set[str]:
    """Some words, and what the functions and classes of these names mention in turn."""
    by_name: dict[str, list[Piece]] = {}
    for piece in every:
        for name in piece.defines:
            by_name.setdefault(name, []).append(piece)
    found: set[str] = set()
    pending = list(words)
    while pending:
        word = pending.pop()
        if word not in found:
            found.add(word)
            pending += [renamed[word]] if word in renamed else []
            pending += [other for piece in by_name.get(word, ()) for other in piece.words if other not in found]
    return found
