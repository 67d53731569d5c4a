"""What journals say, as values: records with their identity, facts, ended blocks, in the order in which they were written.

Reads the run's own journals and those that the workers of a replay wrote in their scratch stores alike. Knows frames; compares
and judges nothing.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from rearview.errors import Damaged
from rearview.store import frames
from rearview.store.encoding import decode
from rearview.store.journal import PartName, parts_of

SUPERVISOR = "supervisor"
ROOT = ""
"""The place outside every loop."""

Identity = tuple[str, str, int, str, int]
"""Process, place, iteration, name, ordinal."""


@dataclass(slots=True, eq=False)
class Block:
    """One execution of a loop in one process."""

    place: str
    """Text that no other block of the process has, and that the blocks inside it begin with."""
    parent: Block | None = None
    parent_iteration: int = 0
    loop: str = ""
    occurrence: int = 0
    affine: tuple[int, int] | None = None
    called: dict[int, bytes] = field(default_factory=dict)
    """Iteration to the encoded scalar that it is called by."""

    def words(self, iteration: int) -> str:
        """Where an iteration is, as people call it: `epoch=3/step=120`."""
        pieces: list[str] = []
        block, at = self, iteration
        while block.parent is not None:
            pieces.append(f"{block.loop}{block._sign(at)}")
            block, at = block.parent, block.parent_iteration
        return "/".join(reversed(pieces))

    def _sign(self, iteration: int) -> str:
        if self.affine is not None:
            return f"={self.affine[0] + iteration * self.affine[1]}"
        known = self.called.get(iteration)
        return f"#{iteration}" if known is None else f"={decode(known)}"

    def around(self, iteration: int) -> Iterator[tuple[Block, int]]:
        """The block and all those it is in, each with the iteration, from the inside outwards; not the root."""
        block, at = self, iteration
        while block.parent is not None:
            yield block, at
            block, at = block.parent, block.parent_iteration


@dataclass(slots=True)
class Logged:
    """One record."""

    process: str
    block: Block
    iteration: int
    name: str
    ordinal: int
    value: bytes
    """Encoded: equal bytes are equal bits."""
    flags: int = 0
    position: int = 0
    """Where in the life of its process: attempt, part and frame, so that later is larger."""
    at: int = 0
    """What the frame says of its moment."""

    @property
    def identity(self) -> Identity:
        return self.process, self.block.place, self.iteration, self.name, self.ordinal

    @property
    def path(self) -> str:
        return self.block.words(self.iteration)


def moment(record: Logged) -> tuple[int, int]:
    """When it was logged, as manifests have it: attempt, and microseconds since its writer began."""
    return record.position >> 52, record.at


@dataclass(slots=True)
class Fact:
    """One fact."""

    process: str
    kind: str
    facts: dict[str, Any]
    position: int = 0


@dataclass(slots=True)
class Left:
    """A block ended."""

    process: str
    block: Block
    entries: int
    ending: int


Event = Logged | Fact | Left


def place_in(parent: str, parent_iteration: int, loop: str, occurrence: int) -> str:
    """The place of a block, by where it was entered."""
    return f"{parent}/{parent_iteration}:{occurrence}:{json.dumps(loop)}"


def place_of(path: Sequence[Sequence[Any]]) -> str:
    """The place of the innermost loop of a manifest's path: [loop, occurrence, iteration, value] from the outermost on."""
    place, above = ROOT, 0
    for loop, occurrence, iteration, *_ in path:
        place, above = place_in(place, above, loop, occurrence), iteration
    return place


class Journals:
    """The journals in the folder of one run, process by process."""

    def __init__(self, folder: Path, *, scratch: bool = False) -> None:
        """`scratch`: of a worker, where a process that claimed a number a second time got a letter more; it is the same one."""
        self.parts: dict[str, list[tuple[PartName, Path]]] = {}
        for name, path in parts_of(folder) if folder.is_dir() else ():
            if name.writer != SUPERVISOR:
                self.parts.setdefault(name.writer.rstrip("x") if scratch else name.writer, []).append((name, path))
        self.damage: list[str] = []
        self._blocks: dict[tuple[str, str], Block] = {}

    @property
    def processes(self) -> list[str]:
        """The numbers of those that wrote, the main process first."""
        return sorted(self.parts, key=lambda number: [(len(piece), piece) for piece in number.split(".")])

    def events(self, process: str | None = None) -> Iterator[Event]:
        """What one process wrote, or all, one after the other; attempts in order."""
        for writer in self.processes if process is None else [process]:
            root = self._blocks.setdefault((writer, ROOT), Block(ROOT))
            known: dict[tuple[str, int], dict[int, Block]] = {}
            for name, path in sorted(self.parts.get(writer, ()), key=lambda part: (part[0].attempt, part[0].writer, part[0].part)):
                blocks = known.setdefault((name.writer, name.attempt), {frames.ROOT_BLOCK: root})
                yield from self._part(writer, name, path.read_bytes(), blocks)

    def _part(self, process: str, part: PartName, data: bytes, blocks: dict[int, Block]) -> Iterator[Event]:
        base = part.attempt << 52 | part.part << 32
        names: dict[int, str] = {}
        reading = frames.Reading()
        for sequence, body in frames.walk(data, reading):
            kind = body[0]
            try:
                if kind == frames.RECORD:
                    _, flags, name, block, iteration, ordinal, moment = frames.RECORD_HEAD.unpack_from(body)
                    value = body[frames.RECORD_HEAD.size :]
                    yield Logged(process, blocks[block], iteration, names[name], ordinal, value, flags, base | sequence, moment)
                elif kind == frames.NAME:
                    names[frames.NAME_HEAD.unpack_from(body)[1]] = body[frames.NAME_HEAD.size :].decode("utf-8", "surrogatepass")
                elif kind == frames.BLOCK:
                    self._define(process, body, names, blocks)
                elif kind == frames.VALUE:
                    _, block, iteration = frames.VALUE_HEAD.unpack_from(body)
                    blocks[block].called[iteration] = body[frames.VALUE_HEAD.size :]
                elif kind == frames.LEAVE:
                    _, block, entries, ending, _ = frames.LEAVE_HEAD.unpack_from(body)
                    yield Left(process, blocks[block], entries, ending)
                elif kind == frames.FACT:
                    fact = frames.read_fact(body)
                    yield Fact(process, fact.pop("fact"), fact, base | sequence)
            except (struct.error, Damaged, UnicodeDecodeError, KeyError) as problem:
                self.damage.append(f"{part}: frame {sequence} cannot be read: {problem}")
        self.damage += [f"{part}: {sentence}" for sentence in reading.damage]

    def _define(self, process: str, body: bytes, names: dict[int, str], blocks: dict[int, Block]) -> None:
        _, number, parent, above, name, occurrence, affine, first, step = frames.BLOCK_HEAD.unpack_from(body)
        place = place_in(blocks[parent].place, above, names[name], occurrence)
        block = self._blocks.get((process, place))
        if block is None:
            counted = (first, step) if affine else None
            block = self._blocks[process, place] = Block(place, blocks[parent], above, names[name], occurrence, counted)
        blocks[number] = block


class Recorded:
    """What a run logged, by identity: where several attempts did, the later one stands. Arguments are left out."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.records: dict[Identity, Logged] = {}
        for event in events:
            if type(event) is Logged and not event.flags & frames.IS_ARG:
                self.records[event.identity] = event
        self._moments: dict[str, list[tuple[int, int, int]]] | None = None
        self._iterations: dict[tuple[str, str], tuple[list[int], list[int]]] | None = None
        self._around: dict[tuple[str, str], int] = {}
        """(process, place) to the last position in earlier iterations of the loops around it."""

    def last_until(self, process: str, attempt: int, at: int) -> int:
        """The position of the last record that a process had logged at a moment of one of its attempts; 0 if there is none."""
        if self._moments is None:
            self._moments = {}
            for record in self.records.values():
                self._moments.setdefault(record.process, []).append((record.position >> 52, record.at, record.position))
            for moments in self._moments.values():
                moments.sort()
        moments = self._moments.get(process, [])
        found = bisect_right(moments, (attempt, at, 1 << 63))
        return moments[found - 1][2] if found else 0

    def last_before(self, record: Logged) -> int:
        """The position of the last record in earlier iterations of the loops around another record; 0 if there is none."""
        if self._iterations is None:
            self._iterations = self._by_iteration()
        return self._earlier(record.process, record.block, record.iteration)

    def _earlier(self, process: str, block: Block, iteration: int) -> int:
        if block.parent is None or self._iterations is None:
            return 0
        key = (process, block.place)
        around = self._around.get(key)
        if around is None:
            around = self._around[key] = self._earlier(process, block.parent, block.parent_iteration)
        iterations, positions = self._iterations.get(key, ([], []))
        found = bisect_left(iterations, iteration)
        return max(around, positions[found - 1]) if found else around

    def _by_iteration(self) -> dict[tuple[str, str], tuple[list[int], list[int]]]:
        """(process, place) to the iterations that have records at any depth, and the last position up to each."""
        last: dict[tuple[str, str], dict[int, int]] = {}
        for record in self.records.values():
            for block, iteration in record.block.around(record.iteration):
                theirs = last.setdefault((record.process, block.place), {})
                theirs[iteration] = max(theirs.get(iteration, 0), record.position)
        return {key: (sorted(theirs), list(accumulate((theirs[at] for at in sorted(theirs)), max))) for key, theirs in last.items()}


def recorded(folder: Path) -> Recorded:
    """The truth of a run, from its own journals."""
    return Recorded(Journals(folder).events())
