"""Reading thousands of objects again, level by level and all of a level at once by C code: are they what they were?

What hangs below some objects is described once (`Levels.of`): where atoms stand, where other objects stand, and of which sort these
are. `Levels.read` goes the same way through what hangs there now. Nothing is believed: each dict, list and attribute is read; an
object counts as the same if it is at the same address, is of the same class, and holds what was held there. Knows tensors only as
where a level ends. Keeps atoms and classes, and no other object of the program.
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rearview.state.take import sets
from rearview.state.take.walk import LONG_TEXT, identity

ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)))
"""Values that never change: the same object is the same value."""
_of_object = object.__getattribute__
_values = operator.methodcaller("values")
_factory = operator.attrgetter("default_factory")
_Pick = Callable[[Sequence[Any]], Sequence[Any]]
_Getter = Callable[[dict[str, Any]], tuple[Any, ...]]


class Changed(Exception):
    """Something else is there than was: what hangs below has to be walked."""


@dataclass(frozen=True, slots=True)
class _Picks:
    """What gives out the parts of a level by their sort. Of objects those that are met for the first time; `held`: all of them."""

    atoms: _Pick
    held: _Pick
    objects: _Pick
    spaces: _Pick
    """The `__dict__` of objects, of which some entries may be left out."""
    getters: list[_Getter]
    """What gives out the others."""
    dicts: _Pick
    factories: _Pick
    sequences: _Pick
    sets: _Pick
    tensors: _Pick

    def below(self, parts: Sequence[Any]) -> list[Any]:
        """What the objects of the level hold: the parts of the next."""
        objects, dicts = self.objects(parts), self.dicts(parts)
        below = [*map(_of_object, objects, itertools.repeat("__dict__")), *map(type, objects), *map(type, self.tensors(parts))]
        below += itertools.chain.from_iterable(map(operator.call, self.getters, self.spaces(parts)))
        below += itertools.chain.from_iterable(dicts)
        below += itertools.chain.from_iterable(map(_values, dicts))
        below += map(_factory, self.factories(parts))
        below += itertools.chain.from_iterable(self.sequences(parts))
        return below

    def lengths(self, parts: Sequence[Any]) -> list[int]:
        """How much each container holds."""
        return [*map(len, self.dicts(parts)), *map(len, self.sequences(parts))]

    def owners(self, parts: Sequence[Any], numbers: Mapping[int, int]) -> list[int]:
        """Whose each of the parts below is, in their order."""

        def of(held: Iterable[Any]) -> list[int]:
            return [numbers[identity(one)] for one in held]

        objects, dicts, sequences = self.objects(parts), self.dicts(parts), self.sequences(parts)
        spaces = zip(of(self.spaces(parts)), self.spaces(parts), self.getters, strict=True)
        attributes = [number for number, space, getter in spaces for _ in getter(space)]
        entries = [number for number, one in zip(of(dicts), dicts, strict=True) for _ in one]
        items = [number for number, one in zip(of(sequences), sequences, strict=True) for _ in one]
        others = [*of(objects), *of(objects), *of(self.tensors(parts)), *attributes]
        return [*others, *entries, *entries, *of(self.factories(parts)), *items]


@dataclass(frozen=True, slots=True)
class _Level:
    """One level as it was."""

    picks: _Picks
    owners: Sequence[int]
    """The number of the object that holds each part."""
    atoms_at: Sequence[int]
    atoms: Sequence[Any]
    ids: list[int]
    kinds: list[type]
    """Of the objects."""
    names: list[tuple[str, ...]]
    """Of their attributes."""
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class Read:
    """What is there now."""

    parts: list[Sequence[Any]]
    """Of each level."""
    tensors: list[Any]
    others: set[int]
    """The numbers of objects that hold other atoms than they did."""


def is_packed(value: Sequence[Any] | Mapping[Any, Any], shortest: int) -> bool:
    """Whether a container may be described by columns of values instead of by its parts."""
    if len(value) < shortest:
        return False
    first = next(iter(value.values() if isinstance(value, dict) else value))
    return type(first) in ATOMS or type(first) is tuple


class Levels:
    """What hangs below some objects."""

    def __init__(self, levels: list[_Level], places: dict[int, tuple[int, int]], tensors: list[int]) -> None:
        self._levels = levels
        self._places = places
        self.tensors = tensors
        """The numbers of the tensors, in the order in which they are read."""

    @staticmethod
    def of(tops: Sequence[Any], numbers: Mapping[int, int], sorts: Mapping[int, str], left: Mapping[int, frozenset[str]]) -> Levels | None:
        """Describe what hangs below. `numbers`: of the objects that belong to it, by identity; `sorts`: how each number is read;
        `left`: what is left out of a `__dict__`, by its number.

        None if some of them are not met on this way.
        """
        found: list[_Level] = []
        places: dict[int, tuple[int, int]] = {}
        tensors: list[int] = []
        parts: Sequence[Any] = list(tops)
        owners: Sequence[int] = [0] * len(parts)
        while parts:
            level = _described(parts, owners, numbers, sorts, left, places, len(found))
            if level is None:
                return None
            found.append(level)
            tensors += [numbers[identity(one)] for one in level.picks.tensors(parts)]
            parts, owners = level.picks.below(parts), level.picks.owners(parts, numbers)
        return Levels(found, places, tensors) if len(places) == len(sorts) else None

    def read(self, tops: Sequence[Any]) -> Read:
        """What hangs below these now; `Changed` if it is not what was described but for atoms, and what is left out."""
        parts: Sequence[Any] = list(tops)
        every: list[Sequence[Any]] = []
        tensors: list[Any] = []
        others: set[int] = set()
        for level in self._levels:
            if len(parts) != len(level.owners):
                raise Changed
            picks = level.picks
            held = picks.held(parts)
            if list(map(identity, held)) != level.ids or not all(map(operator.is_, map(type, held), level.kinds)):
                raise Changed
            if list(map(tuple, picks.spaces(parts))) != level.names or picks.lengths(parts) != level.lengths:
                raise Changed
            if not sets.all_untouched(picks.sets(parts)):
                raise Changed
            others |= _other_atoms(level, parts)
            tensors += picks.tensors(parts)
            every.append(parts)
            parts = picks.below(parts)
        if parts:
            raise Changed
        return Read(every, tensors, others)

    def object_of(self, read: Read, number: int) -> Any:
        """The object of that number, as it was read."""
        level, at = self._places[number]
        return read.parts[level][at]


def _described(
    parts: Sequence[Any],
    owners: Sequence[int],
    numbers: Mapping[int, int],
    sorts: Mapping[int, str],
    left: Mapping[int, frozenset[str]],
    places: dict[int, tuple[int, int]],
    depth: int,
) -> _Level | None:
    """A level; `places` learns where the objects are that are met for the first time."""
    at_of: dict[str, list[int]] = collections.defaultdict(list)
    for at, part in enumerate(parts):
        number = numbers.get(identity(part))
        sort = None if number is None else sorts.get(number)
        if sort is None or number is None:
            if type(part) in ATOMS and not (type(part) in (str, bytes) and len(part) > LONG_TEXT):  # what holds a long one is taken anew
                at_of["atom"].append(at)
            continue
        at_of["held"].append(at)
        if number not in places:
            places[number] = depth, at
            at_of[sort].append(at)
            if type(part) is collections.defaultdict:
                at_of["factory"].append(at)
    spaces = [parts[at] for at in at_of["space"]]
    if any(type(name) is not str for space in spaces for name in space):
        return None
    kept = [tuple(name for name in space if name not in left[numbers[identity(space)]]) for space in spaces]
    picks = _Picks(
        _picker(at_of["atom"]),
        _picker(at_of["held"]),
        _picker(at_of["object"]),
        _picker(at_of["space"]),
        list(map(_getter, kept)),
        *(_picker(at_of[sort]) for sort in ("dict", "factory", "sequence", "set", "tensor")),
    )
    held = picks.held(parts)
    return _Level(
        picks,
        owners,
        at_of["atom"],
        picks.atoms(parts),
        list(map(identity, held)),
        list(map(type, held)),
        list(map(tuple, spaces)),
        picks.lengths(parts),
    )


def _other_atoms(level: _Level, parts: Sequence[Any]) -> set[int]:
    """The numbers of what holds another atom than it did, or something else in its place."""
    now = level.picks.atoms(parts)
    if all(map(operator.is_, now, level.atoms)):
        return set()
    others = itertools.compress(range(len(now)), map(operator.is_not, now, level.atoms))
    return {level.owners[level.atoms_at[k]] for k in others if not _is_same(now[k], level.atoms[k])}


def _is_same(value: Any, before: Any) -> bool:
    kind = type(value)
    if kind is not type(before):
        return False
    if kind in (float, complex):
        return _bits(value) == _bits(before)
    return bool(value == before)


def _bits(value: complex) -> bytes:
    return struct.pack("<dd", value.real, value.imag)


def _picker(positions: list[int]) -> _Pick:
    """The parts at these positions."""
    if not positions:
        return _nothing
    if len(positions) == 1:
        return lambda parts, at=positions[0]: (parts[at],)  # type: ignore[misc]
    return operator.itemgetter(*positions)


@functools.lru_cache(maxsize=1000)
def _getter(names: tuple[str, ...]) -> _Getter:
    """The values of these names."""
    if len(names) < 2:
        return lambda space: tuple(space[name] for name in names)
    return operator.itemgetter(*names)


def _nothing(_parts: Sequence[Any]) -> Sequence[Any]:
    return ()
