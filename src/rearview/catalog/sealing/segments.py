"""A segment on disk: an index file that names its Parquet files by hash, and what the index says of each part.

The index is published last and whole: its existence is the segment. Each Parquet file is named by the hash of its bytes,
so that two readers who seal the same parts at once never mix their files. A segment is a cache: what cannot be
verified is not used, and is made again (`docs/formats/segments.md`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.catalog.sealing.parse import PartSummary
from rearview.store import atomic

FORMAT = 2
"""Segments of another format are ignored and made again."""

TABLES = ("records", "blocks", "values", "facts")
_SUFFIX = ".index"


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as its index describes it."""

    ident: str
    folder: Path
    parts: list[dict[str, Any]]
    """Per part: run, file, size and what `part_entry` keeps."""
    names: list[str]
    shapes: list[tuple[str, ...]]
    stats: list[list[int]]
    """Rows of (part, name, shape, is an argument, type, count, rows with raw)."""
    value_stats: list[list[int]]
    """The same of what iterations are called: (part, shape, type, count, rows with raw)."""
    runs: dict[str, dict[str, Any]]
    """`run.json` of each run, as far as lists need it."""
    files: dict[str, list[Any]]
    """Table to (file name, size, hash)."""
    rows: int

    def path(self, table: str) -> Path:
        return self.folder / str(self.files[table][0])


def hash_of(data: bytes | memoryview) -> str:
    """The hash that segments use for their own files."""
    import xxhash

    return xxhash.xxh3_128_hexdigest(data)


def hash_of_file(path: Path) -> str:
    """The same over a file's bytes, a piece at a time."""
    import xxhash

    digest = xxhash.xxh3_128()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def segment_id(parts: Sequence[tuple[str, str, int]]) -> str:
    """The identity of a segment: what it covers."""
    return hash_of(json.dumps([FORMAT, sorted(parts)]).encode())


def part_entry(run: str, file: str, size: int, summary: PartSummary) -> dict[str, Any]:
    """A part's summary as JSON."""
    return {
        "run": run, "file": file, "size": size, "records": summary.records, "lost": summary.lost, "at": summary.at,
        "closed": summary.reading.closed, "torn": summary.reading.torn_bytes, "damage": summary.reading.damage,
        "facts": summary.facts, "args": {name: [value.hex(), given] for name, (value, given) in summary.args.items()},
        "last": {name: value.hex() for name, value in summary.last.items()},
    }  # fmt: skip


def write_index(segment: Segment, tmp: Path) -> bool:
    """Publish a segment whose files are in place. False if another reader published the same one first."""
    body = json.dumps(
        {
            "format": FORMAT, "id": segment.ident, "parts": segment.parts, "names": segment.names,
            "shapes": segment.shapes, "stats": segment.stats, "value_stats": segment.value_stats, "runs": segment.runs,
            "files": segment.files, "rows": segment.rows,
        },
        separators=(",", ":"), default=repr,
    ).encode()  # fmt: skip
    data = hash_of(body).encode() + b"\n" + body
    return atomic.publish(segment.folder / (segment.ident + _SUFFIX), data, tmp=tmp, durable=False, replace=False)


def read_index(path: Path) -> Segment | None:
    """A segment by its index file; None if it is damaged, of another format or gone."""
    try:
        digest, _, body = path.read_bytes().partition(b"\n")
        if hash_of(body).encode() != digest:
            return None
        facts = json.loads(body)
        if facts["format"] != FORMAT:
            return None
        shapes = [tuple(shape) for shape in facts["shapes"]]
        fields = [facts[key] for key in ("stats", "value_stats", "runs", "files", "rows")]
        return Segment(facts["id"], path.parent, facts["parts"], facts["names"], shapes, *fields)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def list_segments(folder: Path) -> tuple[list[Segment], list[Path]]:
    """Every readable segment of a folder, and the index files that cannot be used."""
    found, bad = [], []
    try:
        entries = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(_SUFFIX))
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    for name in entries:
        segment = read_index(folder / name)
        if segment is not None and segment.ident + _SUFFIX == name:
            found.append(segment)
        elif (folder / name).exists():
            bad.append(folder / name)
    return found, bad


def whole(segment: Segment) -> bool:
    """Are the Parquet files the ones that were written?"""
    try:
        for name, size, digest in segment.files.values():
            path = segment.folder / name
            if path.stat().st_size != size or hash_of_file(path) != digest:
                return False
    except OSError:
        return False
    return True


def remove(segment: Segment, still_used: Sequence[Segment] = ()) -> None:
    """Delete a segment: its index first, so that nobody finds half of it. Files that another segment names stay."""
    kept = {entry[0] for other in still_used for entry in other.files.values()}
    (segment.folder / (segment.ident + _SUFFIX)).unlink(missing_ok=True)
    for name, _, _ in segment.files.values():
        if name not in kept:
            (segment.folder / name).unlink(missing_ok=True)
