"""Which chunks the store holds, and where. One `Known` is shared by everything in a process that writes or reads chunks.

Indexes are read when a chunk is first asked for, never at the start of a program. What is kept in memory is bounded: the
chunks of constant packs, then those of the newest, at most `LIMIT` of them (about 300 bytes each). What is beyond that is
stored again by a writer, and looked up on disk by a reader.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rearview.errors import Damaged
from rearview.store.layout import Store
from rearview.store.packs import damaged as damages
from rearview.store.packs import index as indexes
from rearview.store.packs.index import PackIndex

LIMIT = 100_000
"""100 GB of large buffers, in 30 MB of memory."""


_LOOKS = 5
"""How often a reader looks for a chunk: gc may rename its index between two looks at the folder."""
_PAUSE_S = 0.02


class Place(NamedTuple):
    """Where a chunk lies."""

    pack: str
    offset: int
    size: int


Stamp = tuple[int, int, int]
"""Inode and size of an index, for a thinned one is another file and shorter, and the size of the note what of its pack is damaged."""


_NOWHERE = (None, 0, 0)
_pack = operator.itemgetter(0)


class Known:
    """The chunks of a store, as far as this process has looked. Safe for several threads."""

    def __init__(self, store: Store, limit: int = LIMIT) -> None:
        self.store = store
        self.damaged: dict[str, str] = {}
        """Packs whose index cannot be read, with the sentence that says why. Nothing new relies on them."""
        self._limit = limit
        self._lock = threading.RLock()
        self._where: dict[bytes, tuple[str, int, int]] = {}
        """Plain tuples: the garbage collector of the program would look through a `Place` again and again."""
        self._packs: dict[str, tuple[PackIndex, Stamp]] = {}
        """In memory, the ones that go first first."""
        self._wrong: dict[str, frozenset[bytes]] = {}
        """Chunks that were found damaged here, by pack: the note of it may not have been written."""
        self._looked = False

    def refresh(self) -> None:
        """Look at the folder anew: take in indexes that came, forget those that went."""
        with self._lock:
            self._looked = True
            there = self._listing(indexes.INDEX)
            for pack in [pack for pack, (_, stamp) in self._packs.items() if there.get(pack, (None, 0))[0] != stamp]:
                self._forget(pack)
            self.damaged.clear()
            fresh = self._worth_knowing(sorted((pack for pack in there if pack not in self._packs), key=lambda pack: -there[pack][1]))
            for found in reversed(fresh):  # what goes first stands first
                self._remember(found, there[found.pack][0])

    def _worth_knowing(self, newest_first: list[str]) -> list[PackIndex]:
        """The indexes of the newest packs up to the limit; beyond it only those of constant packs."""
        found: list[PackIndex] = []
        count = len(self._where)
        for pack in newest_first:
            path = indexes.index_path(self.store, pack)
            constant, more = indexes.peek(path)
            if count + more > self._limit and not constant:
                continue
            index = self._load(path)
            if index is not None:
                found.append(index)
                count += len(index)
        return found

    def _listing(self, suffix: str) -> dict[str, tuple[Stamp, float]]:
        """Indexes of that kind: pack -> (stamp, modified)."""
        found = {}
        try:
            entries = list(os.scandir(indexes.folder_of(self.store)))
        except FileNotFoundError:
            return {}
        packs = {entry.name.partition(".")[0] for entry in entries if entry.name.endswith(indexes.PACK)}
        noted = {entry.name.partition(".")[0] for entry in entries if entry.name.endswith(indexes.DAMAGED)}
        for entry in entries:
            name = indexes.named(entry.name)
            if name is None or name[1] != suffix or name[0] not in packs:
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            found[name[0]] = ((facts.st_ino, facts.st_size, self._noted(name[0]) if name[0] in noted else 0), facts.st_mtime)
        return found

    def _noted(self, pack: str) -> int:
        """Bytes of the note what of a pack is damaged."""
        try:
            return os.stat(indexes.damaged_path(self.store, pack)).st_size
        except OSError:
            return 0

    def _damaged_in(self, pack: str, stamp: Stamp) -> frozenset[bytes]:
        """What of a pack nothing new is to rely on."""
        here = self._wrong.get(pack, frozenset())
        return here | damages.noted(self.store, pack) if stamp[2] else here

    def _load(self, path: Path) -> PackIndex | None:
        try:
            return indexes.read(path)
        except FileNotFoundError:
            return None
        except (Damaged, OSError) as problem:
            self.damaged[path.name.partition(".")[0]] = str(problem)
            return None

    def _remember(self, found: PackIndex, stamp: Stamp) -> None:
        self._packs[found.pack] = (found, stamp)
        wrong = self._damaged_in(found.pack, stamp)
        for digest, offset, size in found:
            if digest not in wrong:
                self._where[digest] = (found.pack, offset, size)
        while len(self._where) > self._limit and len(self._packs) > 1:
            others = (pack for pack, (one, _) in self._packs.items() if not one.constant and pack != found.pack)
            self._forget(next(others, next(iter(self._packs))))

    def _forget(self, pack: str) -> None:
        gone, _ = self._packs.pop(pack)
        for digest, _, _ in gone:
            place = self._where.get(digest)
            if place is not None and place[0] == pack:
                del self._where[digest]

    def add(self, index: PackIndex) -> None:
        """A pack that was just published."""
        try:
            facts = os.stat(indexes.index_path(self.store, index.pack))
        except FileNotFoundError:
            return  # gc looks at it this moment, and waits for the manifest
        with self._lock:
            self._remember(index, (facts.st_ino, facts.st_size, 0))

    def look_through(self, pack: str) -> None:
        """A chunk of it is damaged: which others are. It is noted for every process, and nothing new relies on them from now on.

        Of a condemned pack nothing is said: what gc takes from it may be holes already, and nothing new relies on it.
        """
        with self._lock:
            index = self._load(indexes.index_path(self.store, pack))
            if index is not None:
                self._wrong[pack] = frozenset(damages.wrong(self.store, index))
                damages.note(self.store, pack, self._wrong[pack])
            if pack in self._packs:
                self._forget(pack)
            self.refresh()

    def place(self, digest: bytes) -> Place | None:
        """Where a chunk is, as far as is known in memory; the first call reads the indexes."""
        if not self._looked:
            self.refresh()
        found = self._where.get(digest)
        return None if found is None else Place(*found)

    def pack_of(self, digest: bytes) -> str | None:
        """The pack that a chunk is in, as far as is known in memory."""
        if not self._looked:
            self.refresh()
        found = self._where.get(digest)
        return None if found is None else found[0]

    def packs_of(self, digests: Iterable[bytes]) -> Iterable[str | None]:
        """The same of many."""
        if not self._looked:
            self.refresh()
        return map(_pack, map(self._where.get, digests, itertools.repeat(_NOWHERE)))

    def stamps(self, packs: Iterable[str]) -> dict[str, Stamp | None]:
        """By what each of these packs is known again; None: it is not in memory."""
        with self._lock:
            return {pack: self._packs[pack][1] if pack in self._packs else None for pack in packs}

    def hold(self, pack: str) -> bool:
        """Refresh a pack that a new checkpoint relies on, and look whether it is still what it was. False: it went, or is otherwise.

        The caller holds a lease. gc renames the index before it looks for leases, so either the name is gone here, or gc
        sees the lease, waits for the manifest and finds the chunk in use.
        """
        path = indexes.index_path(self.store, pack)
        try:
            with contextlib.suppress(PermissionError):  # another user's pack; the lease protects it
                os.utime(path)
            facts = os.stat(path)
            stamp = (facts.st_ino, facts.st_size, self._noted(pack))
        except FileNotFoundError:
            stamp = None
        with self._lock:
            known = self._packs.get(pack)
            if known is not None and stamp == known[1]:
                return True
            if known is not None:
                self._forget(pack)
            if stamp is not None:
                found = self._load(path)
                if found is not None:
                    self._remember(found, stamp)
            return False

    def places(self, digests: Iterable[bytes]) -> dict[bytes, Place]:
        """Where each of these chunks is, for reading; one that is nowhere is left out. Looks on disk for what memory lacks."""
        wanted = set(digests)
        with self._lock:
            found = {digest: place for digest in wanted if (place := self.place(digest)) is not None}
        for turn in range(_LOOKS):
            if len(found) == len(wanted):
                break
            if turn:
                time.sleep(_PAUSE_S)
            with self._lock:
                self.refresh()
                found = {digest: Place(*known) for digest in wanted if (known := self._where.get(digest)) is not None}
                for wrong in (False, True):  # one that was found damaged is read if there is no other: its pack may have been restored
                    for suffix in (indexes.INDEX, indexes.CONDEMNED):
                        self._search(suffix, wanted, found, wrong=wrong)
        return found

    def recall(self, digests: Iterable[bytes]) -> None:
        """Take the packs of these chunks into memory, as far as they can be relied on."""
        with self._lock:
            self.refresh()
            found: dict[bytes, Place] = {}
            self._search(indexes.INDEX, {digest for digest in digests if digest not in self._where}, found)
            for pack in {place.pack for place in found.values()}:
                self.hold(pack)
            self._where.update((digest, (*place,)) for digest, place in found.items() if place.pack in self._packs)

    def _search(self, suffix: str, wanted: set[bytes], found: dict[bytes, Place], *, wrong: bool = False) -> None:
        """In all indexes of that kind: a chunk may be in condemned packs, beyond the limit, or in several of which one went. `wrong`: also
        what was found damaged."""
        if len(found) == len(wanted):
            return
        for pack, (stamp, _) in self._listing(suffix).items():
            known = self._packs.get(pack) if suffix == indexes.INDEX else None
            index = known[0] if known is not None else self._load(indexes.folder_of(self.store) / (pack + suffix))
            left_out = frozenset() if wrong else self._damaged_in(pack, stamp)
            for digest, offset, size in index or ():
                if digest in wanted and digest not in left_out:
                    found.setdefault(digest, Place(pack, offset, size))
            if len(found) == len(wanted):
                return
