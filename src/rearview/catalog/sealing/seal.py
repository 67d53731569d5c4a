"""Journal parts into segments, and small segments into larger ones.

Any number of readers may seal at once without locks: each writes its own files in a scratch folder, names them by their
hash, and publishes an index last. A live process's open part is made into a segment of the reader's own that nobody
else sees. Truth is never touched here.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rearview.catalog.asking.engine import literal, scratch
from rearview.catalog.sealing import segments
from rearview.catalog.sealing.listing import PartFile
from rearview.catalog.sealing.parse import PartParser, PartSummary, Sink
from rearview.catalog.sealing.plain import DOUBLE, INT32, INT64, PlainWriter
from rearview.catalog.sealing.segments import TABLES, Segment
from rearview.catalog.tables.types import FLOAT
from rearview.store import atomic

if TYPE_CHECKING:
    import duckdb

BATCH_BYTES = 192 << 20
"""Journal bytes that go into one new segment: bounds the scratch files."""
MERGE_AT = 6
"""So many small segments of comparable size become one."""
_LONG_LINE = 1 << 20

_VALUE = "type UTINYINT, f DOUBLE, i BIGINT, s VARCHAR, raw VARCHAR"
_CSV = {
    "records": f"b INTEGER, it BIGINT, name INTEGER, ord UINTEGER, flags UTINYINT, seq UINTEGER, us BIGINT, {_VALUE}",
    "blocks": (
        "b INTEGER, part INTEGER, key UUID, parent UUID, parent_it BIGINT, shape INTEGER, loop INTEGER, occurrence UINTEGER, "
        "affine UTINYINT, first BIGINT, step BIGINT, entries BIGINT, ending UTINYINT"
    ),
    "values": f"b INTEGER, it BIGINT, {_VALUE}",
    "facts": "part INTEGER, seq UINTEGER, body VARCHAR",
}
_NUMBERS = [
    ("b", INT32), ("it", INT64), ("name", INT32), ("ord", INT64), ("flags", INT32), ("seq", INT64), ("us", INT64), ("f", DOUBLE),
]  # fmt: skip
_DECODED = "* REPLACE (CASE WHEN s IS NOT NULL THEN decode(unhex(substr(s, 2))) END AS s, unhex(raw) AS raw)"
_SELECTED = {"records": _DECODED, "blocks": "*", "values": _DECODED, "facts": "* REPLACE (unhex(body) AS body)"}


@dataclass(slots=True)
class Made:
    """A new segment and the parts in it, as they were read."""

    segment: Segment
    parts: list[PartFile]


class _Lines:
    """The text file of one table."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file
        self.longest = 0

    def write(self, lines: str) -> None:
        if len(lines) > _LONG_LINE:
            self.longest = max(self.longest, len(lines))
        self.file.write(lines)


def read_part(part: PartFile) -> bytes:
    """The bytes that were there when the part was listed: a live process may have added to it since."""
    with open(part.path, "rb") as file:
        return file.read(part.size)


def batches(parts: Iterable[PartFile]) -> Iterator[list[PartFile]]:
    """Parts in portions that fit one segment."""
    batch: list[PartFile] = []
    size = 0
    for part in parts:
        if batch and size + part.size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += part.size
    if batch:
        yield batch


def make(parts: Sequence[PartFile], runs: dict[str, dict[str, Any]], folder: Path, tmp: Path) -> Segment:
    """Parse parts and write their Parquet files into `folder`. The index is not written: nobody sees it yet."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=tmp, prefix="seal-")))
        files = {
            table: _Lines(stack.enter_context(open(work / f"{table}.csv", "w", encoding="ascii", buffering=1 << 20))) for table in TABLES
        }
        numbers = PlainWriter(stack.enter_context(open(work / "numbers.parquet", "wb", buffering=1 << 20)), _NUMBERS)
        sink = Sink(files["records"].write, files["blocks"].write, files["values"].write, files["facts"].write, numbers.add)
        entries = []
        for part in parts:
            summary = _parse(part, sink)
            entries.append(segments.part_entry(part.run, part.file, part.size, summary))
        numbers.close()
        numbers.file.flush()
        for lines in files.values():
            lines.file.flush()
        connection = scratch()
        stack.callback(connection.close)
        for table in TABLES:
            _to_parquet(connection, table, work, files[table].longest)
        return _finish(
            connection, work, folder, entries, list(sink.names), list(sink.shapes), {run: runs[run] for run in {p.run for p in parts}}
        )


def _parse(part: PartFile, sink: Sink) -> PartSummary:
    return PartParser(sink).parse(read_part(part))


def _to_parquet(connection: duckdb.DuckDBPyConnection, table: str, work: Path, longest: int) -> None:
    columns = "{" + ", ".join(f"'{c.split()[0]}': '{c.split()[1]}'" for c in _CSV[table].split(", ")) + "}"
    limits = f", max_line_size = {2 * longest}, buffer_size = {8 * longest}" if longest else ""
    source = (
        f"read_csv({literal(str(work / (table + '.csv')))}, columns = {columns}, header = false, auto_detect = false, "
        f"delim = ',', quote = '', escape = '', new_line = '\\n'{limits})"
    )
    query = f"SELECT {_SELECTED[table]} FROM {source}"
    if table == "records":
        narrow = "ord::UINTEGER AS ord, flags::UTINYINT AS flags, seq::UINTEGER AS seq"
        numbers = literal(str(work / "numbers.parquet"))
        query += f" UNION ALL BY NAME SELECT * REPLACE ({narrow}), {FLOAT}::UTINYINT AS type FROM {numbers}"
    _copy(connection, query, work / f"{table}.parquet")


def _copy(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    connection.execute(f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)")


def _finish(
    connection: duckdb.DuckDBPyConnection, work: Path, folder: Path, entries: list[dict[str, Any]], names: list[str],
    shapes: list[tuple[str, ...]], runs: dict[str, dict[str, Any]],
) -> Segment:  # fmt: skip
    """Count what is in the Parquet files of `work`, move them under their hashes into `folder`."""
    records, blocks, values = (literal(str(work / f"{table}.parquet")) for table in TABLES[:3])
    stats = connection.execute(
        f"SELECT part, name, shape, (flags & 2) // 2, type, count(*), count(raw) FROM {records} JOIN {blocks} USING (b) "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    value_stats = connection.execute(
        f"SELECT part, shape, type, count(*), count(raw) FROM {values} JOIN {blocks} USING (b) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    files: dict[str, list[Any]] = {}
    for table in TABLES:
        path = work / f"{table}.parquet"
        digest = segments.hash_of_file(path)
        files[table] = [f"{table}-{digest}.parquet", path.stat().st_size, digest]
        atomic.adopt(path, folder / files[table][0], durable=False)
    ident = segments.segment_id([(entry["run"], entry["file"], entry["size"]) for entry in entries])
    rows = sum(row[5] for row in stats)
    return Segment(ident, folder, entries, names, shapes, [list(r) for r in stats], [list(r) for r in value_stats], runs, files, rows)


def publish(segment: Segment, tmp: Path) -> Segment:
    """Give a made segment its index. If another reader published the same one first, theirs is returned and ours removed."""
    if segments.write_index(segment, tmp):
        return segment
    theirs = segments.read_index(segment.folder / (segment.ident + ".index"))
    if theirs is None:  # what stands there is damaged: replace it
        (segment.folder / (segment.ident + ".index")).unlink(missing_ok=True)
        segments.write_index(segment, tmp)
        return segment
    named = {entry[0] for entry in theirs.files.values()}
    for name, _, _ in segment.files.values():
        if name not in named:
            (segment.folder / name).unlink(missing_ok=True)
    return theirs


def to_merge(taken: Sequence[tuple[Segment, list[int]]]) -> list[tuple[Segment, list[int]]]:
    """The small segments that should become one: smallest first, as long as the next is not much larger than all before it."""
    ordered = sorted(taken, key=lambda item: (item[0].rows, item[0].ident))
    chosen: list[tuple[Segment, list[int]]] = []
    total = 0
    for segment, mine in ordered:
        if chosen and segment.rows > 2 * total + 1000:
            break
        chosen.append((segment, mine))
        total += segment.rows
    return chosen if len(chosen) >= MERGE_AT else []


def merge(chosen: Sequence[tuple[Segment, list[int]]], folder: Path, tmp: Path) -> Segment:
    """One segment out of several; parts that are gone are left behind. The index is not written."""
    names: dict[str, int] = {}
    shapes: dict[tuple[str, ...], int] = {}
    entries: list[dict[str, Any]] = []
    runs: dict[str, dict[str, Any]] = {}
    queries: dict[str, list[str]] = {table: [] for table in TABLES}
    offset = 0
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=tmp, prefix="merge-")))
        connection = scratch()
        stack.callback(connection.close)
        for segment, mine in chosen:
            _add_to_merge(queries, segment, mine, offset, names, shapes, len(entries))
            entries.extend(segment.parts[ix] for ix in mine)
            runs.update({run: facts for run, facts in segment.runs.items() if run in {segment.parts[ix]["run"] for ix in mine}})
            top = connection.execute(f"SELECT max(b) FROM {literal(str(segment.path('blocks')))}").fetchone()
            offset += 1 + (top[0] or 0 if top else 0)
        for table in TABLES:
            _copy(connection, " UNION ALL ".join(queries[table]), work / f"{table}.parquet")
        return _finish(connection, work, folder, entries, list(names), list(shapes), runs)


def _add_to_merge(
    queries: dict[str, list[str]], segment: Segment, mine: list[int], offset: int, names: dict[str, int],
    shapes: dict[tuple[str, ...], int], first_part: int,
) -> None:  # fmt: skip
    name_map = literal([names.setdefault(name, len(names)) for name in segment.names] or [0])
    shape_map = literal([shapes.setdefault(shape, len(shapes)) for shape in segment.shapes] or [0])
    place = {ix: first_part + k for k, ix in enumerate(mine)}
    part_map = literal([place.get(ix, -1) for ix in range(len(segment.parts))])
    paths = {table: literal(str(segment.path(table))) for table in TABLES}
    kept = "part IN (" + ", ".join(map(str, mine)) + ")"
    among = "" if len(mine) == len(segment.parts) else f" WHERE b IN (SELECT b FROM {paths['blocks']} WHERE {kept})"
    queries["records"].append(f"SELECT * REPLACE (b + {offset} AS b, {name_map}[name + 1] AS name) FROM {paths['records']}{among}")
    queries["values"].append(f"SELECT * REPLACE (b + {offset} AS b) FROM {paths['values']}{among}")
    queries["blocks"].append(
        f"SELECT * REPLACE (b + {offset} AS b, {part_map}[part + 1] AS part, {shape_map}[shape + 1] AS shape, "
        f"{name_map}[loop + 1] AS loop) FROM {paths['blocks']} WHERE {kept}"
    )
    queries["facts"].append(f"SELECT * REPLACE ({part_map}[part + 1] AS part) FROM {paths['facts']} WHERE {kept}")


def writable(folder: Path) -> bool:
    """Can segments be kept here?"""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
