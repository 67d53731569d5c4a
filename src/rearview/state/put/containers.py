"""Containers and plain values going back: in place where the live object has the type, order and identity as recorded.

Only the methods of the plain types are used, never those of a derived class: what a class does when an item is set has been
done when the program set it.
"""

from __future__ import annotations

import array
import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from rearview.state.put.kind import ABSENT, InPlace, Kind, Pairs, identical, present, sequence
from rearview.state.take import sets
from rearview.state.tree import NONE

if TYPE_CHECKING:
    from rearview.state.restore import Job, Plan


def _new(job: Job, plain: Any, number: int) -> Any:
    """An empty object of the recorded class."""
    return plain() if number == NONE else plain.__new__(job.named(number))


class Container(InPlace):
    """What lists, sets and deques have in common: class, attributes, perhaps a setting, items."""

    plain: type = list
    items_at = 2

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], self.plain) or not self.alike(plan, payload, live):
            return None
        return [*plan.extras(payload[1], live), *self.items(plan, payload[self.items_at :], live)]

    def alike(self, plan: Plan, payload: Any, live: Any) -> bool:
        return True

    def items(self, plan: Plan, numbers: Sequence[int], live: Any) -> Pairs:
        have = list(self.plain.__iter__(live))  # type: ignore[attr-defined]
        return list(zip(numbers, [*have, *[ABSENT] * (len(numbers) - len(have))], strict=False))

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return _new(job, self.plain, payload[0]) if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        self.refill(job, payload, made)
        job.put_extras(payload[1], made)

    def refill(self, job: Job, payload: Any, made: Any) -> None:
        """The recorded content into the object."""
        raise NotImplementedError


class List(Container):
    """A list."""

    def refill(self, job: Job, payload: Any, made: Any) -> None:
        items = sequence(job, payload[2:])
        if not identical(items, list.copy(made)):
            list.__setitem__(made, slice(None), items)


class Deque(Container):
    """A deque; its limit cannot be changed, so another limit means another object."""

    plain = collections.deque
    items_at = 3

    def alike(self, plan: Plan, payload: Any, live: Any) -> bool:
        return bool(plan.plain(payload[2]) == live.maxlen)

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        if live is not ABSENT:
            return live
        fresh = _new(job, collections.deque, payload[0])
        collections.deque.__init__(fresh, (), job.plain(payload[2]))
        return fresh

    def refill(self, job: Job, payload: Any, made: Any) -> None:
        items = sequence(job, payload[3:])
        if not identical(items, list(collections.deque.__iter__(made))):
            collections.deque.clear(made)
            collections.deque.extend(made, items)


class Set(Container):
    """A set, filled so that it gives its elements out as it did; one that does so already is left alone."""

    plain = set

    def items(self, plan: Plan, numbers: Sequence[int], live: Any) -> Pairs:
        return plan.elements(numbers, list(set.__iter__(live)))

    def refill(self, job: Job, payload: Any, made: Any) -> None:
        items = present(job, payload[2:])
        wanted: set[Any] = set()
        sets.fill(wanted, items)
        if not sets.alike(made, wanted):
            set.clear(made)
            sets.fill(made, items)


class FrozenSet(Kind):
    """A frozen set: built after its elements."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], frozenset):
            return None
        return [*plan.extras(payload[1], live), *plan.elements(payload[2:], list(frozenset.__iter__(live)))]

    def early(self, payload: Any) -> Sequence[int]:
        return [payload[0], *payload[2:]]

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        items = present(job, payload[2:])
        if live is not ABSENT and sets.alike_frozen(live, frozenset(items)):
            return live
        return frozenset(items) if payload[0] == NONE else frozenset.__new__(job.made[payload[0]], items)

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        job.put_extras(payload[1], made)


class Tuple(Kind):
    """A tuple, also a named one: built after its items; the live one if it holds just those."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], tuple):
            return None
        numbers, have = payload[2:], list(tuple.__iter__(live))
        return [*plan.extras(payload[1], live), *zip(numbers, [*have, *[ABSENT] * (len(numbers) - len(have))], strict=False)]

    def early(self, payload: Any) -> Sequence[int]:
        return [payload[0], *payload[2:]]

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        items = sequence(job, payload[2:])
        if live is not ABSENT and identical(items, list(tuple.__iter__(live))):
            return live
        return tuple(items) if payload[0] == NONE else tuple.__new__(job.made[payload[0]], items)

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        job.put_extras(payload[1], made)


class Dict(InPlace):
    """A dict and what derives from it."""

    plain: type = dict
    items_at = 2

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], self.plain):
            return None
        rest = payload[self.items_at :]
        return [*plan.extras(payload[1], live), *self.heads(payload, live), *plan.entries(rest[::2], rest[1::2], live)]

    def heads(self, payload: Any, live: Any) -> Pairs:
        return ()

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return _new_dict(job, self.plain, payload[0]) if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        rest = payload[self.items_at :]
        fill_dict(job, rest[::2], rest[1::2], made)
        job.put_extras(payload[1], made)


def _new_dict(job: Job, plain: type, number: int) -> Any:
    fresh = _new(job, plain, number)
    if isinstance(fresh, collections.OrderedDict) and number != NONE:
        collections.OrderedDict.__init__(fresh)
    return fresh


class DefaultDict(Dict):
    """A dict that makes missing values."""

    plain = collections.defaultdict
    items_at = 3

    def heads(self, payload: Any, live: Any) -> Pairs:
        return ((payload[2], live.default_factory),)

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        made.default_factory = None if job.made[payload[2]] is ABSENT else job.made[payload[2]]
        super().fill(job, payload, made, live)


def fill_dict(job: Job, keys: Sequence[int], values: Sequence[int], made: Any, leave: frozenset[str] = frozenset()) -> None:
    """The recorded entries in their order into a dict; `leave` names keys that are not ours to touch."""
    base: Any = collections.OrderedDict if isinstance(made, collections.OrderedDict) else dict
    objects = job.made
    wanted = [(objects[key], objects[value]) for key, value in zip(keys, values, strict=True)]
    wanted = [(key, value) for key, value in wanted if value is not ABSENT and key is not ABSENT]
    have = [key for key in list(base.keys(made)) if not (leave and type(key) is str and key in leave)]
    if len(have) == len(wanted) and all(_same_key(key, wished) for key, (wished, _) in zip(have, wanted, strict=True)):
        for key, value in wanted:
            if base.get(made, key, ABSENT) is not value:
                base.__setitem__(made, key, value)
        return
    kept = [(key, value) for key, value in list(base.items(made)) if leave and type(key) is str and key in leave]
    base.clear(made)
    for key, value in (*kept, *wanted):
        base.__setitem__(made, key, value)


def _same_key(first: Any, second: Any) -> bool:
    return first is second or (type(first) is type(second) and type(first) in (str, int, bytes, bool) and first == second)


class Value(Kind):
    """A number or text of a derived class."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return plan.extras(payload[2], live) if plan.fits(live, payload[0], object) else None

    def early(self, payload: Any) -> Sequence[int]:
        return cast("Sequence[int]", payload[:2])

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        base = job.made[payload[1]]
        plain: Any = type(base)
        return live if live is not ABSENT and plain.__eq__(live, base) is True else plain.__new__(job.made[payload[0]], base)

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        job.put_extras(payload[2], made)


class Enum(Kind):
    """A member of an enum."""

    shared = True

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind, name = job.made[payload[0]], job.made[payload[1]]
        return kind(job.made[payload[2]]) if name is None else kind.__members__[name]


class Text(Kind):
    """A long text, or long bytes."""

    shared = True

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        data = bytes(job.bytes_of(payload[1]))
        return data if job.made[payload[0]] == "bytes" else data.decode("utf-8", "surrogatepass")


class Viewed(Container):
    """Memory that others may have views of. While they do it keeps its length: where another one was recorded, that was another object,
    or would be one now, and the live one stays as it is."""

    nothing = slice(0, 0)
    """To delete that much does nothing, and is refused while there are views."""

    def alike(self, plan: Plan, payload: Any, live: Any) -> bool:
        if plan.size(payload[-1]) == memoryview(live).nbytes:
            return True
        try:
            self.plain.__delitem__(live, self.nothing)  # type: ignore[attr-defined]
        except BufferError:
            return False
        return True

    def items(self, plan: Plan, numbers: Sequence[int], live: Any) -> Pairs:
        return ()


class ByteArray(Viewed):
    """Bytes that change."""

    plain = bytearray
    nothing = slice(0, 0, 2)

    def refill(self, job: Job, payload: Any, made: Any) -> None:
        data = job.bytes_of(payload[2])
        if len(made) == len(data):
            memoryview(made)[:] = data  # also while somebody has a view of it
        else:
            bytearray.__setitem__(made, slice(None), data)


class Array(Viewed):
    """An `array.array`."""

    plain = array.array

    def alike(self, plan: Plan, payload: Any, live: Any) -> bool:
        return bool(plan.plain(payload[2]) == live.typecode) and super().alike(plan, payload, live)

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind = array.array if payload[0] == NONE else job.named(payload[0])
        return array.array.__new__(kind, job.plain(payload[2])) if live is ABSENT else live

    def refill(self, job: Job, payload: Any, made: Any) -> None:
        data = array.array(made.typecode, bytes(job.bytes_of(payload[3])))
        if made or data:  # an empty one is refused as if it were to have another length
            array.array.__setitem__(made, slice(None), data)


class Range(Kind):
    """A range or a slice."""

    shared = True

    def __init__(self, plain: Any) -> None:
        self.plain = plain

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return list(zip(payload, (live.start, live.stop, live.step), strict=True)) if type(live) is self.plain else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        made = self.plain(*(job.made[number] for number in payload))
        return live if live is not ABSENT and live == made else made


KINDS: dict[str, Kind] = {
    "list": List(), "tuple": Tuple(), "dict": Dict(), "defaultdict": DefaultDict(), "set": Set(), "frozenset": FrozenSet(),
    "deque": Deque(),
    "bytearray": ByteArray(), "pyarray": Array(), "range": Range(range), "slice": Range(slice), "value": Value(), "enum": Enum(),
    "text": Text(),
}  # fmt: skip
