"""What was replayed of a run, as it lies beside it: journal parts with the values, `replay.json` last (`docs/formats/replays.md`).

A folder `runs/<run>/replays/<id>/` without `replay.json` is nothing: the remains of a publication that was killed. Published replays are
never changed, only removed. Knows what a replay says of itself; how values are compared and judged is decided elsewhere.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from rearview.errors import Damaged, NoSuchRun, NotFound, StoreError
from rearview.model import RunId
from rearview.store import atomic
from rearview.store.layout import Store

SCHEMA = "rearview.replay/1"
FOLDER = "replays"
FILE = "replay.json"
VERDICTS = ("identical", "close", "volatile", "unverified", "divergent")
PLACED = "placed"
"""In `Replay.more`: where the statements stand in a version that was not today's, a site each (`docs/formats/replays.md`)."""
_CHECKSUM = "checksum"
_TUPLES = ("names", "probes", "why", "volatile")
_ID = re.compile(r"[a-z][0-9a-z]{3,40}", re.ASCII)

Covers = list[list[Any]]
"""["prefix"], ["iterations", main block, first, last] (both included), ["end"]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One published replay: which question, what it covers, and how far its values can be trusted."""

    id: str
    run: RunId
    created: str
    """UTC, ISO."""
    names: tuple[str, ...]
    """The virtual names whose values it holds."""
    verdict: str
    covers: Covers
    probe_digest: str = ""
    """Of the statements, to recognise the same question."""
    probes: tuple[dict[str, Any], ...] = ()
    version: str | None = None
    """The probed version that ran."""
    why: tuple[str, ...] = ()
    compared: dict[str, int] = field(default_factory=dict)
    """How many `records` and `states`."""
    verdicts: dict[str, str] = field(default_factory=dict)
    """Name to its verdict, where that is not the verdict of the whole."""
    volatile: tuple[str, ...] = ()
    """What was found to differ from run to run without meaning anything."""
    first_difference: dict[str, Any] | None = None
    rung: str = ""
    """`resume`, `pseudoresume` or `start`."""
    scan: str = ""
    seconds: float = 0.0
    statement: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    """Fields of the file that this rearview does not know."""

    def verdict_of(self, name: str) -> str:
        """How far the values of one name can be trusted."""
        return self.verdicts.get(name, self.verdict)

    @property
    def placement(self) -> str:
        """Where the statements stand in the version that ran, and how certain that is: `train.py:14, certain`."""
        return "; ".join(map(_site_in_words, self.more.get(PLACED) or ()))

    @property
    def when(self) -> dt.datetime | None:
        return moment(self.created)


def moment(text: str) -> dt.datetime | None:
    """A time as these files have it; None if it is none."""
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None


def _site_in_words(site: dict[str, Any]) -> str:
    place = f"{site.get('file')}:{(site.get('lines') or [''])[0]}, {'certain' if site.get('certain') else 'uncertain'}"
    helpers = ", ".join(site.get("helpers") or ())
    return f"{place}, with today's {helpers}" if helpers else place


def new_id() -> str:
    """An id that no other replay has."""
    return "p" + os.urandom(8).hex()


def folder_of(store: Store, run: RunId, ident: str = "") -> Path:
    """Where the replays of a run are, or one of them. Only a well-formed id has a place."""
    if ident and not _ID.fullmatch(ident):
        raise StoreError(f"{ident!r} is not the id of a replay")
    return store.run(run) / FOLDER / ident if ident else store.run(run) / FOLDER


def begin(store: Store, run: RunId, ident: str) -> Path:
    """The folder for the journal parts of a replay that is about to be published."""
    if not (store.run(run) / "run.json").exists():
        raise NoSuchRun(f"there is no run {run}: it was removed, and so its replay cannot be kept")
    folder = folder_of(store, run, ident)
    folder.mkdir(parents=True)
    atomic.sync_folder(folder.parent)
    return folder


def publish(store: Store, replay: Replay) -> None:
    """From here on the replay is there. Its parts must be closed and its objects in the store."""
    if replay.verdict not in VERDICTS:
        raise StoreError(f"{replay.verdict!r} is no verdict")
    facts = {"schema": SCHEMA, **asdict(replay)}
    facts.update(facts.pop("more"))
    path = folder_of(store, replay.run, replay.id) / FILE
    if not atomic.publish(path, encode(facts), tmp=store.tmp, replace=False):
        raise StoreError(f"replay {replay.id} of run {replay.run} exists already and was left as it is")


def encode(facts: dict[str, Any]) -> bytes:
    """JSON whose last key is the checksum: the CRC-32 of the text without it, as in `run.json`."""
    known = json.loads(_text(facts))  # as a reader will see it
    return _text({**known, _CHECKSUM: _checksum(known)}).encode() + b"\n"


def decode(data: bytes) -> dict[str, Any] | None:
    """What `encode` wrote, without its checksum; None if that does not fit. ValueError and the like if it is no such object at all."""
    facts: dict[str, Any] = json.loads(data)
    return facts if facts.pop(_CHECKSUM) == _checksum(facts) else None


def _text(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=1, allow_nan=False)


def _checksum(facts: dict[str, Any]) -> str:
    return f"{zlib.crc32(_text(facts).encode()):08x}"


def read(store: Store, run: RunId, ident: str) -> Replay:
    """One replay, verified. `NotFound` if there is none, `Damaged` if its bytes are not what was written."""
    path = folder_of(store, run, ident) / FILE
    words = f"replay {ident} of run {run} is damaged"
    try:
        facts = decode(path.read_bytes())
        if facts is None:
            raise Damaged(f"{words}: its checksum does not fit; forget it and replay again, or restore {FILE} from a copy")
        return _replay(run, ident, facts)
    except FileNotFoundError:
        raise NotFound(f"run {run} has no replay {ident}: `rearview replays {run}` lists them") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise Damaged(f"{words}: {problem}; forget it and replay again, or restore {FILE} from a copy") from problem


def _replay(run: RunId, ident: str, facts: dict[str, Any]) -> Replay:
    if facts.pop("schema") != SCHEMA:
        raise ValueError("it is of another format; a later rearview may read it")
    if (facts["run"], facts["id"]) != (run, ident) or facts["verdict"] not in VERDICTS:
        raise ValueError("it describes something else")
    known = {one.name for one in fields(Replay)} - {"more"}
    given: dict[str, Any] = {key: value for key, value in facts.items() if key in known}
    given.update({key: tuple(given[key]) for key in _TUPLES if key in given})
    return Replay(**given, more={key: value for key, value in facts.items() if key not in known})


def ids_of(store: Store, run: RunId) -> list[str]:
    """The replays of a run that were published, in no particular order."""
    return [folder.name for folder in _folders(store, run) if _ID.fullmatch(folder.name) and (folder / FILE).exists()]


def list_of(store: Store, run: RunId, damage: list[str] | None = None) -> list[Replay]:
    """The replays of a run, oldest first; a damaged one is left out and told in `damage`."""
    found = []
    for ident in ids_of(store, run):
        try:
            found.append(read(store, run, ident))
        except NotFound:
            continue  # forgotten while we looked
        except Damaged as problem:
            if damage is not None:
                damage.append(f"runs/{run}/{FOLDER}/{ident}/{FILE}: {problem}")
    return sorted(found, key=order)


def order(replay: Replay) -> tuple[str, str]:
    """Newer is larger."""
    return replay.created, replay.id


def remove(store: Store, run: RunId, ident: str) -> None:
    """Take a replay away: first that it exists, then its bytes."""
    folder = folder_of(store, run, ident)
    (folder / FILE).unlink(missing_ok=True)
    if folder.is_dir():
        atomic.sync_folder(folder)
    shutil.rmtree(folder, ignore_errors=True)


def forget(store: Store, run: RunId, which: str) -> list[Replay]:
    """Remove the replay of that id, or all that hold that name; those that were removed."""
    gone = [one for one in list_of(store, run) if which in (one.id, *one.names)]
    damaged = [which] if not gone and which in ids_of(store, run) else []
    for ident in (*(one.id for one in gone), *damaged):
        remove(store, run, ident)
    return gone


# What is covered


def coverage(store: Store, run: RunId, probe_digest: str, *, divergent: bool = False) -> Covers:
    """What the published replays of one question cover together. Those that diverged answer nothing, unless asked for."""
    found = [one for one in list_of(store, run) if one.probe_digest == probe_digest and (divergent or one.verdict != "divergent")]
    return merged([piece for one in found for piece in one.covers])


def merged(covers: Iterable[Sequence[Any]]) -> Covers:
    """The same coverage without overlaps, in program order.

    >>> merged([["end"], ["iterations", 0, 3, 5], ["iterations", 0, 0, 2]])
    [['iterations', 0, 0, 5], ['end']]
    """
    listed = [list(piece) for piece in covers]
    ranges: Covers = []
    for _, block, first, last in sorted(piece for piece in listed if piece[0] == "iterations"):
        if ranges and ranges[-1][1] == block and first <= ranges[-1][3] + 1:
            ranges[-1][3] = max(ranges[-1][3], last)
        else:
            ranges.append(["iterations", block, first, last])
    return [*([["prefix"]] if ["prefix"] in listed else []), *ranges, *([["end"]] if ["end"] in listed else [])]


def lacking(wanted: Iterable[Sequence[Any]], have: Iterable[Sequence[Any]]) -> Covers:
    """What of a coverage another one does not have.

    >>> lacking([["iterations", 0, 0, 9]], [["iterations", 0, 3, 5]])
    [['iterations', 0, 0, 2], ['iterations', 0, 6, 9]]
    """
    there = merged(have)
    left: Covers = []
    for piece in merged(wanted):
        if piece[0] != "iterations":
            left += [piece] if piece not in there else []
            continue
        _, block, first, last = piece
        for _, _, low, high in (one for one in there if one[0] == "iterations" and one[1] == block):
            if high < first or low > last:
                continue
            if low > first:
                left.append(["iterations", block, first, low - 1])
            first = high + 1
        if first <= last:
            left.append(["iterations", block, first, last])
    return left


# What was not finished


def _folders(store: Store, run: RunId) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder_of(store, run)) if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def folders(store: Store) -> list[Path]:
    """The folder of every replay of every run, finished or not."""
    try:
        names = sorted(entry.name for entry in os.scandir(store.runs) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    return [folder for name in names for folder in sorted(_folders(store, RunId(name)))]


def is_unfinished(folder: Path) -> bool:
    """Whether a folder of replays never got its `replay.json`."""
    return folder.parent.name == FOLDER and folder.is_dir() and not (folder / FILE).exists()


def unfinished(store: Store, grace_s: float) -> dict[Path, int]:
    """Folders of publications that were killed, untouched for a while: path to bytes."""
    found = {}
    for folder in filter(is_unfinished, folders(store)):
        files = [entry.stat(follow_symlinks=False) for entry in os.scandir(folder)]
        if time.time() - max(facts.st_mtime for facts in (folder.stat(), *files)) > grace_s:
            found[folder] = sum(facts.st_blocks * 512 for facts in files)
    return found
