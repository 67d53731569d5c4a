"""From the scratch stores of finished units to a published replay: the records of the virtual names, their objects, then `replay.json`.

Each record gets a position: behind the recorded record that came before it in the program. So a table can show it where it would have
been, had it been logged from the start. Also the readers that comparing needs. Knows journals and stores; judges nothing.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from rearview.errors import Damaged, NotFound
from rearview.model import RunId
from rearview.replay.journals.logged import Block, Fact, Identity, Journals, Left, Logged, Recorded
from rearview.replay.proof.compare import ManifestOf, Stretch
from rearview.replay.running.units import Unit
from rearview.store import frames, manifests, objects, replays
from rearview.store.journal import JournalWriter
from rearview.store.layout import Store
from rearview.store.manifests import Manifest, ManifestName
from rearview.store.replays import Replay

_OBJECT = re.compile(rb"xxh3-[0-9a-f]{32}")
_NUMBER_BYTES = 9
_AT_ONCE = 512
"""Frames that go with one write call."""


# Reading


def scratch_store(unit: Unit) -> Store:
    """Where the worker of a unit wrote."""
    return Store(Path(unit.scratch) / "store")


def manifest_reader(store: Store, run: RunId) -> ManifestOf:
    """Manifests by the names that facts have; each is read once."""

    @lru_cache(maxsize=256)
    def read(name: str) -> Manifest | None:
        known = ManifestName.parse(run, name + manifests.SUFFIX)
        try:
            return manifests.read(store, known) if known is not None else None
        except (Damaged, NotFound):
            return None

    return read


def stretches(units: Iterable[Unit], manifest_of: ManifestOf) -> Iterator[Stretch]:
    """What the workers of units logged, in the order of the units, for `compare`."""
    for unit in units:
        began = manifest_of(unit.start) if unit.start else None
        stopped = manifest_of(unit.stop) if unit.stop else None
        yield Stretch(Journals(scratch_store(unit).run(unit.run), scratch=True).events(), unit.prefix, unit.to_end, began, stopped)


# Choosing


@dataclass(slots=True)
class Chosen:
    """What goes into a published replay, process by process, in program order."""

    records: dict[str, list[Logged]] = field(default_factory=dict)
    left: dict[str, dict[str, Left]] = field(default_factory=dict)
    """Process and place to how the block ended."""
    differing: set[str] = field(default_factory=set)
    """Names of which two units have different values for one identity."""


def choose(units: Sequence[Unit], names: Collection[str], recorded: Recorded, manifest_of: ManifestOf) -> Chosen:
    """The records of the virtual names, each identity once, with their positions."""
    chosen = Chosen()
    seen: dict[Identity, bytes] = {}
    before: dict[str, int] = {}
    for unit in units:
        began = manifest_of(unit.start) if unit.start else None
        journals = Journals(scratch_store(unit).run(unit.run), scratch=True)
        for process in journals.processes:
            mine = began if began is not None and began.process == process else None  # its clock is that of its own process
            since = recorded.last_until(process, mine.attempt, mine.taken_at) if mine else 0
            work = _Choosing(chosen, frozenset(names), recorded, manifest_of, seen)
            before[process] = work.unit(process, journals, max(since, before.get(process, 0) if began else 0))
    return chosen


class _Choosing:
    """One process of one unit."""

    def __init__(
        self, chosen: Chosen, names: frozenset[str], recorded: Recorded, manifest_of: ManifestOf, seen: dict[Identity, bytes]
    ) -> None:
        self.chosen, self.names, self.recorded, self.manifest_of, self.seen = chosen, names, recorded, manifest_of, seen

    def unit(self, process: str, journals: Journals, position: int) -> int:
        """Take what counts; returns the position that was reached."""
        records = self.chosen.records.setdefault(process, [])
        left = self.chosen.left.setdefault(process, {})
        over = False
        for event in journals.events(process):
            if type(event) is Logged:
                theirs = self.recorded.records.get(event.identity)
                if theirs is not None:
                    position = max(position, theirs.position)
                elif event.name in self.names and not event.flags & frames.IS_ARG:
                    self._take(event, position, records)
            elif type(event) is Left and not over:
                left[event.block.place] = event
            elif type(event) is Fact:
                over |= event.kind == "unit_done" and event.facts.get("why") != "end"  # loops left by stopping did not end
                position = self._after(event, position)
        return position

    def _after(self, fact: Fact, position: int) -> int:
        """A state was put back or compared: whatever was recorded until then comes before."""
        if fact.kind not in ("put_back", "compared"):
            return position
        manifest = self.manifest_of(str(fact.facts.get("manifest")))
        return position if manifest is None else max(position, self.recorded.last_until(fact.process, manifest.attempt, manifest.taken_at))

    def _take(self, record: Logged, position: int, records: list[Logged]) -> None:
        known = self.seen.get(record.identity)
        if known is None:
            self.seen[record.identity] = record.value
            record.at = max(position, self.recorded.last_before(record))
            records.append(record)
        elif known != record.value:
            self.chosen.differing.add(record.name)


# Writing


def publish(
    store: Store, replay: Replay, units: Sequence[Unit], recorded: Recorded, finished: Callable[[Logged], bool] | None = None
) -> Chosen:  # fmt: skip
    """Publish what the units logged under the replay's names. Whenever this is killed, the replay is there whole, or not at all.

    `finished`: which records count, where not all do.
    """
    chosen = choose(units, replay.names, recorded, manifest_reader(store, replay.run))
    if finished is not None:
        chosen.records = {process: list(filter(finished, records)) for process, records in chosen.records.items()}
    sources = [scratch_store(unit) for unit in units]
    for key in sorted(_keys(chosen)):
        _copy_object(store, sources, key)
    _write(store, replay, chosen)
    return chosen


def now() -> str:
    """The moment for `created`."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


def _keys(chosen: Chosen) -> set[str]:
    values = (record.value for records in chosen.records.values() for record in records if len(record.value) > _NUMBER_BYTES)
    return {key.decode() for value in values for key in _OBJECT.findall(value)}


def _copy_object(store: Store, sources: Iterable[Store], key: str) -> None:
    for source in sources:
        try:
            objects.put(store, objects.get(source, key), durable=True)
            return
        except NotFound:
            continue  # text that only looks like a key, or the object of another unit


def _write(store: Store, replay: Replay, chosen: Chosen) -> None:
    folder = replays.begin(store, replay.run, replay.id)
    for process, records in chosen.records.items():
        if records:
            writer = _Writer(folder, replay, process)
            for record in records:
                writer.record(record)
            for left in chosen.left.get(process, {}).values():
                writer.leave(left)
            writer.close()
    replays.publish(store, replay)


class _Writer:
    """The journal of one process of a published replay. Parts stand alone, as a recorder's do."""

    def __init__(self, folder: Path, replay: Replay, process: str) -> None:
        self._journal = JournalWriter(folder, process)
        self._replay = replay
        self._numbers: dict[str, int] = {"": frames.ROOT_BLOCK}
        """Place to the number of its block."""
        self._names: dict[str, int] = {}
        self._blocks: set[str] = set()
        self._called: set[tuple[str, int]] = set()
        self._waiting: list[bytes] = []
        self._rotate()

    def _rotate(self) -> None:
        self._names.clear()
        self._called.clear()
        self._blocks = {""}
        facts = {"run": self._replay.run, "writer": self._journal.writer, "attempt": 1, "part": self._journal.part + 1}
        self._journal.open_part(frames.fact_body("hello", format=1, replay=self._replay.id, **facts))

    def record(self, record: Logged) -> None:
        """One record with the definitions it needs."""
        out = self._waiting
        if len(out) >= _AT_ONCE:
            self._flush()
            if self._journal.is_full():
                self._rotate()
        block = self._define(record.block, out)
        for around, iteration in record.block.around(record.iteration):
            if around.called:
                self._call(around, iteration, out)
        name = self._name(record.name, out)
        head = (frames.RECORD, record.flags, name, block, record.iteration, record.ordinal, record.at)
        out.append(frames.RECORD_HEAD.pack(*head) + record.value)

    def _flush(self) -> None:
        """Nobody waits for single records: the replay is there when all of it is."""
        if self._waiting:
            self._journal.append(self._waiting)
            self._waiting.clear()

    def leave(self, left: Left) -> None:
        """How a block ended, if anything is logged in it."""
        if left.block.place in self._numbers:
            block = self._define(left.block, self._waiting)
            self._waiting.append(frames.LEAVE_HEAD.pack(frames.LEAVE, block, left.entries, left.ending, 0))

    def close(self) -> None:
        """Nothing will be added."""
        self._flush()
        self._journal.close()

    def _name(self, text: str, out: list[bytes]) -> int:
        if text not in self._names:
            self._names[text] = len(self._names) + 1
            out.append(frames.NAME_HEAD.pack(frames.NAME, self._names[text]) + text.encode("utf-8", "surrogatepass"))
        return self._names[text]

    def _define(self, block: Block, out: list[bytes]) -> int:
        if block.place not in self._blocks and block.parent is not None:
            parent = self._define(block.parent, out)
            number = self._numbers.setdefault(block.place, len(self._numbers))
            first, step = block.affine or (0, 0)
            where = (number, parent, block.parent_iteration, self._name(block.loop, out), block.occurrence)
            out.append(frames.BLOCK_HEAD.pack(frames.BLOCK, *where, block.affine is not None, first, step))
            self._blocks.add(block.place)
        return self._numbers[block.place]

    def _call(self, block: Block, iteration: int, out: list[bytes]) -> None:
        value = block.called.get(iteration)
        if value is not None and (block.place, iteration) not in self._called:
            self._called.add((block.place, iteration))
            out.append(frames.VALUE_HEAD.pack(frames.VALUE, self._numbers[block.place], iteration) + value)


# Forgetting


def forget(store: Store, run: RunId, which: str, among: Collection[str] | None = None) -> list[Replay]:
    """Forget a replay by its id, or a name in all replays of a run (or in those): what else those hold is published anew first."""
    gone = []
    for replay in replays.list_of(store, run):
        if among is not None and replay.id not in among:
            continue
        if which == replay.id or which in replay.names:
            rest = tuple(name for name in replay.names if name != which)
            if which != replay.id and rest:
                _publish_rest(store, replay, rest, which)
            replays.remove(store, run, replay.id)
            gone.append(replay)
    if not gone and which in replays.ids_of(store, run):
        replays.remove(store, run, which)  # one whose file is damaged
    return gone


def _publish_rest(store: Store, replay: Replay, names: tuple[str, ...], forgotten: str) -> None:
    chosen = Chosen()
    for event in Journals(replays.folder_of(store, replay.run, replay.id)).events():
        if type(event) is Logged and event.name in names:
            chosen.records.setdefault(event.process, []).append(event)
        elif type(event) is Left:
            chosen.left.setdefault(event.process, {})[event.block.place] = event
    verdicts = {name: verdict for name, verdict in replay.verdicts.items() if name in names}
    by_name = {key: value for key, value in replay.more.items() if isinstance(value, dict)}
    more = {**replay.more, **{key: {name: one for name, one in value.items() if name != forgotten} for key, value in by_name.items()}}
    _write(store, replace(replay, id=replays.new_id(), names=names, verdicts=verdicts, probe_digest="", more=more), chosen)
