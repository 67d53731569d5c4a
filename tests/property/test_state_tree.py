"""Any nesting, sharing and cycles: a state taken, kept as bytes and put back is the same graph, into whatever it is put."""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import enum
import pathlib
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rearview.errors import Damaged, NewerFormat
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.state.tree import decode, encode
from rearview.testing.states import Kept, difference, digests, roots


class Plain:
    """An object with a `__dict__`."""


class Slotted:
    __slots__ = ("__weakref__", "left", "right")


class Both(Slotted):
    """Slots and a `__dict__`."""


class Listed(list):  # type: ignore[type-arg]
    pass


class Named(dict):  # type: ignore[type-arg]
    pass


class Stateful:
    """Gives out its state and takes it back."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def __getstate__(self) -> Any:
        return ("v1", self.items)

    def __setstate__(self, state: Any) -> None:
        assert state[0] == "v1"
        self.items = state[1]


@dataclasses.dataclass(frozen=True)
class Frozen:
    first: Any
    second: Any


Pair = collections.namedtuple("Pair", "one two")


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**200), 2**200), st.floats(allow_nan=True), st.text(), st.binary(),
    st.complex_numbers(allow_nan=True), st.characters(categories=["Cs"]),
    st.sampled_from([Colour.RED, Colour.BLUE, range(3), slice(1, None, 2)]),
    st.sampled_from([Plain, len, str.lower, random.random, Ellipsis, NotImplemented, pathlib.PurePosixPath("a/b"), collections]),
)  # fmt: skip
HASHABLE = st.one_of(
    st.integers(), st.text(max_size=5), st.binary(max_size=4), st.booleans(), st.none(), st.tuples(st.integers(), st.text(max_size=3))
)

MUTABLE = (
    "list", "dict", "odict", "ddict", "set", "deque", "plain", "slotted", "both", "listed", "named", "stateful", "counter",
    "bytearray", "array", "ints",
)  # fmt: skip
IMMUTABLE = ("tuple", "pair", "frozen")

SPECS = st.lists(
    st.tuples(
        st.sampled_from(MUTABLE + IMMUTABLE),
        st.lists(st.one_of(st.integers(0, 30), ATOMS.map(lambda atom: ("atom", atom))), max_size=6),
        st.lists(HASHABLE, max_size=6),
    ),
    min_size=1, max_size=14,
)  # fmt: skip

_SHELLS: dict[str, Any] = {
    "list": list, "dict": dict, "odict": collections.OrderedDict, "ddict": lambda: collections.defaultdict(list), "set": set,
    "deque": lambda: collections.deque(maxlen=7),
    "plain": Plain, "slotted": Slotted, "both": Both, "listed": Listed, "named": Named, "stateful": Stateful,
    "counter": collections.Counter,
    "bytearray": bytearray, "array": lambda: array.array("d"), "ints": list,
}  # fmt: skip


def graph(specs: Any) -> list[Any]:
    """The objects of a specification; those that change may lead anywhere, the others only to earlier ones."""
    made: list[Any] = []

    def child(spec: Any, limit: int) -> Any:
        if isinstance(spec, tuple):
            return spec[1]
        return made[spec % limit] if limit else None

    for number, (kind, children, _) in enumerate(specs):
        if kind in _SHELLS:
            made.append(_SHELLS[kind]())
        else:
            parts = [child(spec, number) for spec in children]
            padded = [*parts, None, None][:2]
            made.append(tuple(parts) if kind == "tuple" else Pair(*padded) if kind == "pair" else Frozen(*padded))
    for number, (kind, children, keys) in enumerate(specs):
        if kind in _SHELLS:
            fill(kind, made[number], [child(spec, len(made)) for spec in children], keys)
    return made


def fill(kind: str, value: Any, parts: list[Any], keys: list[Any]) -> None:
    if kind in ("list", "listed", "deque"):
        value.extend(parts)
    elif kind in ("dict", "odict", "ddict", "named", "counter"):
        dict.update(value, zip(keys, parts, strict=False))
        dict.update(value, {part: keys for part in parts if isinstance(part, (Plain, Slotted))})
    elif kind == "set":
        value.update(keys)
    elif kind == "stateful":
        value.items.extend(parts)
    elif kind == "bytearray":
        value.extend(repr(keys).encode())
    elif kind == "array":
        value.extend(range(len(keys)))
    elif kind == "ints":
        value.extend(range(len(keys) * 40))
    if kind in ("slotted", "both"):
        for name, part in zip(("left", "right"), parts, strict=False):
            setattr(value, name, part)
    if kind in ("plain", "both", "listed", "named"):
        vars(value).update((f"a{k}", part) for k, part in enumerate(parts))


def mutate(objects: list[Any], seed: int) -> None:
    """Change what can be changed, here and there."""
    draw = random.Random(seed)
    for value in objects:
        choice = draw.randrange(4)
        if isinstance(value, (list, dict, set, collections.deque, bytearray)) and choice == 0:
            value.clear()
        elif isinstance(value, (list, collections.deque)) and choice == 1:
            value.append(draw.choice(objects))
        elif isinstance(value, dict) and choice == 1:
            value["new"] = draw.choice(objects)
        elif isinstance(value, list) and choice == 2:
            value.reverse()
        if hasattr(value, "__dict__") and not isinstance(value, (Frozen, Stateful)) and choice >= 2:
            vars(value)["new"] = draw.choice(objects)


HOUSE = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@HOUSE
@given(SPECS)
def test_into_nothing(specs: Any) -> None:
    made = graph(specs)
    captured = capture(roots(all=made, last=made[-1]))
    assert not captured.missing
    kept = Kept(captured)
    assert encode(kept.tree) == encode(captured.tree)
    back = plan(kept.tree, {}, kept).apply()
    assert difference([made, made[-1]], [back["given", "all"], back["given", "last"]]) is None
    assert digests(capture(back)) == kept.digests


@HOUSE
@given(SPECS, st.integers(0, 2**32))
def test_into_the_same_objects_changed_meanwhile(specs: Any, seed: int) -> None:
    made = graph(specs)
    before = copy.copy(made)
    kept = Kept(capture(roots(all=made)))
    want = plan(kept.tree, {}, kept).apply()["given", "all"]
    mutate(made, seed)
    back = plan(kept.tree, roots(all=made), kept).apply()["given", "all"]
    assert back is made
    assert difference(want, back) is None
    for was, now in zip(before, made, strict=True):
        if not isinstance(was, (tuple, Frozen)) and before.count(was) == 1:
            assert type(was) is type(now)
    assert digests(capture(roots(all=back))) == kept.digests


@HOUSE
@given(SPECS, st.integers(0, 2**32))
def test_into_another_copy_changed_meanwhile(specs: Any, seed: int) -> None:
    made = graph(specs)
    other = graph(specs)
    mutate(other, seed)
    kept = Kept(capture(roots(all=made)))
    back = plan(kept.tree, roots(all=other), kept).apply()["given", "all"]
    assert difference(made, back) is None
    assert back is other


@HOUSE
@given(SPECS, SPECS)
def test_into_something_quite_different(specs: Any, others: Any) -> None:
    made, other = graph(specs), graph(others)
    kept = Kept(capture(roots(all=made)))
    back = plan(kept.tree, roots(all=other), kept).apply()["given", "all"]
    assert difference(made, back) is None
    assert digests(capture(roots(all=back))) == kept.digests


@HOUSE
@given(SPECS, SPECS)
def test_digests_tell_states_apart(specs: Any, others: Any) -> None:
    one, other = graph(specs), graph(others)
    same = difference(one, other) is None
    equal = digests(capture(roots(all=one))) == digests(capture(roots(all=other)))
    assert equal or not same
    assert same or not equal or _only_sets_of_objects(one)


def _only_sets_of_objects(_value: Any) -> bool:
    return False


@HOUSE
@given(SPECS, st.data())
def test_damage_is_noticed_or_harmless(specs: Any, data: Any) -> None:
    whole = encode(capture(roots(all=graph(specs))).tree)
    at = data.draw(st.integers(0, len(whole) - 1))
    bad = bytearray(whole)
    if data.draw(st.booleans()):
        bad = bad[:at]
    else:
        bad[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decode(bytes(bad))
    except (Damaged, NewerFormat):
        pass
