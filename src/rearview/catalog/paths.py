"""Loop paths as people see and type them: `epoch=3/step=120`, `epoch#3`, `epoch=10..20`, `epoch[2]=3`. Pure.

An iteration is called by its value where that is a scalar, else by its number, counted from 0; `#` always means the number.
`epoch[2]` is the second loop of that name in the same iteration of the loop around it, or in the run.
Knows nothing of checkpoints, files or SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from rearview.errors import UsageError

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Element:
    """One loop of a path and where in it."""

    loop: str
    occurrence: int
    """How many loops of that name the parent's iteration had before."""
    iteration: int
    """From 0."""
    value: Scalar | None
    """What the iteration is called; None where it is no scalar."""

    def __str__(self) -> str:
        return self.loop + self._iteration()

    def _iteration(self) -> str:
        return f"#{self.iteration}" if self.value is None else f"={self.value}"

    @property
    def counted(self) -> str:
        """The loop among those of its name: `epoch[2]` is the second."""
        return f"{self.loop}[{self.occurrence + 1}]"

    def told(self) -> str:
        """With the loop among those of its name."""
        return self.counted + self._iteration()


Path = tuple[Element, ...]


def shown(path: Sequence[Element], told: Set[int] = frozenset()) -> str:
    """A path in people's words. `told` are the depths at which there are several loops of one name.

    >>> shown([Element("epoch", 0, 2, 3), Element("step", 0, 7, None)])
    'epoch=3/step#7'
    >>> shown([Element("epoch", 0, 2, 3), Element("step", 1, 7, None)], {0, 1})
    'epoch[1]=3/step[2]#7'
    """
    return "/".join(element.told() if depth in told else str(element) for depth, element in enumerate(path))


@dataclass(frozen=True, slots=True)
class Wish:
    """One loop of a place that somebody asks for."""

    loop: str
    """Its name, or which of its name: `epoch[2]`."""
    low: object
    """A scalar as the caller has it, or text as it was typed."""
    high: object = None
    """The other end of `10..20`, else None. An end that is empty text is open: `10..`."""
    by_number: bool = False
    typed: bool = False
    """`low` and `high` are text that stands for a scalar of any type."""

    def __str__(self) -> str:
        return f"{self.loop}{'#' if self.by_number else '='}{self.low}{f'..{self.high}' if self.high is not None else ''}"

    def means(self, element: Element) -> bool:
        """Whether the loop is meant."""
        return self.loop in (element.loop, element.counted)

    def fits(self, element: Element) -> bool:
        """Whether an iteration is meant."""
        if not self.means(element):
            return False
        have: Scalar = element.iteration if self.by_number or element.value is None else element.value
        low, high = (_as(have, end) if self.typed else end for end in (self.low, self.high))
        if self.high is None:
            return _equal(have, low)
        try:
            return bool((low == "" or low <= have) and (high == "" or have <= high))  # type: ignore[operator]
        except TypeError:
            return False


def _equal(have: Scalar, wanted: object) -> bool:
    if isinstance(have, str) != isinstance(wanted, str):
        return False
    return bool(have == wanted)


def _as(have: Scalar, text: object) -> object:
    """What was typed, read as the type of what is there; the text itself if it cannot be."""
    words = {"true": True, "false": False}
    if isinstance(have, bool):
        return words.get(str(text).lower(), text)
    if isinstance(have, str):
        return text
    for kind in (int, float):
        try:
            return kind(str(text))
        except ValueError:
            continue
    return text


_PIECE = re.compile(r"(?P<loop>[^=#]+)(?P<sign>[=#])(?P<value>.*)", re.DOTALL)
_RANGE = re.compile(r"(?P<low>[^.]+(?:\.[^.]+)?|)\.\.(?P<high>[^.]+(?:\.[^.]+)?|)", re.DOTALL)
_BETWEEN = re.compile(r"/(?=[^/=#]+[=#])|,\s*(?=[^\W\d]\w*(?:\[\d+\])?[=#])")
"""Between two loops: a slash, or a comma before something like a name."""


def parse(text: str) -> list[Wish]:
    """The place that somebody typed.

    >>> [str(wish) for wish in parse("epoch=3/step#120")], [str(wish) for wish in parse("fold=1, epoch[2]=10..")]
    (['epoch=3', 'step#120'], ['fold=1', 'epoch[2]=10..'])
    """
    wishes = []
    for piece in _BETWEEN.split(text.strip()):
        found = _PIECE.fullmatch(piece.strip())
        if found is None or found["value"].strip() in ("", ".."):
            raise UsageError(f"{text!r} is no place in a run: write epoch=3, epoch=3/step=120, or epoch#3 for the iteration number 3")
        by_number, value = found["sign"] == "#", found["value"].strip()
        ends = _RANGE.fullmatch(value)
        low, high = (ends["low"], ends["high"]) if ends else (value, None)
        if by_number and not all(end is None or end == "" or end.isdigit() for end in (low, high)):
            raise UsageError(f"{piece!r} names an iteration by its number, and {value!r} is none: write {found['loop']}={value}")
        wishes.append(Wish(found["loop"].strip(), low, high, by_number, typed=True))
    return wishes


def wishes_of(place: Mapping[str, Any], at: str | None = None) -> list[Wish]:
    """The place of a call: `epoch=3, step=120` as keywords, or `at="epoch#3"` as text."""
    if at is not None and not isinstance(at, str):
        raise UsageError(f'at={at!r} is no place in a run: it is text, such as at="epoch=3"; or name the loop, epoch=3')
    wishes = parse(at) if at is not None else []
    for loop, value in place.items():
        if not isinstance(value, (bool, int, float, str)):
            index = getattr(value, "item", None)  # a number of NumPy's or torch's
            value = index() if callable(index) else value
        if not isinstance(value, (bool, int, float, str)):
            raise UsageError(f"{loop}={value!r} is no place in a run: an iteration is called by a number, a truth value or text")
        wishes.append(Wish(loop, value))
    return wishes


def matches(path: Sequence[Element], wishes: Sequence[Wish]) -> bool:
    """Whether a path is the one that is meant: each loop of it is named, none other. The order of different loops does not matter."""
    if len(path) != len(wishes):
        return False
    left = list(wishes)
    for element in path:
        found = next((wish for wish in left if wish.means(element)), None)
        if found is None or not found.fits(element):
            return False
        left.remove(found)
    return True


def distance(path: Sequence[Element], wishes: Sequence[Wish]) -> tuple[float, ...]:
    """How far a path is from the one that is meant, loop by loop from the outermost: for naming the nearest."""
    steps: list[float] = []
    for element in path:
        wish = next((wish for wish in reversed(wishes) if wish.means(element)), None)
        have = element.iteration if wish is None or wish.by_number or element.value is None else element.value
        wanted = _as(have, wish.low) if wish is not None and wish.typed else wish.low if wish is not None else None
        if isinstance(have, (int, float)) and isinstance(wanted, (int, float)):
            steps.append(abs(float(have) - float(wanted)))
        else:
            steps.append(0.0 if wanted == have else 1.0 if wish is None else 2.0)
    missing = [wish for wish in wishes if not any(wish.means(element) for element in path)]
    return (float(len(missing)), *steps)
