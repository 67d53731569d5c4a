"""Chunks that lie in several packs: writers that did not see each other stored the same bytes, frozen weights of a sweep say.

One copy is enough. Which pack may lose its copy is pure arithmetic; before it does, the other copy is read and verified.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from rearview.errors import Damaged
from rearview.store import sweeping
from rearview.store.layout import Store
from rearview.store.packs import index as indexes
from rearview.store.packs.hashing import digest
from rearview.store.packs.index import PackIndex


def spare(listed: Iterable[PackIndex], needed: Collection[bytes]) -> dict[str, set[bytes]]:
    """For each pack the needed chunks that it need not keep, since another does: the one with more of what is needed.

    Every needed chunk that is listed is kept by exactly one pack.
    """
    packs = [(index, [name for name, _, _ in index if name in needed]) for index in listed]
    packs.sort(key=lambda one: (not one[0].constant, -len(one[1]), one[0].pack))
    kept: set[bytes] = set()
    found: dict[str, set[bytes]] = {}
    for index, names in packs:
        again = {name for name in names if name in kept}
        if again:
            found[index.pack] = again
        kept.update(names)
    return found


def held_elsewhere(store: Store, wanted: set[bytes], without: Collection[str]) -> set[bytes]:
    """Those of these chunks that a pack other than `without` lists, with the right bytes."""
    found: set[bytes] = set()
    for pack in sweeping.packs_with(store, indexes.INDEX):
        if pack in without:
            continue
        try:
            index = indexes.read(indexes.index_path(store, pack))
            entries = [entry for entry in index if entry[0] in wanted and entry[0] not in found]
            if entries:
                fd = os.open(indexes.pack_path(store, pack), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    found.update(name for name, offset, size in entries if digest(os.pread(fd, size, offset)) == name)
                finally:
                    os.close(fd)
        except (Damaged, OSError):
            continue  # nothing can be said of it: its copies do not count
    return found
