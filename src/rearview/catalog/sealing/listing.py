"""What journal parts there are, and which segment answers for each. Lists folders; opens nothing but indexes.

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


@dataclass(frozen=True, slots=True)
class PartFile:
    """A journal part as it lies on disk right now."""

    run: RunId
    name: PartName
    path: Path
    size: int

    @property
    def sealed_as(self) -> tuple[str, str, int]:
        return self.run, str(self.name), self.size


def list_parts(store: Store) -> dict[RunId, list[PartFile]]:
    """The parts of every run that has begun, in order of writer, attempt and part."""
    found: dict[RunId, list[PartFile]] = {}
    try:
        folders = list(os.scandir(store.runs))
    except FileNotFoundError:
        return {}
    for folder in folders:
        if folder.name.startswith("r"):
            parts = _parts_in(folder)
            if parts is not None:
                found[RunId(folder.name)] = parts
    return found


def _parts_in(folder: os.DirEntry[str]) -> list[PartFile] | None:
    begun = False
    parts = []
    try:
        for entry in os.scandir(folder.path):
            if entry.name == "run.json":
                begun = True
                continue
            name = PartName.parse(entry.name)
            if name is not None:
                parts.append(PartFile(RunId(folder.name), name, Path(entry.path), entry.stat(follow_symlinks=False).st_size))
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
    return Coverage(taken, sorted(wanted.values(), key=lambda part: (part.run, part.name)))
