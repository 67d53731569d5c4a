"""The small pieces of gc: unfinished files, objects that nobody names, one gc at a time, and what a killed gc left.

An object is logged without a lease, so it is protected otherwise: putting one that is there refreshes it, and gc takes it
away by a rename, looks whether it was refreshed meanwhile, and if so puts it back.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rearview.errors import Damaged
from rearview.store import atomic, leases, objects, processes, references
from rearview.store.layout import Store
from rearview.store.packs import index as indexes
from rearview.store.references import References

ABANDONED_AFTER_S = 60.0
"""A temporary file of a process that is gone, untouched for so long, is nobody's."""
_TEMP = re.compile(r"(\d+)-[0-9a-f]{12}")
_GONE = "gone-"
_NETWORK = ("nfs", "cifs", "smb", "fuse", "lustre", "gpfs", "ceph", "9p", "afs", "beegfs", "glusterfs", "pvfs", "virtiofs")


@contextlib.contextmanager
def alone(store: Store) -> Iterator[bool]:
    """Hold the lock of gc; False if somebody else does. The system frees it if this process dies."""
    import fcntl

    folder = leases.folder_of(store)
    folder.mkdir(exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)


def on_network(store: Store) -> bool:
    """Whether other machines may write to this store, whose view of it lags behind."""
    best, kind = "", ""
    root = os.path.realpath(store.root)
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    for line in lines:
        left, _, right = line.partition(" - ")
        where = left.split()[4].replace("\\040", " ")
        if len(where) >= len(best) and (root == where or root.startswith(where.rstrip("/") + "/")):
            best, kind = where, right.split()[0]
    return kind.startswith(_NETWORK)


def packs_with(store: Store, suffix: str) -> list[str]:
    """The packs that have a file of that kind."""
    try:
        names = [indexes.named(entry.name) for entry in os.scandir(indexes.folder_of(store))]
    except FileNotFoundError:
        return []
    return [name[0] for name in names if name is not None and name[1] == suffix]


def allocated(path: Path) -> int:
    """Bytes on the disk: holes do not count."""
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def remove(path: Path) -> int:
    """Remove a file or folder; the bytes that came free."""
    size = allocated(path)
    if path.is_dir() and not path.is_symlink():
        size = sum(allocated(Path(folder) / name) for folder, _, names in os.walk(path) for name in names)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return size


def leftovers(store: Store, grace_s: float) -> dict[Path, int]:
    """Unfinished files that belong to nobody: path to bytes. Packs without an index, and what dead processes left in `tmp/`."""
    found: dict[Path, int] = {}
    now = time.time()
    listed = {*packs_with(store, indexes.INDEX), *packs_with(store, indexes.CONDEMNED)}
    for pack in packs_with(store, indexes.PACK):
        path = indexes.pack_path(store, pack)
        if pack not in listed and now - _changed(path) > grace_s:
            found[path] = allocated(path)
    for path in sorted(store.tmp.iterdir()) if store.tmp.is_dir() else ():
        match = _TEMP.fullmatch(path.name)
        if match and not _process_exists(int(match[1])) and now - _changed(path) > min(grace_s, ABANDONED_AFTER_S):
            found[path] = allocated(path)
    return found


def drop_notes(store: Store) -> int:
    """Remove what was noted of packs that are gone; the bytes that came free."""
    gone = set(packs_with(store, indexes.DAMAGED)) - set(packs_with(store, indexes.PACK))
    return sum(remove(indexes.damaged_path(store, pack)) for pack in gone)


def _changed(path: Path) -> float:
    try:
        facts = path.lstat()
    except OSError:
        return time.time()
    return max(facts.st_mtime, facts.st_ctime)


def _process_exists(pid: int) -> bool:
    return processes.start_ticks(pid) is not None or processes.exists(pid)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object that may be unused, as it was when it was looked at."""

    size_bytes: int
    mtime_ns: int
    """Another one later means: somebody put it again."""


def settled_objects(store: Store, grace_s: float) -> dict[str, Candidate]:
    """Objects that nobody has put for a while, by their keys."""
    found = {}
    now = time.time()
    for path in _all_objects(store):
        try:
            facts = path.stat() if objects.path_of(store, path.name) == path else None
        except (Damaged, FileNotFoundError):
            continue
        if facts is not None and now - max(facts.st_mtime, facts.st_ctime) > grace_s:
            found[path.name] = Candidate(facts.st_blocks * 512, facts.st_mtime_ns)
    return found


def unused_objects(store: Store, candidates: Mapping[str, Candidate], found: References) -> dict[str, Candidate]:
    """Those that neither a checkpoint nor a record refers to. Reads the journals only if there may be any."""
    unused = {key: one for key, one in candidates.items() if key not in found.objects}
    for key in references.of_records(store, set(unused)) if unused else ():
        del unused[key]
    return unused


def _all_objects(store: Store) -> Iterator[Path]:
    for folder in sorted(store.objects.iterdir()) if store.objects.is_dir() else ():
        if len(folder.name) == 2 and folder.is_dir():
            yield from sorted(folder.iterdir())


def remove_object(store: Store, key: str, mtime_ns: int) -> int:
    """Take an object away, unless somebody put it again since it was looked at; the bytes that came free."""
    path = objects.path_of(store, key)
    aside = store.tmp / (_GONE + key)
    try:
        store.tmp.mkdir(exist_ok=True)
        os.rename(path, aside)
    except FileNotFoundError:
        return 0
    if aside.stat().st_mtime_ns != mtime_ns:
        _put_back(aside, path)
        return 0
    return remove(aside)


def recover(store: Store) -> list[str]:
    """Put back objects that a gc had taken away when it was killed: one of them may have been needed again."""
    done = []
    for aside in sorted(store.tmp.glob(_GONE + "*")) if store.tmp.is_dir() else ():
        try:
            _put_back(aside, objects.path_of(store, aside.name.removeprefix(_GONE)))
            done.append(f"object {aside.name.removeprefix(_GONE)} was put back: a gc was killed while it looked at it")
        except Damaged:
            continue
    return done


def _put_back(aside: Path, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        atomic.adopt(aside, path, replace=False)
        aside.unlink(missing_ok=True)
