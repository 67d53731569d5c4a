"""Chunks that lie in several packs: writers that did not see each other stored the same bytes, frozen weights of a sweep say.

One copy is enough. Which pack may lose its copy is pure arithmetic; before it does, the other copy is read and verified.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rearview.errors import Damaged
from rearview.store import sweeping
from rearview.store.layout import Store
from rearview.store.packs import damaged
from rearview.store.packs import index as indexes
from rearview.store.packs.index import PackIndex


def spare(
    listed: Iterable[PackIndex], needed: Collection[bytes], noted: Mapping[str, Collection[bytes]] | None = None
) -> dict[str, set[bytes]]:
    """For each pack the needed chunks that it need not keep, since another does: the one with more of what is needed.

    Every needed chunk that is listed is kept by exactly one pack. A copy that was found damaged (`noted`, by pack) frees no other, and is
    kept where there is no other.
    """
    wrong = noted or {}
    packs = [(index, [name for name, _, _ in index if name in needed and name not in wrong.get(index.pack, ())]) for index in listed]
    packs.sort(key=lambda one: (not one[0].constant, -len(one[1]), one[0].pack))
    kept: set[bytes] = set()
    found: dict[str, set[bytes]] = {}
    for index, names in packs:
        again = {name for name in names if name in kept}
        if again:
            found[index.pack] = again
        kept.update(names)
    for index, _ in packs:
        worthless = {name for name, _, _ in index if name in wrong.get(index.pack, ()) and name in kept}
        if worthless:
            found.setdefault(index.pack, set()).update(worthless)
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
            found.update(name for name, _, _ in damaged.sound(indexes.pack_path(store, pack), entries))
        except (Damaged, OSError):
            continue  # nothing can be said of it: its copies do not count
    return found
