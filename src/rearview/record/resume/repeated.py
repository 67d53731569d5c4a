"""What an attempt logged again, against what the attempts before it logged there: for a program that goes on by itself.

At its end it says whether rows differ; which ones, `rearview show` says (`catalog/overlap` compares everything). Reads the journals of this
process alone, of those before only what lies behind the checkpoint, and not more of it than a moment's work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rearview.store import frames
from rearview.store.encoding import decode
from rearview.store.journal import parts_of

if TYPE_CHECKING:
    from rearview.record.recorder import Recorder

MOST_ROWS = 100_000
"""Of an attempt; about half a second."""
_BEGINNING = 1 << 18
"""Bytes of a part in which its first record is looked for."""

Identity = tuple[Any, ...]
"""Blocks with their iterations from the outermost, the iteration, the name, the ordinal."""


class _Row(NamedTuple):
    """A record as its frame has it."""

    identity: Identity
    flags: int
    us: int
    value: bytes


@dataclass(slots=True)
class Repeated:
    """What two attempts have in common."""

    same: int = 0
    differing: int = 0
    names: dict[str, None] = field(default_factory=dict)
    """Of rows that differ, in the order they come."""
    all: bool = True
    """Nothing was left out because it is too much."""

    def sentence(self, run: str) -> str | None:
        """For the person, if there is something to say."""
        if not self.differing:
            return None
        least = "" if self.all else "at least "
        names = ", ".join(list(self.names)[:3]) + (", ..." if len(self.names) > 3 else "")
        again = self.same + self.differing
        rows = f"{self.differing:,} of {again:,} row{'s' * (again != 1)}"
        return f"run {run}: {least}{rows} logged again differ from what was logged before ({names}); `rearview show {run[:7]}` lists them"


def compare(recorder: Recorder, origin: Mapping[str, Any]) -> Repeated:
    """Compare what this attempt logged with the attempts before it. `origin`: where it began, as the agreement tells it. After the end."""
    writer = str(recorder.process)
    parts = [(name, path) for name, path in parts_of(recorder.store.run(recorder.run)) if name.writer == writer]
    source, taken = origin.get("from") or {}, (origin.get("taken_at") or {}).get(writer, 0)
    found = Repeated()
    before: dict[Identity, bytes] = {}
    for attempt in sorted({name.attempt for name, _ in parts if source.get("attempt", 0) <= name.attempt < recorder.attempt}):
        behind_us = taken if attempt == source.get("attempt") else -1
        paths = _behind([path for name, path in parts if name.attempt == attempt], behind_us)
        behind = (row for row in _rows(paths) if row.us > behind_us)
        before |= {row.identity: row.value for row in islice(behind, MOST_ROWS)}  # of several attempts the last one counts
        found.all &= next(behind, None) is None
    left = set(before)
    for k, row in enumerate(_rows([path for name, path in parts if name.attempt == recorder.attempt])):
        if not left or k == 2 * MOST_ROWS:
            found.all &= not left
            break
        if row.identity not in left:
            continue
        left.remove(row.identity)
        if row.flags & frames.VOLATILE:
            continue
        if is_same(before[row.identity], row.value):
            found.same += 1
        else:
            found.differing += 1
            found.names[row.identity[-2]] = None
    return found


def is_same(before: bytes, after: bytes) -> bool:
    """Whether two encoded values are one. Every NaN is the same."""
    if before == after:
        return True
    values = decode(before), decode(after)
    return all(isinstance(value, float) and math.isnan(value) for value in values)


def _behind(paths: list[Path], us: int) -> list[Path]:
    """The last parts of an attempt: from the one on in which a moment lies."""
    chosen: list[Path] = []
    for path in reversed(paths):
        chosen.insert(0, path)
        with open(path, "rb") as file:
            data = file.read(_BEGINNING)
        bodies = (body for _, body in frames.walk(data, frames.Reading()) if body[0] == frames.RECORD)
        first = next(bodies, None)
        if first is not None and frames.RECORD_HEAD.unpack_from(first)[6] <= us:
            break
    return chosen


def _rows(paths: list[Path]) -> Iterator[_Row]:
    """The records of some parts in order. What refers to something damaged is left out."""
    for path in paths:
        names: dict[int, str] = {}
        places: dict[int, Identity] = {frames.ROOT_BLOCK: ()}
        for _, body in frames.walk(path.read_bytes(), frames.Reading()):
            kind = body[0]
            if kind == frames.RECORD:
                _, flags, name, block, iteration, ordinal, us = frames.RECORD_HEAD.unpack_from(body)
                if name in names and block in places:
                    yield _Row((*places[block], iteration, names[name], ordinal), flags, us, body[frames.RECORD_HEAD.size :])
            elif kind == frames.NAME:
                names[frames.NAME_HEAD.unpack_from(body)[1]] = body[frames.NAME_HEAD.size :].decode("utf-8", "surrogatepass")
            elif kind == frames.BLOCK:
                _, block, parent, parent_iteration, name, occurrence, *_ = frames.BLOCK_HEAD.unpack(body)
                if name in names and parent in places:
                    places[block] = (*places[parent], parent_iteration, names[name], occurrence)
