"""Executed cells as one text, and that text as cells again: they are one module, and a statement may use what another cell defines.

A cell that was executed again, as it was or edited, stands there once, as it was at last: as it stood in the notebook. Knows text. Must
not know runs or files. Pure.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rearview.instrument.calls import tree_of
from rearview.instrument.place_at import lines_of
from rearview.instrument.scopes import bound_by, of_own, used
from rearview.propagate.project import Site
from rearview.record.source import cell_path
from rearview.replay.question import cells

PATH = "cells/the notebook.py"
"""What the text is called among the files of a project: nothing can import it."""
_SAME_CELL = 0.5
"""So much of two cells is the same if one is the other, edited."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Cells one behind the other, with a line between them that none of them has."""

    text: str
    mark: str
    keys: tuple[int, ...]
    """Which cells, in their order."""

    def split(self, text: str) -> dict[int, str]:
        """The cells of the text with lines put into it."""
        pieces = text.split(self.mark)
        return {key: piece.removesuffix("\n") for key, piece in zip(self.keys, pieces, strict=True)}

    def cell(self, text: str, line: int) -> tuple[int, int]:
        """Which cell a line of such a text is in, and which line of it."""
        before = lines_of(text)[: line - 1]
        number = before.count(self.mark)
        first = len(before) - before[::-1].index(self.mark) if number else 0
        return self.keys[number], line - first

    def line(self, key: int, line: int) -> int | None:
        """Where a line of a cell stands in the text; None if it has no such cell or line."""
        if key not in self.keys:
            return None
        pieces = self.text.split(self.mark)
        at = self.keys.index(key)
        if not 1 <= line <= len(lines_of(pieces[at])):
            return None
        return sum(len(lines_of(piece)) + 1 for piece in pieces[:at]) + line


def join(texts: Mapping[int, str]) -> Joined:
    """Cells as one text; one that is no Python is left out: nothing of it ran."""
    kept = {key: text for key, text in texts.items() if text.strip() and cells.parses(text)}
    said = hashlib.blake2b("\0".join(kept.values()).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    mark = f"# the next cell {said}\n"
    return Joined(mark.join(text + "\n" for text in kept.values()), mark, tuple(kept))


@dataclass(frozen=True, slots=True)
class Standing:
    """The executed cells as they stood in the notebook at last."""

    last: dict[int, str] = field(default_factory=dict)
    """In the order in which each was executed first; by the number of its last execution."""
    before: dict[int, dict[int, str]] = field(default_factory=dict)
    """Number of a last execution -> those before it, with the text they had."""


def standing(executed: Mapping[int, str], notebook: Sequence[str]) -> Standing:
    """Tell which executed cells are one cell, executed again. `notebook` has the cells as they are now."""
    found = Standing()
    chains: list[list[int]] = []
    lines = {number: _lines(text) for number, text in executed.items()}
    now = [_lines(text) for text in notebook]
    meant = {number: _most_alike(own, now) for number, own in lines.items()}
    for number, text in executed.items():
        for chain in chains:
            last = chain[-1]
            same_now = meant[number] is not None and meant[number] == meant[last]
            if executed[last] == text or (same_now and _alike(lines[number], lines[last]) >= _SAME_CELL):
                chain.append(number)
                break
        else:
            chains.append([number])
    for chain in chains:
        found.last[chain[-1]] = executed[chain[-1]]
        found.before[chain[-1]] = {number: executed[number] for number in chain[:-1]}
    return found


def defined(text: str) -> set[str]:
    """What a cell binds."""
    return {name for node in of_own(tree_of(text)) for name in bound_by(node)}


def mentioned(texts: Iterable[str]) -> frozenset[str]:
    """The names that cells use in any way; one that is no Python used none."""
    return frozenset().union(*(used(tree_of(text)) for text in texts if cells.parses(text)))


def likeness(some: Iterable[str], others: Iterable[str]) -> float:
    """How much of the lines of two notebooks is the same."""
    return _alike(_all_lines(some), _all_lines(others))


def _all_lines(texts: Iterable[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for text in texts:
        found.update(_lines(text))
    return found


def _lines(text: str) -> Counter[str]:
    stripped = (line.strip() for line in text.splitlines())
    return Counter(line for line in stripped if line and not line.startswith("#"))


def _alike(one: Counter[str], other: Counter[str]) -> float:
    both = one.total() + other.total()
    return 2 * (one & other).total() / both if both else 0.0


def _most_alike(own: Counter[str], others: Sequence[Counter[str]]) -> int | None:
    """The cell that has most of another one's lines; None if none has any."""
    scores = [_alike(own, one) for one in others]
    best = max(scores, default=0.0)
    return scores.index(best) if best > 0 else None


def site_in_cell(site: Site, joined: Joined, text: str) -> Site:
    """Where a statement went, told by the cell."""
    if site.file != PATH:
        return site
    mark = joined.mark.strip()
    before, after = ("" if one == mark else one for one in (site.before, site.after))
    if not site.lines:
        return replace(site, before=before, after=after)
    key, first = joined.cell(text, site.lines[0])
    lines = tuple(line - site.lines[0] + first for line in site.lines)
    return replace(site, file=cell_path(key), lines=lines, before=before, after=after)
