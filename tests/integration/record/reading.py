"""Reads journals frame by frame, without the catalog: a second opinion on what recording wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.model import RunId
from rearview.store import frames, layout, runs
from rearview.store.encoding import decode
from rearview.store.journal import parts_of

Element = tuple[str, int, int]
"""Loop name, occurrence, iteration."""


@dataclass
class Rec:
    """One record with its identity."""

    process: str
    path: tuple[Element, ...]
    name: str
    ordinal: int
    value: Any
    flags: int
    called: tuple[Any, ...]
    """What each iteration of the path is called; None where that is not known."""

    @property
    def identity(self) -> tuple[str, tuple[Element, ...], str, int]:
        return (self.process, self.path, self.name, self.ordinal)

    @property
    def at(self) -> str:
        """`epoch1/step+0`: a plus for each earlier occurrence."""
        return "/".join(f"{name}{'+' * occurrence}{iteration}" for name, occurrence, iteration in self.path)

    @property
    def words(self) -> str:
        """`epoch=1/step#0`: as people call it, by number where an iteration has no name."""
        pairs = zip(self.path, self.called, strict=True)
        return "/".join(f"{name}#{iteration}" if called is None else f"{name}={called}" for (name, _, iteration), called in pairs)


@dataclass
class Read:
    """A run as its journals tell it."""

    run: str
    json: dict[str, Any]
    records: list[Rec] = field(default_factory=list)
    facts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    torn: int = 0
    closed: dict[str, bool] = field(default_factory=dict)
    """For each writer, whether its last part was closed."""
    leaves: list[tuple[str, int, str]] = field(default_factory=list)
    """(loop name, iterations begun, ending)."""

    def values(self, name: str) -> list[Any]:
        return [rec.value for rec in self.records if rec.name == name]

    def at(self, name: str) -> list[str]:
        return [rec.at for rec in self.records if rec.name == name]

    def fact(self, kind: str) -> list[dict[str, Any]]:
        return [fact for _, fact in self.facts if fact["fact"] == kind]

    @property
    def processes(self) -> set[str]:
        return {rec.process for rec in self.records}

    @property
    def version(self) -> str:
        """The version in force at the end."""
        amended = self.fact("version")
        return str(amended[-1]["version"] if amended else self.json["version"])

    @property
    def how(self) -> str | None:
        """What the main process said about its end."""
        ends = [fact for writer, fact in self.facts if fact["fact"] == "end" and "." not in writer]
        return str(ends[-1]["how"]) if ends else None


class _Part:
    """What one part has defined so far: a part must be readable alone."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.blocks: dict[int, tuple[int, int, int, int, bool, int, int]] = {}
        self.called: dict[tuple[int, int], Any] = {}

    def path(self, block: int, iteration: int) -> tuple[tuple[Element, ...], tuple[Any, ...]]:
        elements: list[Element] = []
        called: list[Any] = []
        while block != frames.ROOT_BLOCK:
            parent, parent_iteration, name, occurrence, affine, first, step = self.blocks[block]
            elements.insert(0, (self.names[name], occurrence, iteration))
            called.insert(0, first + iteration * step if affine else self.called.get((block, iteration)))
            block, iteration = parent, parent_iteration
        return tuple(elements), tuple(called)


def read_part(data: bytes, process: str, into: Read) -> frames.Reading:
    """Read one part; what refers to something lost goes to `damage`."""
    part, reading = _Part(), frames.Reading()
    late: list[tuple[Rec, int, int]] = []
    for _, body in frames.walk(data, reading):
        kind = body[0]
        try:
            if kind == frames.NAME:
                part.names[frames.NAME_HEAD.unpack_from(body)[1]] = body[frames.NAME_HEAD.size :].decode("utf-8", "surrogatepass")
            elif kind == frames.BLOCK:
                _, block, *rest = frames.BLOCK_HEAD.unpack(body)
                part.blocks[block] = tuple(rest)
            elif kind == frames.VALUE:
                _, block, iteration = frames.VALUE_HEAD.unpack_from(body)
                key, value = (block, iteration), decode(body[frames.VALUE_HEAD.size :])
                assert part.called.get(key, value) == value, f"an iteration has two names: {part.called[key]!r} and {value!r}"
                part.called[key] = value
            elif kind == frames.LEAVE:
                _, block, begun, ending, _ = frames.LEAVE_HEAD.unpack(body)
                into.leaves.append((part.names[part.blocks[block][2]], begun, frames.ENDINGS[ending]))
            elif kind == frames.FACT:
                into.facts.append((process, frames.read_fact(body)))
            elif kind == frames.RECORD:
                _, flags, name, block, iteration, ordinal, _ = frames.RECORD_HEAD.unpack_from(body)
                path, _ = part.path(block, iteration)
                value = decode(body[frames.RECORD_HEAD.size :])
                rec = Rec(process, path, part.names[name], ordinal, value, flags, ())
                into.records.append(rec)
                late.append((rec, block, iteration))
        except KeyError as lost:
            into.damage.append(f"a frame of kind {kind} refers to {lost}, which is lost")
    for rec, block, iteration in late:  # a name may come behind the first record of its iteration
        rec.called = part.path(block, iteration)[1]
    into.damage += reading.damage
    into.torn += reading.torn_bytes
    return reading


def read(store: layout.Store, run: str) -> Read:
    """One run."""
    found = Read(run, runs.read_run(store, RunId(run)))
    for name, path in parts_of(store.run(RunId(run))):
        found.closed[name.writer] = read_part(path.read_bytes(), name.writer, found).closed
    return found


def read_all(project: Path) -> list[Read]:
    """Every run of a project, oldest first."""
    store = layout.open_store(project / layout.FOLDER)
    found = [read(store, run) for run in runs.list_runs(store)]
    return sorted(found, key=lambda one: (str(one.json["tstamp"]), int(one.json["place"])))


def the_run(project: Path) -> Read:
    """The only run of a project, whole."""
    (found,) = read_all(project)
    assert not found.damage, found.damage
    identities = [rec.identity for rec in found.records]
    assert len(set(identities)) == len(identities), "two records have one identity"
    return found
