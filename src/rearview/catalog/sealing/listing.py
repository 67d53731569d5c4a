"""What journal parts there are, of runs and of their replays, and which segment answers for each. Lists folders; opens nothing.

A part is taken from a segment only if the part is still there with the very size that was sealed. When segments overlap
(two readers sealed at once), the one that covers more parts stands, then the one with the smaller id: every reader
decides alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rearview.catalog.sealing.segments import Segment
from rearview.model import RunId
from rearview.store.journal import PartName
from rearview.store.layout import Store
from rearview.store.replays import FOLDER as REPLAYS


@dataclass(frozen=True, slots=True)
class PartFile:
    """A journal part as it lies on disk right now."""

    run: RunId
    name: PartName
    path: Path
    size: int
    replay: str = ""
    """The replay of the run that it belongs to; empty for the run's own."""

    @property
    def file(self) -> str:
        """Where it is in the folder of its run: what segments call it."""
        return f"{REPLAYS}/{self.replay}/{self.name}" if self.replay else str(self.name)

    @property
    def sealed_as(self) -> tuple[str, str, int]:
        return self.run, self.file, self.size


def replay_of(file: str) -> str:
    """The replay that a part belongs to, by what segments call it; empty for the run's own."""
    return file.split("/")[1] if file.startswith(REPLAYS + "/") else ""


def part_name(file: str) -> PartName | None:
    """Writer, attempt and part, by what segments call it."""
    return PartName.parse(file.rsplit("/", 1)[-1])


def list_parts(store: Store, replayed: list[RunId] | None = None) -> dict[RunId, list[PartFile]]:
    """The parts of every run that has begun, in order of writer, attempt and part. Runs that have replays go into `replayed`."""
    found: dict[RunId, list[PartFile]] = {}
    try:
        folders = list(os.scandir(store.runs))
    except FileNotFoundError:
        return {}
    for folder in folders:
        if folder.name.startswith("r"):
            run = RunId(folder.name)
            parts = _parts_in(run, Path(folder.path), replayed)
            if parts is not None:
                found[run] = parts
    return found


def list_replay(store: Store, run: RunId, replay: str) -> list[PartFile]:
    """The parts of one replay."""
    folder = store.run(run) / REPLAYS / replay
    try:
        sizes = {name: entry.stat().st_size for entry in os.scandir(folder) if (name := PartName.parse(entry.name)) is not None}
    except FileNotFoundError:
        return []  # forgotten while we looked
    return [PartFile(run, name, folder / str(name), size, replay) for name, size in sorted(sizes.items())]


def _parts_in(run: RunId, folder: Path, replayed: list[RunId] | None) -> list[PartFile] | None:
    begun = False
    parts = []
    try:
        for entry in os.scandir(folder):
            if entry.name == "run.json":
                begun = True
                continue
            if entry.name == REPLAYS and replayed is not None:
                replayed.append(run)
            name = PartName.parse(entry.name)
            if name is not None:
                parts.append(PartFile(run, name, Path(entry.path), entry.stat(follow_symlinks=False).st_size))
    except (FileNotFoundError, NotADirectoryError):
        return None  # removed while we looked
    parts.sort(key=lambda part: part.name)
    return parts if begun else None


@dataclass(slots=True)
class Coverage:
    """Which segment answers for which part."""

    taken: list[tuple[Segment, list[int]]]
    """Each segment in use with the indexes of its parts that it answers for."""
    open: list[PartFile]
    """Parts that no segment answers for."""


def cover(parts: Iterable[PartFile], segments: Sequence[Segment]) -> Coverage:
    """Choose a segment for each part; pure."""
    wanted = {part.sealed_as: part for part in parts}
    taken = []
    for segment in sorted(segments, key=lambda s: (-len(s.parts), s.ident)):
        mine = []
        for ix, part in enumerate(segment.parts):
            if wanted.pop((part["run"], part["file"], part["size"]), None) is not None:
                mine.append(ix)
        if mine:
            taken.append((segment, mine))
    return Coverage(taken, sorted(wanted.values(), key=lambda part: (part.run, part.replay, part.name)))
