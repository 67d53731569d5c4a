"""Chunks whose bytes are not what was written: found when they are read, and noted beside their pack.

Nothing new relies on a chunk that is noted: a checkpoint that has it writes it anew, and then the older ones that have it are
whole again. A note is a hint: it is never needed to read, a chunk that it names is verified like any other, and removing it loses
nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from rearview.store import atomic
from rearview.store.layout import Store
from rearview.store.packs import index as indexes
from rearview.store.packs.chunks import DIGEST_BYTES
from rearview.store.packs.hashing import digest
from rearview.store.packs.index import Entry, PackIndex


def sound(path: Path, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Those chunks of a pack whose bytes have their hash."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for name, offset, size in entries:
            if digest(os.pread(fd, size, offset)) == name:
                yield name, offset, size
    finally:
        os.close(fd)


def wrong(store: Store, index: PackIndex) -> set[bytes]:
    """Those whose bytes have another hash, or that the disk does not give."""
    found: set[bytes] = set()
    for entry in index:
        try:
            right = any(sound(indexes.pack_path(store, index.pack), [entry]))
        except FileNotFoundError:
            return set()  # gone, with its index or before it: nothing to look at
        except OSError:
            right = False
        if not right:
            found.add(entry[0])
    return found


def noted(store: Store, pack: str) -> frozenset[bytes]:
    """What stands beside a pack."""
    try:
        data = indexes.damaged_path(store, pack).read_bytes()
    except OSError:
        return frozenset()
    return frozenset(data[at : at + DIGEST_BYTES] for at in range(0, len(data) - DIGEST_BYTES + 1, DIGEST_BYTES))


def note(store: Store, pack: str, names: Collection[bytes]) -> None:
    """These are damaged, and no others. Where the store cannot be written to, nobody is told."""
    if names == noted(store, pack):
        return
    path = indexes.damaged_path(store, pack)
    with contextlib.suppress(OSError):
        if names:
            atomic.publish(path, b"".join(sorted(names)), tmp=store.tmp)
        else:
            path.unlink(missing_ok=True)


def every(store: Store) -> dict[str, frozenset[bytes]]:
    """All that is noted, by pack."""
    names = [indexes.named(path.name) for path in indexes.folder_of(store).glob("*" + indexes.DAMAGED)]
    return {pack: noted(store, pack) for pack, _ in filter(None, names)}
