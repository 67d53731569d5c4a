"""In which order a set gives its elements out: a matter of its table, not of its elements.

Two sets with the same elements differ in it if they were filled otherwise, and a sum over one of them may differ in its last bits. Here is
how a set is filled so that its table is the recorded one: first elements that lie where their hash says, as many as give the table its
size, then the others, each after those that were in its way. Memory of a set is only read, after the reading was proved on sets of our
own. What cannot be made again so (something was removed, so that the table has gaps) is said to be unlike. For plain elements: the hash of
any other object is another one in each process.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

UNLIKE = "the order in which it gives its elements out"
"""Of a set: what comes back otherwise."""
PLAIN = (int, str, bytes, float, bool, type(None))
MOST = 1024
"""Elements of a set that is looked at; of a larger one it is only tried whether it comes out the same."""
_FILL, _MASK, _TABLE = 16, 32, 40
"""Where a set keeps how many entries its table has, with gaps, the size of that table less one, and the table."""
_SMALLEST = 8
_PROBES, _SHIFT = 9, 5
_SHUFFLED, _TRIES = 200, 64
_REMEMBERED = 200
_known: dict[tuple[bool, bool, bytes], tuple[list[Any], bool]] = {}
"""Tables that were looked at: most sets stay as they are from checkpoint to checkpoint."""
_WORD = 2**64 - 1
_NOTHING = bytes(8)


class _Filler:
    """Takes a place in a table for a moment."""

    __slots__ = ()


def recipe(value: Any) -> tuple[list[Any], bool]:
    """The elements of a set as `fill` takes them, and whether it will then be as it is: its order, and how it goes on."""
    if not value and type(value) is set:
        return [], untouched(value)
    items = list(set.__iter__(value))
    if not items or not all(map(_is_plain, items)):
        return items, bool(items) or _gaps(value) == 0
    return _remembered(value, items, lambda order: _as_filled(order, value), bool(_gaps(value)))


def frozen_recipe(value: Any) -> tuple[list[Any], bool]:
    """The same for a frozen set, which is made in one go: only its order counts."""
    items = list(frozenset.__iter__(value))
    if len(items) < 2 or not all(map(_is_plain, items)):
        return items, True
    order, known = _remembered(value, items, lambda order: list(frozenset(once(order))) == items, False)
    return once(order), known


def _remembered(value: Any, items: list[Any], fits: Callable[[list[Any]], bool], has_gaps: bool) -> tuple[list[Any], bool]:
    """What was found for a table stays true for it: the elements are held, so no other object has their addresses."""
    if len(items) > MOST or not _readable():
        return items, fits(items)
    key = type(value) is frozenset, has_gaps, _entries(value)
    found = _known.get(key)
    if found is None:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        order = None if has_gaps else next(filter(fits, _orders(value, items)), None)
        found = _known[key] = (items if order is None else order, order is not None)
    return found


def _orders(value: Any, items: list[Any]) -> Iterator[list[Any]]:
    """Orders to try, the likeliest first."""
    yield items
    found = _by_places(value, items)
    if found is not None:
        yield found
    if len(items) <= _SHUFFLED:  # a table that has just grown: what lay in the old one decides
        draw = random.Random(0)
        for _ in range(_TRIES):
            yield draw.sample(items, len(items))


def once(items: Sequence[Any]) -> list[Any]:
    """The elements of a recipe, each of them once."""
    at = _turn(items)
    return list(items) if at is None else [*items[:at], *items[at + 1 :]]


def fill(target: Any, items: Sequence[Any]) -> None:
    """Fill an empty set. An element that comes a second time says: up to here they give the table its size."""
    at = _turn(items)
    if at is None:
        set.update(target, items)
        return
    set.update(target, items[:at])
    fillers: list[_Filler] = []
    while len(fillers) <= _mask(target) // 4:
        fillers.append(_Filler())
        set.add(target, fillers[-1])
    set.difference_update(target, fillers)  # with so many gaps, the table is made anew for what is left
    set.update(target, items[at + 1 :])


def alike(made: Any, wanted: Any) -> bool:
    """Whether two sets give out the same, and will go on alike. Of objects the order means nothing: it is that of their addresses."""
    if {id(item) for item in made} == {id(item) for item in wanted} and not all(map(_is_plain, made)):
        return True
    same = _all_same(list(set.__iter__(made)), list(set.__iter__(wanted)))
    return same and (not _readable() or _layout(made) == _layout(wanted))


def alike_frozen(made: Any, wanted: Any) -> bool:
    """Whether two frozen sets give out the same."""
    return _all_same(list(frozenset.__iter__(made)), list(frozenset.__iter__(wanted)))


def _all_same(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and _is_plain(one) and bool(one == other))


def _is_plain(item: Any) -> bool:
    return type(item) in PLAIN or (type(item) is tuple and all(map(_is_plain, item)))


def _turn(items: Sequence[Any]) -> int | None:
    """Where the first element comes a second time."""
    if not items:
        return None
    first = items[0]
    return next((at for at in range(1, len(items)) if items[at] is first), None)


def _as_filled(items: Sequence[Any], value: Any) -> bool:
    fresh: set[Any] = set()
    fill(fresh, items)
    return alike(fresh, value)


# The table


def _number(value: Any, at: int) -> int:
    return int(ctypes.c_ssize_t.from_address(id(value) + at).value)


def _mask(value: Any) -> int:
    return _number(value, _MASK) if _readable() else max(_SMALLEST, (set.__sizeof__(value) - set.__sizeof__(set())) // 16) - 1


def _gaps(value: Any) -> int:
    """Entries of a table whose element was removed."""
    return _number(value, _FILL) - len(value) if _readable() else 0


def untouched(empty: set[Any]) -> bool:
    """Whether an empty set has no gaps. Every module has an empty set: what makes a reading of memory slow is left out here."""
    compare, at = _comparing(), object.__hash__(empty)
    if compare is None or not 0 < at < 1 << 60:  # bits of an address that is no multiple of sixteen come first
        return _gaps(empty) == 0
    return compare((at << 4) + _FILL, _NOTHING, 8) == 0


def all_untouched(several: Sequence[set[Any]]) -> bool:
    """Whether all of them are empty and have no gaps."""
    compare, places = _comparing(), list(map(object.__hash__, several))
    if compare is None or (places and not 0 < min(places) <= max(places) < 1 << 60):
        return not any(several) and all(map(untouched, several))
    filled = map(compare, [(at << 4) + _FILL for at in places], itertools.repeat(_NOTHING), itertools.repeat(8))
    return not any(filled)


@functools.cache
def _comparing() -> Callable[[int, bytes, int], int] | None:
    """`memcmp`, if sets can be read, and the hash of an object is its address by sixteen."""
    sample: set[Any] = set()
    if not _readable() or object.__hash__(sample) << 4 != id(sample):
        return None
    function = ctypes.PyDLL(None).memcmp
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t), ctypes.c_int
    return function


@functools.cache
def _readable() -> bool:
    """Whether sets of this interpreter are laid out as those this was written for."""
    if set().__sizeof__() != 200:
        return False
    sample = set(range(3, 30))
    sample.discard(4)
    if (_number(sample, _FILL), _number(sample, _FILL + 8), _number(sample, _MASK)) != (27, 26, 127):
        return False
    return sorted(_slots(sample)) == sorted(map(id, sample))


def _entries(value: Any) -> bytes:
    """The table: address and hash of each element."""
    return ctypes.string_at(_number(value, _TABLE), 16 * (_number(value, _MASK) + 1))


def _slots(value: Any) -> dict[int, int]:
    """Address of an element -> its place in the table."""
    entries = array("Q")
    entries.frombytes(_entries(value))
    known = {id(item) for item in value}
    return {address: at for at, address in enumerate(entries[::2]) if address in known}


def _layout(value: Any) -> tuple[int, int, list[int]]:
    """The size of the table, its gaps, and the places of its elements: two that give out the same may still go on otherwise."""
    return _mask(value), _gaps(value), list(_slots(value).values())


def _by_places(value: Any, items: Sequence[Any]) -> list[Any] | None:
    """The elements in an order that brings each to its place."""
    mask, slots = _number(value, _MASK), _slots(value)
    at_home = [item for item in items if slots[id(item)] == hash(item) & mask]
    taken = {slots[id(item)] for item in at_home}
    waiting = [(item, way) for item in items if slots[id(item)] not in taken and (way := _way(item, mask, slots[id(item)])) is not None]
    if len(at_home) + len(waiting) != len(items):
        return None
    rest: list[Any] = []
    while waiting:
        later = []
        for item, way in waiting:
            if taken.issuperset(way):
                rest.append(item)
                taken.add(slots[id(item)])
            else:
                later.append((item, way))
        if len(later) == len(waiting):
            return None
        waiting = later
    if mask + 1 == _SMALLEST:
        return [*at_home, *rest]
    sizing = next((count for count in range(len(at_home), 0, -1) if _size_for(count) == mask + 1), None)
    return None if sizing is None else [*at_home[:sizing], at_home[0], *at_home[sizing:], *rest]


def _way(item: Any, mask: int, goal: int) -> set[int] | None:
    """The places that were taken when an element found its own."""
    perturb = hash(item) & _WORD
    at, seen = perturb & mask, set[int]()
    for _ in range(64):
        for place in range(at, at + (_PROBES if at + _PROBES <= mask else 0) + 1):
            if place == goal:
                return seen
            seen.add(place)
        perturb >>= _SHIFT
        at = (at * 5 + 1 + perturb) & mask
    return None


def _size_for(count: int) -> int:
    """How large a table is made for so many elements."""
    wanted, size = count * 2 if count > 50_000 else count * 4, _SMALLEST
    while size <= wanted:
        size <<= 1
    return size
