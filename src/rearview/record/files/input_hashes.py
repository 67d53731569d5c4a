"""Hashing input files a piece at a time, and the hashes of large ones kept for later runs. Knows nothing of runs."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.store import atomic, objects
from rearview.store.layout import Store

_PIECE_BYTES = 1 << 20
WORTH_KEEPING_BYTES = 1 << 20
"""The hash of a smaller file is quicker made than looked up."""
_SETTLED_S = 2.0
"""A file changed so recently could change again without showing it: its hash is not kept."""
_MAX_KEPT = 10_000


def digest(data: bytes) -> str:
    """The digest of a few bytes."""
    return objects.key_of(data)


@dataclass(slots=True)
class Hashing:
    """One file on its way to a hash."""

    path: str
    identity: tuple[int, int, int]
    """Size, mtime in ns, inode, before the first byte was read."""
    key: str | None = None
    offset: int = 0
    state: Any = None
    was_kept: bool = False

    def go_on(self) -> bool:
        """Read one more piece. True once it is done: with a key, or without if the file could not be read or changed meanwhile."""
        if self.key is not None:
            return True
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(self.offset)
                data = file.read(_PIECE_BYTES)
                facts = os.fstat(file.fileno())
        except OSError:
            return True
        if (facts.st_size, facts.st_mtime_ns, facts.st_ino) != self.identity:
            return True
        if self.state is None:
            import xxhash

            self.state = xxhash.xxh3_128()
        self.state.update(data)
        self.offset += len(data)
        if self.offset >= self.identity[0]:
            self.key = objects.PREFIX + self.state.hexdigest()
            return True
        return not data


def identity_of(path: str) -> tuple[int, int, int] | None:
    """Size, mtime in ns, inode of a regular file."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return (facts.st_size, facts.st_mtime_ns, facts.st_ino) if stat.S_ISREG(facts.st_mode) else None


def hash_of(path: str) -> str | None:
    """The hash of a whole file, now; None if it cannot be read."""
    identity = identity_of(path)
    if identity is None:
        return None
    hashing = Hashing(path, identity)
    while not hashing.go_on():
        pass
    return hashing.key


@dataclass(slots=True)
class Cache:
    """Hashes of large files: path -> size, mtime, inode, hash. A file that may be deleted at any time."""

    known: dict[str, list[Any]] | None = None
    fresh: dict[str, list[Any]] = field(default_factory=dict)

    def begin(self, path: str, store: Store) -> Hashing | None:
        """Begin with a file, or have its hash at once; None if it cannot be hashed."""
        identity = identity_of(path)
        if identity is None:
            return None
        hashing = Hashing(path, identity)
        if identity[0] >= WORTH_KEEPING_BYTES:
            if self.known is None:
                self.known = _load(store)
            row = self.known.get(path)
            if row is not None and tuple(row[:3]) == identity and isinstance(row[3], str):
                hashing.key, hashing.was_kept = row[3], True
        return hashing

    def keep(self, done: Hashing) -> None:
        """Remember a hash for later runs."""
        settled = time.time() - done.identity[1] / 1e9 > _SETTLED_S
        if done.key is not None and not done.was_kept and done.identity[0] >= WORTH_KEEPING_BYTES and settled:
            self.fresh[done.path] = [*done.identity, done.key]

    def save(self, store: Store) -> None:
        """Add what is new to the file. What another run adds at the same moment may be lost: it is made again."""
        if not self.fresh:
            return
        kept = {**_load(store), **self.fresh}
        kept = dict(list(kept.items())[-_MAX_KEPT:])
        try:
            atomic.publish(_place(store), json.dumps(kept).encode(), tmp=store.tmp, durable=False)
        except OSError:
            return  # a full disk: it is a cache
        self.fresh = {}


def _place(store: Store) -> Path:
    return store.root / "cache" / "inputs.json"


def _load(store: Store) -> dict[str, list[Any]]:
    try:
        facts = json.loads(_place(store).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(facts, dict):
        return {}
    return {path: row for path, row in facts.items() if isinstance(row, list) and len(row) == 4}
