"""Is the store whole? Looks at every kind of file, names what is wrong, and repairs what can be repaired.

Truth is never deleted: a damaged journal is set aside under another name and its good frames are written as a new
part beside it. Caches and leftovers are removed; they are made again when needed. Nothing here unpickles, runs git or
parses SQL.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rearview.errors import CheckpointError, Damaged, NoSuchRun, NotFound, StoreError
from rearview.model import ArraySummary, RunId
from rearview.store import atomic, frames, gc, objects, references, replays
from rearview.store.check_checkpoints import check_checkpoints, repair_checkpoints
from rearview.store.encoding import decode
from rearview.store.findings import Finding, damage, note
from rearview.store.journal import SUFFIX, PartName
from rearview.store.layout import FORMAT, Store
from rearview.store.packs import index as indexes
from rearview.store.runs import list_runs, read_run

STALE_AFTER_S = 24 * 3600.0
"""An unfinished file older than this belongs to nobody."""
_PATIENCE_S = 2.0
"""How long removing a run waits for checkpoints in the making."""
DAMAGED = ".damaged"
"""How the name of a file ends that a repair has set aside."""
_SENTENCES = 3
_IGNORE = b"*\n"
_STORE_ID = re.compile(r"[0-9a-f]{32}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def check(store: Store, *, deep: bool = False) -> list[Finding]:
    """Everything that is wrong, in the order of the folders. `deep` reads every byte of every checkpoint."""
    found: list[Finding] = []
    for look in (_ignore, _store_json, _runs, _replays, _objects, _code, _refs, _segments, _leftovers, set_aside):
        found += look(store)
    found += check_checkpoints(store, deep=deep)
    return found


def _content(path: Path) -> bytes | None:
    """The bytes of a small file; None if it is missing or cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _ignore(store: Store) -> Iterator[Finding]:
    if _content(store.root / ".gitignore") != _IGNORE:
        yield note(store.root / ".gitignore", "is not a line with *: git would take the store for a part of the project")


def _store_json(store: Store) -> Iterator[Finding]:
    try:
        facts = json.loads(store.store_json.read_bytes())
        if not isinstance(facts["format"], int) or not _STORE_ID.fullmatch(facts["id"]):
            yield damage(store.store_json, "does not say the format and the id of the store")
    except FileNotFoundError:
        yield damage(store.store_json, "is missing")
    except OSError as problem:
        yield damage(store.store_json, f"cannot be read: {problem.strerror}")
    except (ValueError, KeyError, TypeError):
        yield damage(store.store_json, "cannot be read as JSON")


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _runs(store: Store) -> Iterator[Finding]:
    for folder in _folders(store.runs):
        if not (folder / "run.json").exists():
            yield note(folder, "has no run.json: a run that was killed while it began, or whose run.json was removed")
            continue
        try:
            read_run(store, RunId(folder.name))
        except (Damaged, OSError) as problem:
            yield damage(folder / "run.json", str(problem).removeprefix(f"{folder / 'run.json'} "))
        paths = sorted(folder.glob("*" + SUFFIX))
        if not paths:
            yield note(folder, "has no journal: a run that was killed while it began, or whose journals were removed")
        yield from _missing_parts(folder, paths)
        for path in paths:
            yield from _journal(store, path)


def _replays(store: Store) -> Iterator[Finding]:
    for folder in replays.folders(store):
        if replays.is_unfinished(folder):
            yield note(folder, "has no replay.json: a replay that was killed while it was published; gc removes it")
            continue
        try:
            replays.read(store, RunId(folder.parent.parent.name), folder.name)
        except NotFound:
            continue  # forgotten while we looked
        except (Damaged, StoreError, OSError) as problem:
            yield damage(folder / replays.FILE, str(problem))
        paths = sorted(folder.glob("*" + SUFFIX))
        yield from _missing_parts(folder, paths)
        for path in paths:
            yield from _journal(store, path)


def _missing_parts(folder: Path, paths: list[Path]) -> Iterator[Finding]:
    """Parts are numbered from 1 without gaps."""
    known = [name for path in paths if (name := PartName.parse(path.name)) is not None]
    for writer, attempt in sorted({(name.writer, name.attempt) for name in known}):
        parts = {name.part for name in known if (name.writer, name.attempt) == (writer, attempt)}
        for part in sorted(set(range(1, max(parts))) - parts):
            yield damage(folder / str(PartName(writer, attempt, part)), "is missing, with all the records in it")


def _journal(store: Store, path: Path) -> Iterator[Finding]:
    if PartName.parse(path.name) is None:
        yield note(path, "is not named like a journal part")
        return
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    reading = frames.Reading()
    for sequence, body in frames.walk(data, reading):
        try:
            if body[0] == frames.FACT:
                yield from _lost(path, frames.read_fact(body))
            elif body[0] == frames.RECORD and objects.PREFIX.encode() in body:
                for key in _keys(decode(body[frames.RECORD_HEAD.size :])):
                    if not objects.path_of(store, key).exists():
                        yield damage(path, f"frame {sequence} has its value in the object {key}, which is missing")
        except Damaged as problem:
            yield damage(path, f"frame {sequence}: {problem}")
    for sentence in reading.damage:
        yield damage(path, sentence)
    if reading.torn_bytes and not reading.closed:
        yield note(path, f"ends with {reading.torn_bytes} bytes of an unfinished write: normal after a kill")


def _keys(value: object) -> Iterator[str]:
    """The objects a value refers to, at any depth."""
    if isinstance(value, ArraySummary):
        yield value.object_key
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _keys(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _keys(item)


def _lost(path: Path, fact: dict[str, Any]) -> Iterator[Finding]:
    lost = fact.get("lost")
    if fact["fact"] == "end" and isinstance(lost, int) and lost > 0:
        yield note(path, f"{lost} records of run {path.parent.name} could not be written while it ran: the disk was full or failed")


def _objects(store: Store) -> Iterator[Finding]:
    for folder in _folders(store.objects):
        if folder == indexes.folder_of(store):
            continue
        for path in sorted(folder.iterdir()):
            try:
                if objects.path_of(store, path.name) != path:
                    yield note(path, "is not where an object of that name belongs")
                elif objects.key_of(path.read_bytes()) != path.name:
                    yield damage(path, "its bytes have another hash")
            except Damaged:
                yield note(path, "is not named like an object")
            except FileNotFoundError:
                continue


def _code(store: Store) -> Iterator[Finding]:
    """Loose git objects: zlib over `type size\\0body`, named by the SHA-1 of that."""
    for folder in _folders(store.code / "objects"):
        if len(folder.name) != 2:
            continue
        for path in sorted(folder.iterdir()):
            name = folder.name + path.name
            if len(name) != 40 or set(name) - set("0123456789abcdef"):
                continue  # a temporary file of git's
            try:
                if hashlib.sha1(zlib.decompress(path.read_bytes()), usedforsecurity=False).hexdigest() != name:
                    yield damage(path, "the source object has another hash")
            except zlib.error:
                yield damage(path, "the source object cannot be decompressed")
            except FileNotFoundError:
                continue


def _refs(store: Store) -> Iterator[Finding]:
    """A version's ref is named by the commit it holds; HEAD and config make the folder a repository of git's."""
    versions = store.code / "refs" / "versions"
    for path in sorted(versions.iterdir()) if versions.is_dir() else ():
        if not _COMMIT.fullmatch(path.name):
            yield note(path, "is not named like a version")
        elif _content(path) != path.name.encode() + b"\n":
            yield damage(path, "does not hold the version it is named by")
    if any(len(folder.name) == 2 for folder in _folders(store.code / "objects")):
        for name in ("HEAD", "config"):
            if not (store.code / name).is_file():
                yield damage(store.code / name, "is missing: git cannot read the source versions; restore it from a copy")


def _segments(store: Store) -> Iterator[Finding]:
    """The index of a segment is a hash, a line break and JSON; `files` names each Parquet file with size and hash."""
    import xxhash

    named = set()
    for path in sorted(store.segments.glob("*.index")):
        try:
            digest, _, body = path.read_bytes().partition(b"\n")
            if xxhash.xxh3_128_hexdigest(body).encode() != digest:
                yield note(path, "the index of a segment is damaged; it is a cache and will be made again")
                continue
            for name, size, digest_of in json.loads(body)["files"].values():
                named.add(name)
                data = (store.segments / name).read_bytes()
                if len(data) != size or xxhash.xxh3_128_hexdigest(data) != digest_of:
                    yield note(store.segments / name, "a segment is damaged; it is a cache and will be made again")
        except FileNotFoundError as missing:
            yield note(Path(missing.filename or path), "a segment is incomplete; it is a cache and will be made again")
        except (ValueError, KeyError, TypeError):
            yield note(path, "the index of a segment cannot be read; it is a cache and will be made again")
    for path in sorted(store.segments.glob("*.parquet")):
        if path.name not in named and _age_s(path) > STALE_AFTER_S:
            yield note(path, "belongs to no segment: left behind by a reader that was killed")


def _leftovers(store: Store) -> Iterator[Finding]:
    for path in sorted(store.tmp.iterdir()) if store.tmp.is_dir() else ():
        if _age_s(path) > STALE_AFTER_S:
            yield note(path, "is an unfinished file, more than a day old")


def set_aside(store: Store) -> Iterator[Finding]:
    """What a repair found damaged and left for somebody who has a copy: what it held is still missing."""
    for path in sorted((*store.root.glob("*" + DAMAGED), *store.runs.rglob("*" + DAMAGED))):
        if path.name.endswith(SUFFIX + DAMAGED):
            reading = frames.Reading()
            for _ in frames.walk(path.read_bytes(), reading):
                pass
            lost = "; ".join(reading.damage[:_SENTENCES]) + ("; ..." if len(reading.damage) > _SENTENCES else "")
            yield note(path, f"is a damaged journal that was set aside: records may be missing from {path.parent.name} ({lost})")
        elif path.parent == store.root:
            yield note(path, "is a damaged file that was set aside; a new one was written")
        else:
            yield note(path, f"is a damaged checkpoint that was set aside: run {path.parent.parent.name} does not have it any more")


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


# Repair


def repair(store: Store) -> list[str]:
    """Do what can be done, and say what was done."""
    done: list[str] = []
    done += _repair_ignore(store)
    done += _repair_store_json(store)
    done += _repair_refs(store)
    for folder in (*_folders(store.runs), *replays.folders(store)):
        if (folder / "run.json").exists() or (folder / replays.FILE).exists():
            for path in sorted(folder.glob("*" + SUFFIX)):
                done += _repair_journal(store, path)
    done += repair_checkpoints(store)
    done += _drop_segments(store)
    done += _drop_leftovers(store)
    return done


def _repair_ignore(store: Store) -> list[str]:
    if not list(_ignore(store)):
        return []
    atomic.publish(store.root / ".gitignore", _IGNORE, tmp=store.tmp)
    return [".gitignore was written anew: the store ignores itself"]


def _repair_refs(store: Store) -> list[str]:
    """The name says what the ref holds."""
    done = []
    for finding in _refs(store):
        if finding.path.parent.name == "versions" and finding.severity == "damage":
            atomic.publish(finding.path, finding.path.name.encode() + b"\n", tmp=store.tmp)
            done.append(f"the ref of version {finding.path.name[:10]} was written anew")
    return done


def _repair_store_json(store: Store) -> list[str]:
    if not list(_store_json(store)):
        return []
    if not store.runs.is_dir():
        raise StoreError(f"{store.root} has neither a readable store.json nor runs: it is not a store; restore it from a copy")
    if store.store_json.exists():
        os.rename(store.store_json, store.root / f"store.json{DAMAGED}")
    facts = {"format": FORMAT, "id": os.urandom(16).hex(), "made_by": "rearview check --repair"}
    atomic.publish(store.store_json, json.dumps(facts, indent=1).encode() + b"\n", tmp=store.tmp, replace=False)
    return ["store.json was written anew; what was left of the old one is store.json.damaged"]


def _repair_journal(store: Store, path: Path) -> list[str]:
    """Write the good frames of a damaged part as a part of the same name; the damaged file stays beside it.

    The new part is numbered anew without gaps, so readers take it for whole: what was lost is said here and by every
    check as long as the file that was set aside is there.
    """
    name = PartName.parse(path.name)
    if name is None:
        return []
    data = path.read_bytes()
    reading = frames.Reading()
    bodies = [body for _, body in frames.walk(data, reading)]
    if not reading.damage:
        return []
    aside = path.with_name(path.name + DAMAGED)
    if aside.exists():
        return [f"{path.name} of {path.parent.name} is damaged again and was left alone: {aside.name} is there already"]
    if reading.closed:
        bodies.append(bytes((frames.CLOSE,)))
    good = frames.MAGIC + b"".join(frames.frame(k, body) for k, body in enumerate(bodies))
    os.link(path, aside)  # both names for a moment: a kill here loses nothing
    atomic.publish(path, good, tmp=store.tmp)
    return [f"{path.parent.name}/{path.name}: {len(bodies)} good frames kept, the damaged file set aside as {aside.name}"]


def _drop_segments(store: Store) -> list[str]:
    bad = list(_segments(store))
    if not bad:
        return []
    shutil.rmtree(store.segments, ignore_errors=True)
    return ["the segments were removed; the next query makes them anew"]


def _drop_leftovers(store: Store) -> list[str]:
    done = []
    for finding in _leftovers(store):
        if finding.path.is_dir() and not finding.path.is_symlink():
            shutil.rmtree(finding.path, ignore_errors=True)
        else:
            finding.path.unlink(missing_ok=True)
        done.append(f"tmp/{finding.path.name} was removed")
    return done


# Removal


def remove_run(store: Store, run: RunId, *, running: bool = False, force: bool = False) -> int:
    """Remove a run: its folder vanishes at once, then its bytes, then the packs that only its checkpoints used.

    Returns how many bytes of packs came free.

    Objects and versions stay, others may use them; so do packs while somebody writes a checkpoint: gc takes them. The caller
    says whether the run is running (the catalog knows); such a run goes only with `force`.
    """
    if running and not force:
        raise StoreError(f"run {run} is still running: stop it first, or insist with --force")
    if run not in list_runs(store):
        raise NoSuchRun(f"there is no run {run}: `rearview runs` lists them")
    chunks = references.of_run(store, run)
    gone = atomic.temp_name(store.tmp)
    os.rename(store.run(run), gone)
    atomic.sync_folder(store.runs)
    shutil.rmtree(gone, ignore_errors=True)
    if chunks:
        with contextlib.suppress(CheckpointError, OSError):  # another gc, a disk that fails: the run is gone all the same
            return gc.execute(store, gc.plan(store, released=chunks, only_packs=True), wait_s=_PATIENCE_S).bytes_freed
    return 0
