"""The manifest of a checkpoint: one JSON file, written last. Where it exists, the checkpoint does (`docs/formats/checkpoints.md`).

Written once and never changed. Beside it may lie `.thinned` (its bytes were dropped on purpose, its digests stay) and `.pin`
(keep it whatever the policy says). Knows what a manifest says, not what the state in it means. Nothing here unpickles.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from rearview.errors import CheckpointError, Damaged, NoCheckpoint
from rearview.model import ProcessNumber, RunId
from rearview.store import atomic
from rearview.store.layout import Store
from rearview.store.packs.chunks import ChunkRef, Names, buffer_digest, parsed, refs_of

SCHEMA = "rearview.checkpoint/1"
PARTS = ("inside", "block", "iteration")
"""The boundaries at which a state is taken: inside a nested loop, at its end, at the end of the outer iteration."""
Loops = tuple[tuple[str, int], ...]
"""The loops of a path from the outermost, each with how many of its name there were before."""
SUFFIX = ".json"
THINNED = ".thinned"
PIN = ".pin"
_CHECKSUM = b"checksum"
_BETWEEN, _NOTHING = '","', '""'
_NAME = re.compile(r"(?P<process>[0-9a-z.]+)-a(?P<attempt>\d+)-(?P<number>\d+)-(?P<part>inside|block|iteration)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class ManifestName:
    """Which manifest: everything its path says."""

    run: RunId
    process: ProcessNumber
    attempt: int
    number: int
    part: str

    def __str__(self) -> str:
        return f"{self.process}-a{self.attempt}-{self.number:06d}-{self.part}"

    @classmethod
    def parse(cls, run: RunId, name: str) -> ManifestName | None:
        """The manifest of a file name, or None if it is not a manifest's."""
        match = _NAME.fullmatch(name.removesuffix(SUFFIX))
        if match is None or not name.endswith(SUFFIX):
            return None
        found = cls(run, ProcessNumber(match["process"]), int(match["attempt"]), int(match["number"]), match["part"])
        return found if str(found) + SUFFIX == name else None

    @property
    def order(self) -> tuple[int, int, int]:
        """Later in the life of one process is larger: attempt, decision, boundary."""
        return self.attempt, self.number, PARTS.index(self.part)


def named(run: RunId, text: str) -> ManifestName | None:
    """The manifest of a run that a text means; one of another run is written with that, `<run>/<name>`."""
    other, _, name = text.rpartition("/")
    return ManifestName.parse(RunId(other) if other else run, name + SUFFIX)


class Buffer(NamedTuple):
    """One piece of memory of the state."""

    nbytes: int
    digest: str
    """Over the digests of its chunks."""
    constant: bool
    where: str
    """A readable path for messages, or nothing."""
    chunks: tuple[str, ...]

    @classmethod
    def of(cls, nbytes: int, names: Names, constant: bool = False, where: str = "") -> Buffer:
        """A piece of memory of so many bytes that has these chunks."""
        return cls(nbytes, buffer_digest(names), constant, where, tuple(name.hex() for name in names))

    def refs(self) -> list[ChunkRef]:
        """Its chunks, for `packs.read_into`."""
        return refs_of(self.nbytes, parsed(self.chunks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one process kept at one boundary. Every field is plain JSON but `buffers`."""

    run: RunId
    process: ProcessNumber
    attempt: int
    number: int
    """The n-th decision of this process in this attempt; a block and its outer iteration are one decision."""
    part: str
    path: list[list[Any]]
    """From the main loop inwards: [loop name, occurrence, iteration that ended, its value or null]."""
    tree: str
    """The object that holds the state tree."""
    tree_bytes: int
    buffers: tuple[Buffer, ...]
    ending: str | None = None
    """How the nested block ended."""
    loops: list[Any] = field(default_factory=list)
    """For each level including the root: what was counted and entered there."""
    taken_at: int = 0
    """Microseconds since the writer began."""
    wall: float = 0.0
    roots: dict[str, Any] = field(default_factory=dict)
    """Text of the root -> [digest, bytes, kind]."""
    missing: list[list[str]] = field(default_factory=list)
    """What it does not hold: [where, type, why]."""
    unlike: list[list[str]] = field(default_factory=list)
    """What comes back otherwise than the program had it: [where, type, why]. A question about it is not answered from this state."""
    pickled: list[str] = field(default_factory=list)
    files: list[Any] = field(default_factory=list)
    """Output files: path, length, mode, and the object with the content or null."""
    function: str = ""
    """The one that `checkpointing` stands in."""
    stats: dict[str, Any] = field(default_factory=dict)
    rank: int = 0
    world: int = 1
    complete: bool = True
    more: dict[str, Any] = field(default_factory=dict)
    """Fields of the file that this rearview does not know."""

    @property
    def name(self) -> ManifestName:
        return ManifestName(self.run, self.process, self.attempt, self.number, self.part)

    @property
    def size_bytes(self) -> int:
        """Of the whole state, however much of it was new."""
        return sum(buffer.nbytes for buffer in self.buffers) + self.tree_bytes

    def chunks(self) -> Iterable[str]:
        """The names of all chunks, with repetitions."""
        return (chunk for buffer in self.buffers for chunk in buffer.chunks)


def folder_of(store: Store, run: RunId) -> Path:
    """Where the manifests of a run are."""
    return store.run(run) / "checkpoints"


def path_of(store: Store, name: ManifestName, suffix: str = SUFFIX) -> Path:
    """Where a manifest is, or its mark."""
    if name.part not in PARTS or not _NAME.fullmatch(str(name)):
        raise CheckpointError(f"{str(name)!r} is not the name of a checkpoint")
    return folder_of(store, name.run) / (str(name) + suffix)


@dataclass(slots=True)
class Rows:
    """The buffers of a manifest as they stand in its file. The second part of a checkpoint has the very same, as a rule."""

    _buffers: tuple[Buffer, ...] | None = None
    _text: str = ""

    def of(self, buffers: tuple[Buffer, ...]) -> str:
        """What is written of these; made once for those that come again."""
        if self._buffers is not buffers:
            self._buffers, self._text = buffers, f"[{','.join(map(_row, buffers))}]"
        return self._text


def _row(buffer: Buffer) -> str:
    nbytes, digest, constant, where, chunks = buffer
    names = f'"{_BETWEEN.join(chunks)}"' if chunks else ""
    return f'[{nbytes},"{digest}",{int(constant)},{json.dumps(where) if where else _NOTHING},[{names}]]'


def write(store: Store, manifest: Manifest, rows: Rows | None = None) -> Path:
    """Publish a manifest: from here on the checkpoint exists. Everything it refers to must be on the disk. `rows`: of the one before."""
    path = path_of(store, manifest.name)
    try:
        if not atomic.publish(path, encode(_facts(manifest), (rows or Rows()).of(manifest.buffers)), tmp=store.tmp, replace=False):
            raise CheckpointError(f"checkpoint {manifest.name} of run {manifest.run} exists already and was left as it is")
    except OSError as problem:
        words = f"checkpoint {manifest.name} of run {manifest.run} could not be written"
        raise CheckpointError(f"{words}: {problem.strerror or problem}") from problem
    return path


def _facts(manifest: Manifest) -> dict[str, Any]:
    facts = {name.name: getattr(manifest, name.name) for name in fields(manifest) if name.name not in ("buffers", "more")}
    return {"schema": SCHEMA, **facts, **manifest.more}


def encode(facts: dict[str, Any], rows: str | None = None) -> bytes:
    """JSON of facts, and of the rows of buffers where the facts are without. Its last key is the checksum: the CRC-32 of the text before
    it, in eight hexadecimal digits."""
    body = json.dumps(facts, allow_nan=False, separators=(",", ":"))[:-1].encode()
    body = body if rows is None else b'%s,"buffers":%s' % (body, rows.encode())
    return b'%s,"%s":"%08x"}\n' % (body, _CHECKSUM, zlib.crc32(body))


_TAIL = re.compile(rb',"checksum":"([0-9a-f]{8})"\}\n')
_TAIL_BYTES = len(b',"checksum":"00000000"}\n')


def is_sound(data: bytes) -> bool:
    """Whether the bytes of a manifest fit their checksum."""
    tail = _TAIL.fullmatch(data[-_TAIL_BYTES:])
    return tail is not None and int(tail[1], 16) == zlib.crc32(data[:-_TAIL_BYTES])


def decode(data: bytes) -> dict[str, Any]:
    """The facts of a manifest's bytes; `ValueError` if they are not what was written."""
    if not is_sound(data):
        raise ValueError("its checksum does not fit")
    facts = json.loads(data[:-_TAIL_BYTES] + b"}")
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        raise ValueError("it is of another format; a later rearview may read it")
    return facts


def read(store: Store, name: ManifestName) -> Manifest:
    """A manifest, verified. `NoCheckpoint` if there is none, `Damaged` if its bytes are not what was written."""
    path = path_of(store, name)
    try:
        return _manifest(name, decode(path.read_bytes()))
    except FileNotFoundError:
        raise NoCheckpoint(f"run {name.run} has no checkpoint {name}: `rearview checkpoints {name.run}` lists them") from None
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise Damaged(f"checkpoint {name} of run {name.run} is damaged: {problem}; restore {path.name} from a copy") from problem
    except OSError as problem:
        raise Damaged(f"checkpoint {name} of run {name.run} cannot be read: {problem.strerror}") from problem


def _manifest(name: ManifestName, facts: dict[str, Any]) -> Manifest:
    known = {one.name for one in fields(Manifest)} - {"more"}
    rows = facts["buffers"]
    buffers = tuple(Buffer(nbytes, digest, bool(constant), where, tuple(chunks)) for nbytes, digest, constant, where, chunks in rows)
    given = {key: value for key, value in facts.items() if key in known and key != "buffers"}
    more = {key: value for key, value in facts.items() if key not in known and key != "schema"}
    manifest = Manifest(**given, buffers=buffers, more=more)
    if manifest.name != name:
        raise ValueError(f"it describes {manifest.name} of run {manifest.run}")
    return manifest


def list_of(store: Store, run: RunId) -> list[ManifestName]:
    """Every manifest of a run, thinned ones too, in the order of their lives: by process, attempt, decision, boundary."""
    try:
        names = [entry.name for entry in os.scandir(folder_of(store, run))]
    except FileNotFoundError:
        return []
    found = [name for text in names if (name := ManifestName.parse(run, text)) is not None]
    return sorted(found, key=lambda name: (name.process, *name.order))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The manifests of one boundary over all ranks."""

    attempt: int
    number: int
    part: str
    members: tuple[Manifest, ...]
    """By rank."""
    whole: bool
    """Every rank's part is there. Otherwise it is no checkpoint."""
    thinned: bool
    """The bytes of a part were dropped: it proves, and restores nothing."""

    @property
    def order(self) -> tuple[int, int, int]:
        return self.attempt, self.number, PARTS.index(self.part)


def grouped(store: Store, run: RunId, damaged: list[Damaged] | None = None) -> list[Checkpoint]:
    """The checkpoints of a run, oldest first, ranks together; a process below a rank (`0.1`) has its own.

    A damaged manifest is left out and put into `damaged`: its checkpoint then lacks a part.
    """
    groups: dict[tuple[int, int, int, str], list[Manifest]] = {}
    thinned = marked(store, run, THINNED)
    for name in list_of(store, run):
        try:
            manifest = read(store, name)
        except Damaged as problem:
            if damaged is not None:
                damaged.append(problem)
            continue
        except NoCheckpoint:
            continue  # removed while we looked
        alone = "" if name.process.isdigit() else name.process
        groups.setdefault((*name.order, alone), []).append(manifest)
    return [_checkpoint(sorted(found, key=lambda one: one.rank), thinned) for _, found in sorted(groups.items())]


def _checkpoint(members: list[Manifest], thinned: set[str]) -> Checkpoint:
    first = members[0]
    world = first.world if first.process.isdigit() else 1
    whole = {one.rank for one in members} == set(range(world)) if world > 1 else True
    dropped = any(str(one.name) in thinned for one in members)
    return Checkpoint(first.attempt, first.number, first.part, tuple(members), whole, dropped)


# Marks


def marked(store: Store, run: RunId, mark: str) -> set[str]:
    """The manifests of a run (as text of their names) that have a mark: `THINNED` or `PIN`."""
    try:
        names = [entry.name for entry in os.scandir(folder_of(store, run))]
    except FileNotFoundError:
        return set()
    return {name.removesuffix(mark) for name in names if name.endswith(mark)}


def has(store: Store, name: ManifestName, mark: str) -> bool:
    """Whether a manifest has a mark."""
    return path_of(store, name, mark).exists()


def put_mark(store: Store, name: ManifestName, mark: str, **facts: object) -> None:
    """Mark a manifest: `THINNED` with `when` and `why`, or `PIN`. One that is there stays."""
    if not path_of(store, name).exists():
        raise NoCheckpoint(f"run {name.run} has no checkpoint {name}: `rearview checkpoints {name.run}` lists them")
    atomic.publish(path_of(store, name, mark), json.dumps(facts).encode() + b"\n", tmp=store.tmp, replace=False)


def remove_pin(store: Store, name: ManifestName) -> bool:
    """Take a pin away; False if there was none."""
    try:
        path_of(store, name, PIN).unlink()
    except FileNotFoundError:
        return False
    atomic.sync_folder(folder_of(store, name.run))
    return True


def read_mark(store: Store, name: ManifestName, mark: str) -> dict[str, Any]:
    """What a mark says; empty for one that cannot be read: that it is there is what counts."""
    try:
        facts = json.loads(path_of(store, name, mark).read_bytes())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def telling(every: Iterable[Loops]) -> Callable[[Loops], frozenset[int]]:
    """At which depths a path has to say which loop of a name is meant: where these paths have several of one name."""
    known: dict[object, set[int]] = {}
    for path in every:
        for depth, (name, nth) in enumerate(path):
            known.setdefault((*path[:depth], name), set()).add(nth)
    return lambda path: frozenset(depth for depth, (name, _) in enumerate(path) if known[(*path[:depth], name)] != {0})
