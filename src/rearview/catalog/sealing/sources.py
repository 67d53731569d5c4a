"""The store as it is now: which segments answer for which parts, with everything sealed that can be.

Lists, seals what is finished, parses what is still being written, and puts it all behind one list of sources. Light when
everything is sealed: then it opens index files only, no journal and no DuckDB.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.catalog.runs import SUPERVISOR, listed_facts
from rearview.catalog.sealing import segments
from rearview.catalog.sealing.listing import Coverage, PartFile, cover, list_parts, list_replay, replay_of
from rearview.catalog.sealing.parse import PartParser, null_sink
from rearview.catalog.sealing.segments import Segment
from rearview.catalog.status import Alive
from rearview.errors import Damaged
from rearview.model import ProcessIdentity, RunId
from rearview.store import replays
from rearview.store.journal import PartName
from rearview.store.layout import Store
from rearview.store.replays import Replay
from rearview.store.runs import read_run

_UNUSED_AFTER_S = 600.0
"""A segment that answers for nothing is removed when it is older than this; a younger one may be news to us."""
_PARSE_UP_TO_BYTES = 512 << 10
_PARSE_UP_TO_PARTS = 64
"""A list of runs parses so much by itself; beyond it, it seals, so that the next list is quick."""
_UNKNOWN = "the name, project, script and start of the run are unknown; restore the file from a copy"


@dataclass(slots=True)
class Sources:
    """Everything a query needs to know about what is on disk."""

    parts: dict[RunId, list[PartFile]]
    taken: list[tuple[Segment, list[int]]]
    """Segments in use, those of this reader alone included, with the parts each answers for."""
    entries: dict[tuple[str, str], dict[str, Any]]
    """(run, part file) to the part's summary."""
    runs: dict[RunId, dict[str, Any]]
    """`run.json` of every run, as far as lists need it."""
    damage: list[str] = field(default_factory=list)
    replays: list[Replay] = field(default_factory=list)
    """All that are published, oldest first; lists do not look them up."""
    replayed: dict[RunId, list[PartFile]] = field(default_factory=dict)
    """The parts of those."""

    def of_run(self, run: RunId) -> list[tuple[PartName, dict[str, Any]]]:
        """The parts that a run itself wrote, with their summaries, in order."""
        found = []
        for part in self.parts.get(run, []):
            entry = self.entries.get((run, str(part.name)))
            if entry is not None:
                found.append((part.name, entry))
        return found


class Reader:
    """Brings `Sources` up to date. Keeps what it has verified, and the folder for what only it may see."""

    def __init__(self, store: Store, alive: Callable[[], Alive]) -> None:
        self.store = store
        self._alive = alive
        self._verified: set[str] = set()
        self._private = tempfile.TemporaryDirectory(prefix="rearview-", ignore_cleanup_errors=True)
        self.private = Path(self._private.name)
        self._mine: dict[str, Segment] = {}
        self._run_facts: dict[RunId, dict[str, Any]] = {}

    def close(self) -> None:
        self._private.cleanup()

    # What lists need

    def summaries(self, *, seal: bool = True) -> Sources:
        """Summaries of every part; segments that hold no rows for a few open parts. Never reads a Parquet file."""
        parts = list_parts(self.store)
        known, _ = segments.list_segments(self.store.segments)
        coverage = cover(_flat(parts), [*known, *self._mine.values()])
        if seal and (len(coverage.open) > _PARSE_UP_TO_PARTS or sum(part.size for part in coverage.open) > _PARSE_UP_TO_BYTES):
            return self.refresh()
        entries = _entries(coverage.taken)
        for part in coverage.open:
            entry = self._parse_only(part)
            if entry is not None:
                entries[part.run, str(part.name)] = entry
        return self._sources(parts, coverage.taken, entries)

    def _parse_only(self, part: PartFile) -> dict[str, Any] | None:
        from rearview.catalog.sealing.seal import read_part

        try:
            summary = PartParser(null_sink()).parse(read_part(part))
        except FileNotFoundError:
            return None
        return segments.part_entry(part.run, part.file, part.size, summary)

    # What queries need

    def refresh(self) -> Sources:
        """Everything behind segments: seal what is finished, merge what is small, parse what is being written."""
        with_replays: list[RunId] = []
        parts = list_parts(self.store, with_replays)
        damage: list[str] = []
        published = [replay for run in with_replays if run in parts for replay in replays.list_of(self.store, run, damage)]
        replayed: dict[RunId, list[PartFile]] = {}
        for replay in published:
            replayed.setdefault(replay.run, []).extend(list_replay(self.store, replay.run, replay.id))
        coverage = self._verified_cover([*_flat(parts), *_flat(replayed)])
        if coverage.open:
            coverage = self._make(coverage)
        elif self._keeps():
            coverage = self._tidy(coverage)
        found = self._sources(parts, coverage.taken, _entries(coverage.taken))
        found.replays, found.replayed = sorted(published, key=replays.order), replayed
        found.damage += damage
        return found

    def _keeps(self) -> bool:
        from rearview.catalog.sealing.seal import writable

        return writable(self.store.segments) and writable(self.store.tmp)

    def _verified_cover(self, parts: list[PartFile]) -> Coverage:
        known, _ = segments.list_segments(self.store.segments)
        while True:
            coverage = cover(parts, [*known, *self._mine.values()])
            broken = [s for s, _ in coverage.taken if s.ident not in self._verified and not segments.whole(s)]
            if not broken:
                self._verified.update(segment.ident for segment, _ in coverage.taken)
                return coverage
            for segment in broken:
                known.remove(segment)
                _remove(segment, known)

    def _make(self, coverage: Coverage) -> Coverage:
        from rearview.catalog.sealing import seal

        taken = list(coverage.taken)
        finished, going = self._sort_out([part for part in coverage.open if not part.replay])
        self._forget_all_but(coverage.taken)
        keeps = self._keeps()
        replayed = [part for part in coverage.open if part.replay]  # apart: forgetting one rewrites no segment of a run
        for batch in (*seal.batches(finished), *seal.batches(replayed)):
            made = self._seal(batch, keep=keeps)
            taken += [(segment, list(range(len(segment.parts)))) for segment in made]
        for batch in seal.batches(going):
            taken += [(segment, list(range(len(segment.parts)))) for segment in self._seal(batch, keep=False)]
        return self._tidy(Coverage(taken, [])) if keeps else Coverage(taken, [])

    def _forget_all_but(self, taken: Sequence[tuple[Segment, list[int]]]) -> None:
        """Our own segments of parts that have grown since are of no use any more."""
        used = {segment.ident for segment, _ in taken}
        for ident in [ident for ident in self._mine if ident not in used]:
            _remove(self._mine.pop(ident), list(self._mine.values()))

    def _seal(self, batch: list[PartFile], *, keep: bool) -> list[Segment]:
        """Segments of a batch: one that everybody may use, and one of our own for parts with damage in them."""
        from rearview.catalog.sealing import seal

        batch = [part for part in batch if part.path.exists()]
        if not batch:
            return []
        runs = {str(part.run): self._facts(part.run) for part in batch}
        if keep:
            try:
                made = seal.make(batch, runs, self.store.segments, self.store.tmp)
            except OSError:
                keep = False  # a full or failing disk: answer from our own folder
        if not keep:
            made = seal.make(batch, runs, self.private, self.private)
            self._mine[made.ident] = made
        elif any(entry["damage"] for entry in made.parts):
            # not kept: somebody may restore the file from a copy of the same size
            return self._apart(batch, made)
        else:
            made = seal.publish(made, self.store.tmp)
        self._verified.add(made.ident)
        return [made]

    def _apart(self, batch: list[PartFile], made: Segment) -> list[Segment]:
        _remove(made, segments.list_segments(self.store.segments)[0])
        hurt = {(entry["run"], entry["file"]) for entry in made.parts if entry["damage"]}
        good = [part for part in batch if (part.run, part.file) not in hurt]
        bad = [part for part in batch if (part.run, part.file) in hurt]
        return [*self._seal(good, keep=True), *self._seal(bad, keep=False)]

    def _tidy(self, coverage: Coverage) -> Coverage:
        """Merge small segments and remove those that answer for nothing."""
        from rearview.catalog.sealing import seal

        for of_replays in (False, True):
            shared = [(s, m) for s, m in coverage.taken if s.folder == self.store.segments and _of_replays(s) == of_replays]
            chosen = seal.to_merge(shared)
            chosen += [(s, mine) for s, mine in shared if (s, mine) not in chosen and self._holds_removed(s, mine)]
            if not chosen:
                continue
            try:
                merged = seal.publish(seal.merge(chosen, self.store.segments, self.store.tmp), self.store.tmp)
            except OSError:
                return coverage
            self._verified.add(merged.ident)
            gone = {segment.ident for segment, _ in chosen} - {merged.ident}
            rest = [(s, mine) for s, mine in coverage.taken if s.ident not in gone and s.ident != merged.ident]
            coverage = Coverage([*rest, (merged, list(range(len(merged.parts))))], coverage.open)
            for segment, _ in chosen:
                if segment.ident in gone:
                    _remove(segment, [s for s, _ in coverage.taken])
        self._remove_unused({segment.ident for segment, _ in coverage.taken})
        return coverage

    def _holds_removed(self, segment: Segment, mine: Sequence[int]) -> bool:
        """Does a segment still hold values of a run that was removed, or of a replay that was forgotten? They must go too."""
        rest = [segment.parts[ix] for ix in set(range(len(segment.parts))) - set(mine)]
        places = {os.path.join(self.store.run(RunId(part["run"])), *_folder(part["file"])) for part in rest}
        return any(not os.path.exists(place) for place in places)

    def _remove_unused(self, used: set[str]) -> None:
        known, _ = segments.list_segments(self.store.segments) if len(used) < _count_indexes(self.store.segments) else ([], [])
        for segment in known:
            if segment.ident in used:
                continue
            if self._holds_removed(segment, ()) or _age_s(self.store.segments / (segment.ident + ".index")) > _UNUSED_AFTER_S:
                _remove(segment, [other for other in known if other is not segment])

    def _sort_out(self, parts: Sequence[PartFile]) -> tuple[list[PartFile], list[PartFile]]:
        """Parts that nothing will be added to, and parts that a live process may still write."""
        alive = self._alive()
        newest: dict[tuple[str, str, int], int] = {}
        for part in parts:
            writer = (part.run, part.name.writer, part.name.attempt)
            newest[writer] = max(newest.get(writer, 0), part.name.part)
        finished: list[PartFile] = []
        going: list[PartFile] = []
        for part in parts:
            last = newest[part.run, part.name.writer, part.name.attempt] == part.name.part
            (going if last and _being_written(part, alive) else finished).append(part)
        return finished, going

    # Facts of runs

    def _facts(self, run: RunId) -> dict[str, Any]:
        if run not in self._run_facts:
            path = self.store.run(run) / "run.json"
            try:
                facts = read_run(self.store, run)
                size = path.stat().st_size
            except (Damaged, OSError):
                return {"damaged": True}
            self._run_facts[run] = {**listed_facts(facts), "size_bytes": size}
        return self._run_facts[run]

    def _sources(
        self, parts: dict[RunId, list[PartFile]], taken: list[tuple[Segment, list[int]]], entries: dict[tuple[str, str], dict[str, Any]]
    ) -> Sources:
        cached: dict[str, dict[str, Any]] = {}
        for segment, _ in taken:
            cached.update({run: facts for run, facts in segment.runs.items() if not facts.get("damaged")})
        runs = {run: cached.get(run) or self._facts(run) for run in parts}
        damage = [
            f"runs/{run}/run.json is damaged or cannot be read: {_UNKNOWN}" for run, facts in sorted(runs.items()) if facts.get("damaged")
        ]
        for (run, file), entry in sorted(entries.items()):
            damage += [f"runs/{run}/{file}: {sentence}" for sentence in entry["damage"]]
            if entry["lost"]:
                damage.append(f"runs/{run}/{file}: {entry['lost']} records lost with the damaged bytes")
        return Sources(parts, taken, entries, runs, damage)


def _flat(parts: dict[RunId, list[PartFile]]) -> list[PartFile]:
    return [part for theirs in parts.values() for part in theirs]


def _entries(taken: Iterable[tuple[Segment, list[int]]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(s.parts[ix]["run"], s.parts[ix]["file"]): s.parts[ix] for s, mine in taken for ix in mine}


def _folder(file: str) -> tuple[str, ...]:
    """The folder of a replay in that of its run; nothing for a part of the run's own."""
    replay = replay_of(file)
    return (replays.FOLDER, replay) if replay else ()


def _of_replays(segment: Segment) -> bool:
    return bool(segment.parts) and bool(replay_of(segment.parts[0]["file"]))


def _being_written(part: PartFile, alive: Alive) -> bool:
    """May a live process still add to this part? Cheap: the end and the first frame are looked at, nothing else."""
    from rearview.store import frames

    close = frames.HEADER.size + 1
    with open(part.path, "rb") as file:
        head = file.read(1 << 16)
        file.seek(max(0, part.size - close))
        tail = file.read(close)
    if len(tail) == close and tail[-1] == frames.CLOSE and frames.TAIL.unpack_from(tail, 4)[0] == 1:
        return False
    try:
        _, body = next(frames.walk(head, frames.Reading()))
        fact = frames.read_fact(body)
        process = fact["process"]
        identity = ProcessIdentity(str(process["host"]), str(process["boot_id"]), int(process["pid"]), float(process["started"]))
    except (StopIteration, Damaged, KeyError, TypeError, ValueError):
        return part.name.writer == SUPERVISOR or _age_s(part.path) < 90
    return alive(identity, part.path.stat().st_mtime)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _count_indexes(folder: Path) -> int:
    return sum(entry.name.endswith(".index") for entry in os.scandir(folder))


def _remove(segment: Segment, still_used: Sequence[Segment]) -> None:
    try:
        segments.remove(segment, still_used)
    except OSError:
        pass
