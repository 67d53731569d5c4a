"""Is what was replayed what was recorded? Records are matched by identity and compared bit for bit; states were compared by the workers.

Pure: reads events, never files. Differences of three kinds: a record with another value, one that the replay logged and the record
does not have, one that the record has in what was run again and the replay did not log. What a difference means is for `verdicts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rearview.replay.journals.drawn import POSITION
from rearview.replay.journals.logged import Event, Fact, Identity, Logged, Recorded, moment, place_of
from rearview.replay.proof.values import decoded, finite, relative_difference, same_value, shown
from rearview.store import frames
from rearview.store.manifests import Manifest

SHOWN = 20
"""Differences that are kept with their values."""

ManifestOf = Callable[[str], Manifest | None]
"""The manifest of a name, as facts have it; None if it cannot be read."""
UNNAMED = "more roots than were named"
INSIDE = "inside"
"""Why a unit is done, and the part of a manifest: a place inside an iteration."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was recorded."""

    kind: str
    """`value`, `extra` (only replayed), `missing` (only recorded) or `state`."""
    name: str
    """What was logged, or the root of the state."""
    path: str
    """The loop path in people's words; empty outside every loop."""
    recorded: str | None
    replayed: str | None
    process: str = "0"
    part: str = ""
    """Of a state: at which boundary."""

    def as_json(self) -> dict[str, Any]:
        """For `replay.json`."""
        return {key: getattr(self, key) for key in ("kind", "name", "path", "recorded", "replayed", "process", "part")}


@dataclass(slots=True)
class NameFacts:
    """How one recorded name came out."""

    compared: int = 0
    differing: int = 0
    unmatched: int = 0
    """Records that only one side has."""
    first_at: int = -1
    """When its first difference was met, counted in events."""
    volatile: bool = False
    """It was logged as not expected to repeat."""
    varies: bool = False
    """It has several values that are the same in both: that it fits says something."""
    counts: bool = False
    """A whole number or a truth differs."""
    scale: float = 0.0
    """The largest number recorded."""
    largest: float = 0.0
    """The largest relative difference; infinite where there is none to speak of."""
    largest_path: str = ""
    first_relative: float = 0.0
    last_relative: float = 0.0
    """Of the first and the last record that differs: whether it grows."""
    _one: bytes = b""

    @property
    def same(self) -> bool:
        return not self.differing and not self.unmatched


@dataclass(slots=True)
class RootFacts:
    """How one root of the state came out where it differed."""

    differing: int = 0
    first_at: int = -1
    kind: str = ""
    """Of the recorded node, where known."""
    reached: frozenset[str] = frozenset()
    """Of an array in a variable: the variables from which it can be come to."""


@dataclass(slots=True)
class Comparison:
    """What was compared, and what came out."""

    records: int = 0
    states: int = 0
    states_same: int = 0
    roots_compared: int = 0
    names: dict[str, NameFacts] = field(default_factory=dict)
    roots: dict[str, RootFacts] = field(default_factory=dict)
    """Those that differ somewhere."""
    lacking: dict[str, str] = field(default_factory=dict)
    """What the recorded states do not hold, and why."""
    differences: list[Difference] = field(default_factory=list)
    """The first of them, in program order, and the first of each name and root."""
    first: Difference | None = None
    met: list[tuple[int, str, str]] = field(default_factory=list)
    """(when, "name" or "root", which) of the first difference of each name and root."""
    states_at: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    """When each state was compared, and which roots differed."""
    loaded_elsewhere: list[tuple[str, str]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    """Probes that raised: file, line, traceback."""
    changed_along: set[str] = field(default_factory=set)
    """What added statements made before the main loop, and changed as the program went on."""
    inexact: list[str] = field(default_factory=list)
    """What a state could not bring back exactly, in sentences."""
    virtual: dict[str, int] = field(default_factory=dict)
    """Virtual names with how many values the replay has of them."""
    unordered: dict[str, frozenset[str]] = field(default_factory=dict)
    """Variables with a set that comes in another order in each process, with the names on the way to it."""
    virtual_flagged: set[str] = field(default_factory=set)
    """Those that were logged with `volatile=True`."""

    @property
    def identical(self) -> bool:
        """Whether nothing differs at all."""
        return self.first is None

    @property
    def differing_names(self) -> list[str]:
        return [name for name, facts in self.names.items() if not facts.same]

    @property
    def differing_roots(self) -> list[str]:
        return list(self.roots)


@dataclass(slots=True)
class Stretch:
    """What one unit logged."""

    events: Iterable[Event]
    """The main process first; records of code that ran only to reach the restore point are not among them."""
    prefix: bool = False
    """What is logged before the first main loop counts."""
    to_end: bool = False
    began: Manifest | None = None
    """The state it started from; None: from the beginning."""
    stopped: Manifest | None = None
    """The state inside an iteration that it was to end with; None: with an iteration, or the program."""


def compare(
    recorded: Recorded,
    stretches: Iterable[Stretch],
    virtual: Collection[str] = (),
    mains: Mapping[int, str] | None = None,
    manifest_of: ManifestOf = lambda _: None,
) -> Comparison:
    """Compare the units of a replay, in program order, with the record.

    `virtual` are the names that the probes log. `mains` says where each main block of the run is (`logged.place_of` its path).
    """
    work = _Comparing(recorded, frozenset(virtual), mains or {}, manifest_of)
    for stretch in stretches:
        work.stretch(stretch)
    return work.found


class _Comparing:
    def __init__(self, recorded: Recorded, virtual: frozenset[str], mains: Mapping[int, str], manifest_of: ManifestOf) -> None:
        self.recorded = recorded
        self.virtual = virtual
        self.mains = mains
        self.manifest_of = manifest_of
        self.found = Comparison()
        self.seen: set[Identity] = set()
        self.now = 0
        self._inside: dict[tuple[str, str, int], list[Logged]] | None = None
        self._outside: dict[str, list[Logged]] = {}

    # Events

    def stretch(self, stretch: Stretch) -> None:
        """One unit, from its first event to its last."""
        skipped = {place_of(stretch.began.path)} if stretch.began and stretch.began.part == "block" else set()
        held: list[Fact] = []
        for event in stretch.events:
            self.now += 1
            if type(event) is Logged:
                self._record(event)
            elif type(event) is Fact:
                self._fact(event, stretch, skipped)
                held += [event] if event.kind == "unit_done" else []
        for done in held:
            self._ended(stretch, done, skipped)

    def _record(self, record: Logged) -> None:
        found = self.found
        if record.flags & frames.IS_ARG:
            return
        identity = record.identity
        if record.name in self.virtual and identity not in self.recorded.records:
            found.virtual[record.name] = found.virtual.get(record.name, 0) + 1
            if record.flags & frames.VOLATILE:
                found.virtual_flagged.add(record.name)
            return
        if identity in self.seen:
            return
        self.seen.add(identity)
        theirs = self.recorded.records.get(identity)
        facts = self._name(record.name, record.flags | (theirs.flags if theirs else 0))
        if theirs is None:
            self._unmatched(facts, record, "extra")
            return
        found.records += 1
        facts.compared += 1
        if same_value(theirs.value, record.value):
            facts.varies |= bool(facts._one) and facts._one != record.value
            facts._one = facts._one or record.value
            if record.value[:1] == b"f":
                facts.scale = max(facts.scale, finite(decoded(record.value)))
        else:
            self._differs(facts, theirs, record)

    def _name(self, name: str, flags: int) -> NameFacts:
        facts = self.found.names.get(name)
        if facts is None:
            facts = self.found.names[name] = NameFacts()
        facts.volatile |= bool(flags & frames.VOLATILE)
        return facts

    def _differs(self, facts: NameFacts, theirs: Logged, ours: Logged) -> None:
        before, after = decoded(theirs.value), decoded(ours.value)
        facts.scale = max(facts.scale, finite(before))
        relative = relative_difference(before, after, facts.scale)
        facts.counts |= isinstance(before, int) or isinstance(after, int)
        if not facts.differing:
            facts.first_relative = relative
        facts.last_relative = relative
        if relative >= facts.largest:
            facts.largest, facts.largest_path = relative, theirs.path
        facts.differing += 1
        self._note(facts, ours.name, Difference("value", ours.name, theirs.path, shown(before), shown(after), ours.process))

    def _unmatched(self, facts: NameFacts, record: Logged, kind: str) -> None:
        facts.unmatched += 1
        facts.largest = math.inf
        value = shown(decoded(record.value))
        recorded, replayed = (value, None) if kind == "missing" else (None, value)
        self._note(facts, record.name, Difference(kind, record.name, record.path, recorded, replayed, record.process))

    def _note(self, facts: NameFacts | RootFacts, which: str, difference: Difference) -> None:
        if self.found.first is None:
            self.found.first = difference
        if len(self.found.differences) < SHOWN or facts.first_at < 0:
            self.found.differences.append(difference)
        if facts.first_at < 0:
            facts.first_at = self.now
            self.found.met.append((self.now, "root" if isinstance(facts, RootFacts) else "name", which))

    def _fact(self, event: Fact, stretch: Stretch, skipped: set[str]) -> None:
        facts = event.facts
        if event.kind == "compared":
            self._state(event)
        elif event.kind == "put_back":
            manifest = self.manifest_of(str(facts.get("manifest")))
            if manifest is not None and manifest.part == "block":
                skipped.add(place_of(manifest.path))
        elif event.kind == "iteration":
            self._iteration(event, stretch, skipped)
        elif event.kind == "loaded_elsewhere":
            self.found.loaded_elsewhere.append((str(facts.get("path")), str(facts.get("why"))))
        elif event.kind == "probe_failed":
            self.found.failed.append(dict(facts))
        elif event.kind == "changed_along":
            self.found.changed_along.add(str(facts.get("name")))
        elif event.kind == "unordered":
            root = str(facts.get("root"))
            self.found.unordered[root] = self.found.unordered.get(root, frozenset()) | {str(one) for one in facts.get("way") or ()}
        elif event.kind == "inexact":
            self.found.inexact.append(str(facts.get("why")))

    # States

    def _state(self, event: Fact) -> None:
        facts, found = event.facts, self.found
        found.states += 1
        found.roots_compared += int(facts.get("roots") or 0)
        differ = [list(one) for one in facts.get("differ") or ()]
        if int(facts.get("differing") or 0) > len(differ):
            differ.append([UNNAMED, None, None])
        found.states_same += not differ
        found.states_at.append((self.now, frozenset(str(one[0]) for one in differ)))
        manifest = self.manifest_of(str(facts.get("manifest"))) if differ or facts.get("lacks") else None
        for where, kind, why in manifest.missing if manifest else ():
            found.lacking.setdefault(f"the position of {where}" if kind == POSITION else str(where), str(why))
        path, part = _words(facts.get("path") or ()), str(facts.get("part") or "")
        for root, before, after, *more in differ:
            known = found.roots.setdefault(str(root), RootFacts())
            known.differing += 1
            known.reached |= frozenset(map(str, more[1] if len(more) > 1 else ()))
            described = manifest.roots.get(root) if manifest else None
            known.kind = str(more[0]) if more else str(described[2]) if described and len(described) > 2 else known.kind
            self._note(known, str(root), Difference("state", str(root), path, before, after, event.process, part))

    # What should have been logged again

    def _index(self) -> dict[tuple[str, str, int], list[Logged]]:
        """(process, main block, iteration) to the records in it; the rest, by process, goes to `_outside`."""
        if self._inside is None:
            self._inside = {}
            places = set(self.mains.values())
            for record in self.recorded.records.values():
                home = next(((block.place, at) for block, at in record.block.around(record.iteration) if block.place in places), None)
                if home is None:
                    self._outside.setdefault(record.process, []).append(record)
                else:
                    self._inside.setdefault((record.process, *home), []).append(record)
        return self._inside

    def _iteration(self, event: Fact, stretch: Stretch, skipped: set[str]) -> None:
        """A main iteration was finished: everything that the record has in it must be there, but what was put back."""
        block, iteration = event.facts.get("block"), event.facts.get("iteration")
        place = self.mains.get(block) if isinstance(block, int) else None
        if place is None or not isinstance(iteration, int):
            return
        for record in self._index().get((event.process, place, iteration), ()):
            if moment(record) > _since(stretch):
                self._expect(record, skipped)

    def _part(self, stretch: Stretch, process: str, skipped: set[str]) -> None:
        """An iteration was run up to a place inside it: everything that the record has in it until then must be there."""
        stopped = stretch.stopped
        if stopped is None:
            return
        path = stopped.path[: int(stopped.stats.get("outside", 0)) + 1]
        for record in self._index().get((process, place_of(path), int(path[-1][2])), ()):
            if _since(stretch) < moment(record) <= (stopped.attempt, stopped.taken_at):
                self._expect(record, skipped)

    def _expect(self, record: Logged, skipped: set[str]) -> None:
        if record.identity in self.seen or record.name in self.virtual:
            return
        if any(block.place in skipped for block, _ in record.block.around(record.iteration)):
            return
        self.seen.add(record.identity)
        self._unmatched(self._name(record.name, record.flags), record, "missing")

    def _ended(self, stretch: Stretch, done: Fact, skipped: set[str]) -> None:
        """The unit came to its end: what the record has before the first main loop, or behind the last, must be there if it counts."""
        self._index()
        if done.facts.get("why") == INSIDE:
            self._part(stretch, done.process, skipped)
        ends = done.facts.get("why") == "end"
        outside = self._outside.get(done.process, [])
        inside = [record.position for (process, _, _), theirs in self._index().items() if process == done.process for record in theirs]
        everything = stretch.prefix and ends
        if not inside and not everything:
            return  # nothing says which of them were before the loop and which behind it
        first, last = min(inside, default=0), max(inside, default=0)
        for record in outside:
            if everything or (stretch.prefix and record.position < first) or (ends and stretch.to_end and record.position > last):
                self._expect(record, skipped)


def _since(stretch: Stretch) -> tuple[int, int]:
    """What came before that in its iteration ran unrecorded."""
    return (stretch.began.attempt, stretch.began.taken_at) if stretch.began else (0, 0)


def _words(path: Iterable[Any]) -> str:
    return "/".join(f"{one[0]}#{one[2]}" if len(one) < 4 or one[3] is None else f"{one[0]}={one[3]}" for one in path)
