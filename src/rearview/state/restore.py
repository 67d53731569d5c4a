"""A recorded state back into the running program, in place.

`plan` walks the recorded tree beside the live objects, pairs them, and refuses with every reason before anything is touched.
`Plan.apply` then fills memory, objects and, last of all, random generators. One recorded object goes into one live object and
the other way round: what is shared in the program but not in the record, or the reverse, is rebuilt as recorded.
"""

from __future__ import annotations

import functools
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any, Protocol

from rearview.errors import Damaged, RestoreRefused
from rearview.state import refilling
from rearview.state.places import Places
from rearview.state.put import arrays, containers, functions, hooks, objects, packing, tensors
from rearview.state.put.kind import ABSENT, NOT_YET, Kind, Pairs
from rearview.state.put.memory import Memory
from rearview.state.put.names import Names
from rearview.state.take.tensors import quiet
from rearview.state.take.walk import Adapter, Missing
from rearview.state.tree import NONE, RootKey, Tree, is_atom

KINDS: dict[str, Kind] = {**containers.KINDS, **packing.KINDS, **objects.KINDS, **functions.KINDS, **arrays.KINDS, **tensors.KINDS}

_SPECIAL = {"ellipsis": Ellipsis, "notimplemented": NotImplemented, "nothing": ABSENT}


class Reader(Protocol):
    """Where the bytes of buffers come from."""

    def into(self, index: int, dest: memoryview) -> None:
        """Verified bytes of a buffer into memory of its size."""

    def size(self, index: int) -> int:
        """How many bytes a buffer has; raises if it is not there."""


def plan(
    tree: Tree,
    live: Mapping[RootKey, object],
    read: Reader,
    *,
    adapters: Sequence[Adapter] = (),
    codes: Iterable[CodeType] = (),
    only: Iterable[RootKey] | None = None,
    also: Callable[[Plan], Iterable[str]] | None = None,
) -> Plan:
    """Everything that `apply` will do, or `RestoreRefused` with every reason; nothing is touched.

    `live` has the objects as they are now (a key that is missing: nothing is there), `codes` the code of running functions, in
    which functions that have to be made again are looked for, `only` the roots to restore, `also` gives more reasons to refuse.
    """
    keys = list(tree.roots) if only is None else [key for key in tree.roots if key in set(only)]
    made = Plan(tree, read, adapters, codes, keys)
    made.met = None if also is None else []
    with quiet():
        made.pair(live)
        made.check(also)
    return made


class Plan:
    """What goes where."""

    def __init__(self, tree: Tree, read: Reader, adapters: Sequence[Adapter], codes: Iterable[CodeType], keys: list[RootKey]) -> None:
        self.tree = tree
        self.nodes = tree.nodes
        self.read = read
        self.adapters = {adapter.name: adapter for adapter in adapters}
        self.keys = keys
        self.names = Names(tree, codes)
        self.memory = Memory()
        self.pairs: dict[int, Any] = {}
        """Node to live object."""
        self.owner: dict[int, int] = {}
        """id of a live object to its node."""
        self.keep: list[object] = []
        self.notes: list[Missing] = []
        """What was live when it was recorded and is not there now."""
        self.met: list[tuple[int, Any]] | None = None
        """Nodes with what is live at their places, fitting or not; None: nobody asks."""
        self._parents: dict[int, int] = {}
        self._places: Places | None = None
        self._queue: deque[tuple[int, Any]] = deque()
        self._deferred: list[tuple[Sequence[int], Sequence[int], Any]] = []
        self._reached: dict[int, None] = {}
        self.asked: dict[int, tuple[Any, ...]] = {}
        """What live objects said about how they are copied, by id."""

    # Pairing

    def pair(self, live: Mapping[RootKey, object]) -> None:
        """Find the live object for each node."""
        for key in self.keys:
            root = self.tree.roots[key]
            self._parents.setdefault(root, NONE)
            self._queue.append((root, live.get(key, ABSENT)))
        self._walk()
        while self._take_up_deferred():
            self._walk()
        self.memory.settle(self, iter(self._reached))

    def _walk(self) -> None:
        queue = self._queue
        while queue:
            number, live = queue.popleft()
            kind, payload = self.nodes[number]
            if self.met is not None and live is not ABSENT:
                self.met.append((number, live))
            if number in self.pairs or is_atom(kind):
                continue
            handler = KINDS[kind]
            children: Pairs | None = None
            if live is not ABSENT and (handler.shared or id(live) not in self.owner):
                children = handler.match(self, payload, live)
            if children is not None:
                self.pairs[number] = live
                self.keep.append(live)
                if not handler.shared:
                    self.owner[id(live)] = number
            elif number in self._reached:
                continue
            self._reached[number] = None
            for child in payload:
                self._parents.setdefault(child, number)
            if children is not None:
                queue.extend(children)
            queue.extend((child, ABSENT) for child in payload if child not in self._reached)

    def _take_up_deferred(self) -> bool:
        """Entries whose keys are objects: they are found once the key is."""
        progress = False
        waiting, self._deferred = self._deferred, []
        for keys, values, live in waiting:
            rest: list[tuple[int, int]] = []
            for key, value in zip(keys, values, strict=True):
                if key not in self.pairs:
                    rest.append((key, value))
                elif self.pairs[key] in live:
                    self._queue.append((value, live[self.pairs[key]]))
                    progress = True
            if rest:
                self._deferred.append(([key for key, _ in rest], [value for _, value in rest], live))
        if not progress and self._deferred:
            progress = self._by_position()
        return progress

    def _by_position(self) -> bool:
        """Keys that nothing else leads to: taken in their order."""
        keys, values, live = self._deferred.pop(0)
        free = [(key, value) for key, value in list(live.items()) if id(key) not in self.owner and type(key).__hash__ is not None]
        free = [(key, value) for key, value in free if not isinstance(key, (str, int, float, bytes, tuple, frozenset))]
        for key, value, (live_key, live_value) in zip(keys, values, free, strict=False):
            self._queue.append((key, live_key))
            self._queue.append((value, live_value))
        return True

    def part(self, number: int) -> None:
        """The live object cannot take the state after all: it is made again."""
        del self.owner[id(self.pairs.pop(number))]

    # What kinds ask while they match

    def fits(self, live: Any, number: int, plain: type) -> bool:
        """Whether a live object has just the recorded class (NONE: the plain type)."""
        if number == NONE:
            return type(live) is plain
        fits = type(live) is self.names.of(number, type(live))
        if fits and number not in self.pairs:  # it may hold something itself
            self._queue.append((number, type(live)))
        return fits

    def got_another_class(self, payload: Any) -> bool:
        """Whether loops changed the class of an object: then the live one is the same object, of the class it had before."""
        return payload[1] in self._changed

    @functools.cached_property
    def _changed(self) -> frozenset[int]:
        return hooks.namespaces(self.tree)

    def plain(self, number: int) -> Any:
        """The value of an atom, or of a tuple of atoms, or of a name; ABSENT for anything else."""
        kind, payload = self.nodes[number]
        if is_atom(kind):
            return _SPECIAL.get(kind, payload)
        if kind == "tuple" and payload[0] == NONE:
            items = [self.plain(item) for item in payload[2:]]
            return ABSENT if any(item is ABSENT for item in items) else tuple(items)
        if kind == "ref":
            return self.names.of(number)
        return self.names.small(kind, payload, self.plain)

    def size(self, number: int) -> int:
        """How many bytes a node of memory has."""
        kind, payload = self.nodes[number]
        return len(payload) if kind == "bytes" else self.tree.buffers[payload]

    def extras(self, number: int, live: Any) -> Pairs:
        """The attributes of an object of a derived class, with what is live."""
        return () if number == NONE else objects.match_attributes(self, self.nodes[number][1], live)

    def entries(self, keys: Sequence[int], values: Sequence[int], live: Any) -> Pairs:
        """The values of a dict with what is live under the same keys; those under objects come later."""
        found: list[tuple[int, Any]] = []
        later_keys: list[int] = []
        later_values: list[int] = []
        for key, value in zip(keys, values, strict=True):
            plain = self.plain(key)
            if plain is ABSENT:
                later_keys.append(key)
                later_values.append(value)
            else:
                found.append((value, dict.get(live, plain, ABSENT)))
        if later_keys:
            self._deferred.append((later_keys, later_values, live))
        return found

    def elements(self, numbers: Sequence[int], have: list[Any]) -> Pairs:
        """The elements of a set: objects are taken in the order they come, plain values need no pairing."""
        objects_of = [item for item in have if not isinstance(item, (str, int, float, bytes, tuple, frozenset))]
        return list(zip([number for number in numbers if not is_atom(self.nodes[number][0])], objects_of, strict=False))

    # Checking

    def check(self, also: Callable[[Plan], Iterable[str]] | None = None) -> None:
        """Refuse if anything that is needed is not there, or for what somebody else has against it."""
        reasons: dict[str, None] = {}
        for number in self._reached:
            kind, payload = self.nodes[number]
            why = KINDS[kind].check(self, number, payload, self.pairs.get(number, ABSENT))
            if why is not None:  # once for each thing
                reasons[f"{self.where(number)}: {why}"] = None
        for why in self.memory.check(self):
            reasons[why] = None
        for why in also(self) if also is not None else ():
            reasons[why] = None
        if reasons:
            raise RestoreRefused(list(reasons))

    def where(self, number: int) -> str:
        """How a node is called in messages."""
        if self._places is None:
            parents = [self._parents.get(at, NONE) for at in range(len(self.nodes))]
            self._places = Places(self.nodes, parents, self.tree.roots)
        return self._places.of(number)

    def note(self, number: int, name: str, why: str) -> None:
        """Something that the program had when it was recorded and that cannot be put back."""
        self.notes.append(Missing(self.where(number), name, why))

    def apply(self) -> dict[RootKey, object]:
        """Put the state back: the object to bind for every root."""
        return self.carry_out()[0]

    def carry_out(self) -> tuple[dict[RootKey, object], Job]:
        """The same, and what can put it back once more."""
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # experimental dtypes and layouts are not news to a program that had them
            job = Job(self)
            self.memory.fill(job)
            for key in self.keys:
                job.make(self.tree.roots[key])
            job.finish()
        made = {key: job.made[self.tree.roots[key]] for key in self.keys}
        return {key: value for key, value in made.items() if value is not ABSENT}, job


class Job:
    """One application of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tree = plan.tree
        self.memory = plan.memory
        self.made: list[Any] = [_SPECIAL.get(kind, payload) if is_atom(kind) else NOT_YET for kind, payload in plan.nodes]
        self.lives: dict[int, Any] = dict(plan.pairs)
        self._begun: set[int] = set()
        self._postponed: list[int] = []
        self._last: list[Callable[[], object]] = []

    def make(self, root: int) -> None:
        """Make a node and all it needs, without recursion: what it cannot begin without, then itself, the rest, its content."""
        nodes, made, begun = self.tree.nodes, self.made, self._begun
        stack: list[tuple[int, int]] = [(root, 0)]
        while stack:
            number, phase = stack.pop()
            kind, payload = nodes[number]
            if phase == 0:
                if made[number] is not NOT_YET or number in begun:
                    continue
                begun.add(number)
                if kind == "ref":
                    made[number] = self.named(number)
                    if len(payload) > 2:  # a class that holds something
                        stack.append((number, 2))
                        stack.extend((child, 0) for child in reversed(payload) if made[child] is NOT_YET)
                    continue
                stack.append((number, 1))
                stack.extend((child, 0) for child in reversed(KINDS[kind].early(payload)) if made[child] is NOT_YET)
            elif phase == 1:
                made[number] = KINDS[kind].build(self, payload, self.lives.get(number, ABSENT))
                stack.append((number, 2))
                stack.extend((child, 0) for child in reversed(payload) if made[child] is NOT_YET)
            elif any(made[child] is NOT_YET for child in payload):
                self._postponed.append(number)  # it is inside something that is built after its children
            else:
                KINDS[kind].fill(self, payload, made[number], self.lives.get(number, ABSENT))
        postponed, self._postponed = self._postponed, []
        for number in postponed:
            kind, payload = nodes[number]
            KINDS[kind].fill(self, payload, made[number], self.lives.get(number, ABSENT))

    def finish(self) -> None:
        """Adapters, generators, and whatever else has to wait for everything."""
        with refilling.by(self.again):
            for adapter in self.plan.adapters.values():
                adapter.settle()
        for step in self._last:
            step()

    def again(self) -> None:
        """Put the same values into the same objects once more."""
        with quiet():
            self.memory.fill(self)
            for number in self._begun:
                kind, payload = self.tree.nodes[number]
                if self.made[number] is not NOT_YET and not any(self.made[child] is NOT_YET for child in payload):
                    KINDS[kind].fill(self, payload, self.made[number], self.lives.get(number, ABSENT))
            last, self._last = self._last, []
            for step in last:
                step()
            self._last = last

    # What kinds ask while they build

    def named(self, number: int) -> Any:
        """What a `ref` node names."""
        return self.plan.names.of(number)

    def plain(self, number: int) -> Any:
        """A small value that may be needed before its turn."""
        return self.plan.plain(number)

    def put_extras(self, number: int, made: Any) -> None:
        """The attributes of an object of a derived class."""
        if number != NONE:
            objects.fill_attributes(self, self.tree.nodes[number][1], made)

    def bytes_of(self, number: int) -> bytes | bytearray:
        """The bytes of a node: in the tree, or in a buffer."""
        kind, payload = self.tree.nodes[number]
        if kind == "bytes":
            return bytes(payload)
        size = self.plan.read.size(payload)
        if size != self.tree.buffers[payload]:
            raise Damaged(f"a stored buffer has {size} bytes instead of {self.tree.buffers[payload]}; run `rearview check`")
        data = bytearray(size)
        self.plan.read.into(payload, memoryview(data))
        return data

    def read_into(self, number: int, dest: memoryview) -> None:
        """The bytes of a node of memory."""
        kind, payload = self.tree.nodes[number]
        if kind == "buffer":
            self.plan.read.into(payload, dest)
        else:
            dest[:] = payload

    def read_all(self, wanted: Sequence[tuple[int, memoryview]]) -> None:
        """Several at once, where the reader offers it: many small reads become few large ones."""
        many = getattr(self.plan.read, "many", None)
        buffers = [(self.tree.nodes[number][1], dest) for number, dest in wanted if self.tree.nodes[number][0] == "buffer"] if many else []
        if many is not None and buffers:
            many(buffers)
        for number, dest in wanted:
            if many is None or self.tree.nodes[number][0] != "buffer":
                self.read_into(number, dest)

    def at_last(self, step: Callable[[], object]) -> None:
        """Do something after everything else."""
        self._last.append(step)
