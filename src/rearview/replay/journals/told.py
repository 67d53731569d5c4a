"""What the journals of a run's main process say of it, in one quick pass. Executes and unpickles nothing.

Records are stepped over by their length: only facts, definitions and ends of blocks are looked at, so a million records take a moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.errors import Damaged
from rearview.model import MAIN_PROCESS
from rearview.replay.journals.logged import SUPERVISOR
from rearview.store import frames
from rearview.store.journal import parts_of
from rearview.store.manifests import SUFFIX

Key = tuple[tuple[str, int, int], ...]
"""A block, whichever attempt ran it: from the outermost loop inwards (name, occurrence, iteration of the loop around it)."""

_LOOKED_AT = frozenset((frames.FACT, frames.NAME, frames.BLOCK, frames.VALUE, frames.LEAVE))


@dataclass(slots=True)
class Main:
    """A main block on its way from the journals."""

    key: Key
    times: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Iteration -> seconds, and those in its first nested loop."""
    wall: float = 0.0
    """When it was first seen to begin."""
    left: tuple[int, str, float] | None = None
    """Iterations begun, how it ended, and the wall time of that."""
    kept: int = -1
    """The last iteration at whose end something was kept."""
    ran_s: dict[int, float] = field(default_factory=dict)
    """Iteration -> how long it ran at the least: to the last state that was kept inside it."""

    @property
    def name(self) -> str:
        return self.key[-1][0]


@dataclass(slots=True)
class Told:
    """What the journals of the main process say."""

    began_wall: float = 0.0
    end_wall: float | None = None
    last_wall: float = 0.0
    mains: dict[Key, Main] = field(default_factory=dict)
    affine: dict[Key, tuple[int, int]] = field(default_factory=dict)
    values: dict[Key, dict[int, object]] = field(default_factory=dict)
    nested: dict[Key, int] = field(default_factory=dict)
    """The last iteration in which a loop was entered."""
    left: dict[Key, tuple[int, str, float]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    restored: list[tuple[str, float]] = field(default_factory=list)
    memory_bytes: int | None = None
    resumed: dict[int, str | None] = field(default_factory=dict)
    """Attempt -> the manifest that it went on from; None: from the beginning."""
    went_on: tuple[str, str] | None = None
    """Of a run that other code went on with: the run that it went on from, and the manifest of that."""
    alone: bool = True
    """No other process has logged anything."""
    cells: list[list[float]] = field(default_factory=list)
    """When cells of a notebook ran, from and to. Between them nothing does."""

    def ran_s(self, begin: float, end: float) -> float:
        """How long something ran between two moments."""
        pieces = self.cells or [[begin, end]]
        return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in pieces)


def journals(folder: Path) -> Told:
    """All parts of the main process, in order."""
    found = Told()
    every = parts_of(folder)
    found.alone = all(name.writer in (MAIN_PROCESS, SUPERVISOR) for name, _ in every)
    parts = [(name, path) for name, path in every if name.writer == MAIN_PROCESS]
    for name, path in sorted(parts, key=lambda part: (part[0].attempt, part[0].part)):
        if name.attempt > 1:
            found.resumed.setdefault(name.attempt, None)
        try:
            _take_part(found, path.read_bytes())
        except OSError:
            continue
    for key, left in found.left.items():
        if key in found.mains:
            found.mains[key].left = left
    return found


def bodies(data: bytes) -> Iterator[bytes]:
    """Every frame of a part but records. What is damaged is left to the reader that looks at everything."""
    unpack, head, size, at, expected = frames.HEADER.unpack_from, frames.HEADER.size, len(data), len(frames.MAGIC), 0
    if not data.startswith(frames.MAGIC):
        return
    while at + head < size:
        _, length, sequence = unpack(data, at)
        end = at + head + length
        if not length or end > size or sequence != expected:
            yield from (body for _, body in frames.walk(data, frames.Reading(), at, expected) if body[0] in _LOOKED_AT)
            return
        if data[at + head] in _LOOKED_AT:
            yield data[at + head : end]
        at = end
        expected += 1


def _take_part(found: Told, data: bytes) -> None:
    names: dict[int, str] = {}
    blocks: dict[int, Key] = {frames.ROOT_BLOCK: ()}
    hello_wall = found.began_wall
    for body in bodies(data):
        kind = body[0]
        if kind == frames.NAME:
            names[frames.NAME_HEAD.unpack_from(body)[1]] = body[frames.NAME_HEAD.size :].decode("utf-8", "surrogatepass")
        elif kind == frames.BLOCK:
            _define(found, body, names, blocks)
        elif kind == frames.VALUE:
            _, number, iteration = frames.VALUE_HEAD.unpack_from(body)
            if number in blocks:
                found.values.setdefault(blocks[number], {})[iteration] = body[frames.VALUE_HEAD.size :]
        elif kind == frames.LEAVE:
            _, number, begun, ending, at_us = frames.LEAVE_HEAD.unpack_from(body)
            if number in blocks and begun:
                found.left[blocks[number]] = (begun, frames.ENDINGS[ending], hello_wall + at_us / 1e6)
        else:
            try:
                fact = frames.read_fact(body)
            except Damaged:
                continue
            if fact["fact"] == "hello" and isinstance(fact.get("wall"), (int, float)):
                hello_wall = float(fact["wall"])
            _take_fact(found, fact)


def _define(found: Told, body: bytes, names: Mapping[int, str], blocks: dict[int, Key]) -> None:
    _, number, parent, above, name, occurrence, affine, first, step = frames.BLOCK_HEAD.unpack_from(body)
    if parent not in blocks or name not in names:
        return
    around = blocks[parent]
    key = blocks[number] = (*around, (names[name], occurrence, above))
    if affine:
        found.affine[key] = (first, step)
    found.nested[around] = max(found.nested.get(around, -1), above)


def _take_fact(found: Told, fact: Mapping[str, Any]) -> None:
    kind, wall = fact["fact"], fact.get("wall")
    if isinstance(wall, (int, float)):
        found.last_wall = max(found.last_wall, float(wall))
    if kind == "hello" and not found.began_wall:
        found.began_wall = float(wall or 0.0)
    elif kind == "end" and isinstance(wall, (int, float)):
        found.end_wall = float(wall)
    elif kind == "timing":
        _take_timing(found, fact)
    elif kind == "cell" and isinstance(wall, (int, float)):
        found.cells.append([float(wall), math.inf])
    elif kind == "cell_ran" and isinstance(wall, (int, float)):
        found.cells = found.cells or [[found.began_wall, math.inf]]
        found.cells[-1][1] = float(wall)
    elif kind == "environment":
        found.environment.update(fact)
    elif kind == "memory" and isinstance(fact.get("peak_bytes"), int):
        found.memory_bytes = int(fact["peak_bytes"])
    elif kind == "resumed" and isinstance(fact.get("attempt"), int):
        checkpoint = fact.get("checkpoint")
        name = checkpoint.get(MAIN_PROCESS) if isinstance(checkpoint, dict) else None
        if fact["attempt"] == 0:  # a run of its own
            found.went_on = (str(fact.get("run")), str(name).removesuffix(SUFFIX)) if name else None
        else:
            found.resumed[int(fact["attempt"])] = name
    elif kind == "restored" and isinstance(fact.get("seconds"), (int, float)):
        found.restored.append((str(fact.get("manifest")), float(fact["seconds"])))


def _take_timing(found: Told, fact: Mapping[str, Any]) -> None:
    first, totals, nested = int(fact["first"]), fact["total"], fact["nested"]
    key = key_of(fact.get("path") or [[fact["name"], int(fact["block"]), first]])
    main = found.mains.setdefault(key, Main(key))
    wall = float(fact.get("wall") or found.last_wall)
    main.wall = main.wall or wall - sum(total for total, _ in main.times.values())
    for at, (total, inner) in enumerate(zip(totals, nested, strict=False)):
        main.times[first + at] = (float(total), float(inner))


def key_of(path: list[list[Any]]) -> Key:
    """The block of the innermost loop of a path, by where each loop was entered.

    >>> key_of([["fold", 0, 2], ["epoch", 1, 5]])
    (('fold', 0, 0), ('epoch', 1, 2))
    """
    above, key = 0, []
    for name, occurrence, iteration, *_ in path:
        key.append((str(name), int(occurrence), above))
        above = int(iteration)
    return tuple(key)
