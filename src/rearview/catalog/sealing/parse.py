"""From the bytes of journal parts to rows of a segment. Knows frames; knows no files and no SQL.

Every frame's checksum is verified. A record whose name or block was lost to damage is counted as lost, never guessed.
Plain floats leave as columns of numbers, everything else as lines of comma-separated numbers and hexadecimal, which need no
quoting whatever the user logged.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rearview.catalog.tables.types import spread, spread_float
from rearview.errors import Damaged
from rearview.store import frames
from rearview.store.frames import Reading

ROOT_KEY = "0" * 32
_NUMBER = struct.Struct("<IIIBBIIQIQc8s")
"""A whole frame of a record whose value takes eight bytes: what nearly all frames are."""
_NUMBER_BODY = _NUMBER.size - frames.HEADER.size
_SHORT_RUN, _LONG_RUN = 16, 4096
_LARGEST = 2**63 - 1
_LARGEST_KEPT = 4096
"""Bytes: `last` values beyond this are left out of the summary."""
KEPT_FACTS = frozenset({"hello", "end", "tick", "exit", "version"})
"""The facts that a list of runs needs; all of them are rows of `facts`."""

Write = Callable[[str], object]
WriteNumbers = Callable[..., object]
Ints = tuple[int, ...]


@dataclass(slots=True)
class Sink:
    """Where the rows of one segment go, and the dictionaries they share."""

    records: Write
    blocks: Write
    values: Write
    facts: Write
    numbers: WriteNumbers
    """Plain records of one float each: block, iteration, name, ordinal, flags, sequence, moment, and the floats' bytes."""
    names: dict[str, int] = field(default_factory=dict)
    shapes: dict[tuple[str, ...], int] = field(default_factory=dict)
    blocks_made: int = 0
    parts_made: int = 0

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))

    def shape(self, loops: tuple[str, ...]) -> int:
        return self.shapes.setdefault(loops, len(self.shapes))


@dataclass(slots=True)
class PartSummary:
    """What a list of runs needs to know of one part, so that it need not be opened again."""

    records: int = 0
    lost: int = 0
    at: int = 0
    """Microseconds since the writer began, of the last record."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last fact of each kind in KEPT_FACTS."""
    args: dict[str, tuple[bytes, bool]] = field(default_factory=dict)
    """Name to (encoded value, was it given)."""
    last: dict[str, bytes] = field(default_factory=dict)
    """Name to its last encoded value."""
    reading: Reading = field(default_factory=Reading)


@dataclass(slots=True)
class _Block:
    ix: int
    key: str
    loops: tuple[str, ...]
    entries: int | None = None
    ending: int | None = None
    line: str = ""


def block_key(parent: str, parent_iteration: int, name: str, occurrence: int) -> str:
    """The hash of a path: the same for the same place in every part, attempt and replay of a process."""
    import xxhash

    head = f"{parent}/{parent_iteration}/{occurrence}/".encode()
    return xxhash.xxh3_128_hexdigest(head + name.encode("utf-8", "surrogatepass"))


class PartParser:
    """One pass over one part."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.summary = PartSummary()
        self.part = sink.parts_made
        sink.parts_made += 1
        self._names: dict[int, str] = {}
        self._name_ix: dict[int, int] = {}
        self._blocks: dict[int, _Block] = {}
        self._block_ix: dict[int, int] = {}
        self._last: dict[int, bytes] = {}
        self._define_root()

    def parse(self, data: bytes) -> PartSummary:
        """Read a part; its rows have gone to the sink when this returns."""
        at, expected = self._fast(data)
        for sequence, body in frames.walk(data, self.summary.reading, at, expected):
            self._frame(sequence, body)
        for block in self._blocks.values():
            ending = "" if block.ending is None else str(block.ending)
            self.sink.blocks(f"{block.line},{'' if block.entries is None else block.entries},{ending}\n")
        self.summary.last = {self._names[k]: v for k, v in self._last.items() if len(v) <= _LARGEST_KEPT}
        return self.summary

    def _define_root(self) -> None:
        ix = self.sink.blocks_made
        self.sink.blocks_made += 1
        self._blocks[frames.ROOT_BLOCK] = _Block(ix, ROOT_KEY, (), line=f"{ix},{self.part},{ROOT_KEY},,,{self.sink.shape(())},,,,,")
        self._block_ix[frames.ROOT_BLOCK] = ix

    # The way of nearly all frames: runs of numbers, many at a time

    def _fast(self, data: bytes) -> tuple[int, int]:
        """Parse until something is not a good frame; the offset and sequence number reached."""
        if data[: len(frames.MAGIC)] != frames.MAGIC:
            return 0, 0
        at, expected, size = len(frames.MAGIC), 0, len(data)
        unpack, crc32, head = frames.HEADER.unpack_from, zlib.crc32, frames.HEADER.size
        run = _SHORT_RUN
        while at + head < size:
            checksum, length, sequence = unpack(data, at)
            if length == _NUMBER_BODY and at + _NUMBER.size <= size:
                taken = self._numbers(data, at, expected, min(run, (size - at) // _NUMBER.size))
                if taken:
                    run = _LONG_RUN if taken == run else _SHORT_RUN
                    at += taken * _NUMBER.size
                    expected += taken
                    continue
            end = at + head + length
            if end > size or not length or sequence != expected or crc32(data[at + 4 : end]) != checksum:
                break
            if data[at + head] == frames.CLOSE:
                break
            self._frame(sequence, data[at + head : end])
            at = end
            expected += 1
        return at, expected

    def _numbers(self, data: bytes, at: int, expected: int, limit: int) -> int:
        """Parse up to `limit` frames that are records of one float each; how many were. Column by column: that is three times as fast."""
        size = _NUMBER.size
        checksums, lengths, numbers, kinds, flags, names, blocks, iterations, ordinals, moments, tags, raws = zip(
            *_NUMBER.iter_unpack(memoryview(data)[at : at + limit * size]), strict=True
        )
        count = min(_alike(lengths, _NUMBER_BODY), _alike(kinds, frames.RECORD), _alike(tags, b"f"), _counting(numbers, expected))
        crc32, begin = zlib.crc32, at + 4
        sums = [crc32(data[k : k + size - 4]) for k in range(begin, begin + count * size, size)]
        if tuple(sums) != checksums[:count]:
            count = next(k for k in range(count) if sums[k] != checksums[k])
        count = self._ordinary(flags[:count], names[:count], blocks[:count], iterations, moments, raws)
        if count:
            here = slice(count)
            block_ix, name_ix = map(self._block_ix.__getitem__, blocks[here]), map(self._name_ix.__getitem__, names[here])
            columns = (list(block_ix), iterations[here], list(name_ix), ordinals[here], flags[here], numbers[here], moments[here])
            self.sink.numbers(*columns, b"".join(raws[here]))
            self.summary.records += count
            self.summary.at = max(self.summary.at, moments[count - 1])
            for name, raw in dict(zip(names[here], raws[here], strict=True)).items():
                self._last[name] = b"f" + raw
        return count

    def _ordinary(self, flags: Ints, names: Ints, blocks: Ints, iterations: Ints, moments: Ints, raws: tuple[bytes, ...]) -> int:
        """How many from the first on are no argument, refer to nothing lost, are in range and no NaN: the rest goes the slow way."""
        count = len(flags)
        if not count:
            return 0
        floats = struct.unpack(f"<{count}d", b"".join(raws[:count]))
        total = sum(floats)
        if (
            max(flags) <= frames.VOLATILE and self._name_ix.keys() >= set(names) and self._block_ix.keys() >= set(blocks)
            and max(iterations[:count]) <= _LARGEST and max(moments[:count]) <= _LARGEST and total == total
        ):  # fmt: skip
            return count
        for k in range(count):
            known = names[k] in self._name_ix and blocks[k] in self._block_ix
            if flags[k] > frames.VOLATILE or not known or max(iterations[k], moments[k]) > _LARGEST or floats[k] != floats[k]:
                return k  # a NaN may have a payload
        return count

    # One frame at a time

    def _frame(self, sequence: int, body: bytes) -> None:
        kind = body[0]
        try:
            if kind == frames.RECORD:
                self._record(sequence, body)
            elif kind == frames.NAME:
                self._name(body)
            elif kind == frames.BLOCK:
                self._block(body)
            elif kind == frames.VALUE:
                self._value(body)
            elif kind == frames.LEAVE:
                self._leave(body)
            elif kind == frames.FACT:
                self._fact(sequence, body)
        except (struct.error, Damaged, UnicodeDecodeError) as problem:
            self.summary.reading.damage.append(f"frame {sequence} cannot be read: {problem}")
            self.summary.lost += kind == frames.RECORD

    def _record(self, sequence: int, body: bytes) -> None:
        _, flags, name, block, iteration, ordinal, moment = frames.RECORD_HEAD.unpack_from(body)
        if name not in self._name_ix or block not in self._block_ix or iteration > _LARGEST:
            self.summary.lost += 1
            return
        encoded = body[frames.RECORD_HEAD.size :]
        columns = _columns(encoded)
        moment = min(moment, _LARGEST)
        self.sink.records(f"{self._block_ix[block]},{iteration},{self._name_ix[name]},{ordinal},{flags},{sequence},{moment},{columns}\n")
        self.summary.records += 1
        self.summary.at = max(self.summary.at, moment)
        if flags & frames.IS_ARG:
            self.summary.args.setdefault(self._names[name], (encoded, bool(flags & frames.ARG_GIVEN)))
        else:
            self._last[name] = encoded

    def _name(self, body: bytes) -> None:
        _, number = frames.NAME_HEAD.unpack_from(body)
        text = body[frames.NAME_HEAD.size :].decode("utf-8", "surrogatepass")
        self._names[number] = text
        self._name_ix[number] = self.sink.name(text)

    def _block(self, body: bytes) -> None:
        _, number, parent, parent_iteration, name, occurrence, affine, first, step = frames.BLOCK_HEAD.unpack_from(body)
        if parent not in self._blocks or name not in self._names or parent_iteration > _LARGEST:
            return  # its definition was lost: its records will be counted as lost
        above = self._blocks[parent]
        text = self._names[name]
        key = block_key(above.key, parent_iteration, text, occurrence)
        ix = self.sink.blocks_made
        self.sink.blocks_made += 1
        loops = (*above.loops, text)
        values = f"1,{first},{step}" if affine else "0,,"
        line = f"{ix},{self.part},{key},{above.key},{parent_iteration},{self.sink.shape(loops)},{self._name_ix[name]},{occurrence},{values}"
        self._blocks[number] = _Block(ix, key, loops, line=line)
        self._block_ix[number] = ix

    def _value(self, body: bytes) -> None:
        _, block, iteration = frames.VALUE_HEAD.unpack_from(body)
        if block in self._block_ix and iteration <= _LARGEST:
            self.sink.values(f"{self._block_ix[block]},{iteration},{_columns(body[frames.VALUE_HEAD.size :])}\n")

    def _leave(self, body: bytes) -> None:
        _, number, entries, ending, moment = frames.LEAVE_HEAD.unpack_from(body)
        block = self._blocks.get(number)
        if block is not None:
            block.entries, block.ending = min(entries, _LARGEST), ending
            self.summary.at = max(self.summary.at, min(moment, _LARGEST))

    def _fact(self, sequence: int, body: bytes) -> None:
        fact = frames.read_fact(body)
        self.sink.facts(f"{self.part},{sequence},{body[1:].hex()}\n")
        if fact["fact"] in KEPT_FACTS:
            self.summary.facts[fact["fact"]] = fact


def _alike(column: Sequence[object], value: object) -> int:
    """How many items from the first on are `value`."""
    if column.count(value) == len(column):
        return len(column)
    return next(k for k, item in enumerate(column) if item != value)


def _counting(column: Ints, start: int) -> int:
    """How many items from the first on count up from `start`."""
    if column == tuple(range(start, start + len(column))):
        return len(column)
    return next(k for k, item in enumerate(column) if item != start + k)


def _columns(encoded: bytes) -> str:
    if len(encoded) == 9 and encoded[:1] == b"f":
        code, number, whole, text, raw = spread_float(encoded[1:])
    else:
        code, number, whole, text, raw = spread(encoded)
    shown = "" if text is None else "x" + text.encode().hex()
    return f"{code},{number},{whole},{shown},{'' if raw is None else raw.hex()}"


def null_sink() -> Sink:
    """A sink that keeps no rows: for readers of summaries."""

    def drop(_: str) -> None:
        return

    def drop_numbers(*_: object) -> None:
        return

    return Sink(drop, drop, drop, drop, drop_numbers)
