"""Which cells of a notebook, as it is now, are the cells that a run executed: as they were, or with statements added.

A notebook is no file that runs from top to bottom: its cells are executed in any order, again, edited in between. What a run executed is
known. A cell that is not there any longer is run as it was; one that is there with statements added has them wherever it was executed;
a new cell with nothing but log statements belongs behind the cell before it. Pure.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rearview.instrument.added import Added, added
from rearview.instrument.calls import Calls
from rearview.instrument.scopes import bound_by, used


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook as it is now."""

    text: str
    count: int | None = None
    """The number of its last execution, in whichever kernel that was."""


@dataclass(slots=True)
class Matched:
    """The executed cells as they would be now."""

    texts: dict[int, str] = field(default_factory=dict)
    """By number; each as it was executed, or with what was added."""
    places: dict[int, int] = field(default_factory=dict)
    """Number -> which cell of the notebook that is."""
    gone: list[int] = field(default_factory=list)
    """Numbers of cells that the notebook does not have any longer, and that are more than a look at something."""

    @property
    def score(self) -> int:
        """How many of the executed cells the notebook has."""
        return len(self.places)


def match(executed: Mapping[int, str], notebook: Sequence[Cell], since: Mapping[int, str] | None = None) -> Matched:
    """Find executed cells, by number, in a notebook; `since`: what the same kernel executed later. The file may not have that yet."""
    taken = _names(executed.values())
    later = [Cell(text, number) for number, text in {**executed, **(since or {})}.items()]
    found = Matched(dict(executed))
    known: dict[str, tuple[dict[int, bool], dict[int, bool]]] = {}
    for number, text in executed.items():
        if not _statements(text):
            continue
        if text not in known:
            known[text] = _candidates(text, notebook, taken), _candidates(text, later, taken)
        candidates, again = known[text]
        place = _choose(number, candidates, notebook)
        newest = next((later[k] for k in sorted(again, reverse=True) if not again[k]), None)
        if place is not None:
            found.places[number] = place
        if place is not None and not candidates[place]:
            found.texts[number] = notebook[place].text
        elif newest is not None and (newest.count or 0) > number:
            found.texts[number] = newest.text
        elif place is None and _is_more_than_a_look(text):
            found.gone.append(number)
    _take_new_cells(found, executed, notebook, taken)
    return found


def _candidates(text: str, notebook: Sequence[Cell], taken: frozenset[str]) -> dict[int, bool]:
    """The cells that are this one, and whether they are as it was."""
    lines = _lines(text)
    found: dict[int, bool] = {}
    for place, cell in enumerate(notebook):
        if cell.text == text or cell.text.strip() == text.strip():
            found[place] = True
        elif lines <= _lines(cell.text) and isinstance(added(text, cell.text, taken=taken), Added):
            found[place] = False
    return found


def _choose(number: int, candidates: Mapping[int, bool], notebook: Sequence[Cell]) -> int | None:
    """The one that says it was executed with this number; else one as it was; else the one with the least added."""
    if not candidates:
        return None
    return min(candidates, key=lambda place: (notebook[place].count != number, not candidates[place], len(notebook[place].text), place))


def _lines(text: str) -> Counter[str]:
    """What must still be there if something was only added."""
    stripped = (line.strip() for line in text.splitlines())
    return Counter(line for line in stripped if line and not line.startswith("#"))


def _is_more_than_a_look(text: str) -> bool:
    """Whether a cell defines or repeats something, or logs: a statement could have been added to it."""
    return any(not isinstance(one, ast.Expr | ast.Assign | ast.Import | ast.ImportFrom) for one in _statements(text)) or _logs(text)


# -- new cells -----------------------------------------------------------------------------------------------------------


def _take_new_cells(found: Matched, executed: Mapping[int, str], notebook: Sequence[Cell], taken: frozenset[str]) -> None:
    """Put log statements that have a cell of their own behind the cell before it; with the definitions that they use."""
    by_place: dict[int, list[int]] = {}
    for number, place in found.places.items():
        by_place.setdefault(place, []).append(number)
    new = {place: cell.text for place, cell in enumerate(notebook) if place not in by_place and _is_addition(cell.text, taken)}
    wanted = {place for place, text in new.items() if _logs(text)}
    texts = [found.texts[number] for number in found.places if found.texts[number] != executed[number]]
    while True:  # what they need, and what that needs
        needed = _names([*texts, *(new[place] for place in wanted)])
        more = {place for place, text in new.items() if place not in wanted and _bound(text) & needed}
        if not more:
            break
        wanted |= more
    for place in sorted(wanted):
        if (before := _before(place, by_place, wanted, notebook)) is not None:
            for number in by_place[before]:
                found.texts[number] = _joined(found.texts[number], new[place])
    first = min(found.places, default=None)
    if first is not None:
        leading = [new[place] for place in sorted(wanted) if place < min(by_place)]
        for text in reversed(leading):
            found.texts[first] = _joined(text, found.texts[first])


def _before(place: int, by_place: Mapping[int, list[int]], wanted: set[int], notebook: Sequence[Cell]) -> int | None:
    """The executed cell directly before a new one. What was never executed lies in between; what another run executed does not."""
    for before in range(place - 1, -1, -1):
        if before in by_place:
            return before
        if before not in wanted and notebook[before].count is not None and _statements(notebook[before].text):
            return None
    return None


def _joined(one: str, other: str) -> str:
    return f"{one.rstrip()}\n{other.rstrip()}\n"


def _is_addition(text: str, taken: frozenset[str]) -> bool:
    return bool(_statements(text)) and isinstance(added("", text, taken=taken), Added)


def _logs(text: str) -> bool:
    tree = ast.Module(_statements(text), [])
    calls = Calls(tree)
    return any(calls.called(node) == "log" for node in ast.walk(tree))


def _bound(text: str) -> set[str]:
    return {name for node in ast.walk(ast.parse(text)) for name in bound_by(node)}


def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return [ast.Pass()] if text.strip() else []


def _names(texts: Iterable[str]) -> frozenset[str]:
    """What means something in some cells: they are one module."""
    names: set[str] = set()
    for text in texts:
        try:
            names |= used(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError):
            continue
    return frozenset(names)
