"""A pack that is needed in part: a smaller index, and holes where the bytes were that nobody needs.

Only for a condemned pack, whose unneeded chunks nothing new relies on. The index comes first, so nobody is sent to a hole;
where the disk has no room for it the holes come first, and the condemned index, which only readers use, stands in until then.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator

from rearview.store import atomic, direct, sweeping
from rearview.store.direct import PAGE, up
from rearview.store.layout import Store
from rearview.store.packs import damaged
from rearview.store.packs import index as indexes
from rearview.store.packs.index import Entry, PackIndex


def holes(live: Iterable[Entry], size_bytes: int) -> Iterator[tuple[int, int]]:
    """(offset, size) of the whole pages that none of these chunks touches. `size_bytes` is whole pages."""
    at = 0
    for offset, size in [*sorted((offset, size) for _, offset, size in live), (size_bytes, 0)]:
        start, end = up(at), offset // PAGE * PAGE
        if end > start:
            yield start, end - start
        at = max(at, offset + size)


def thin(store: Store, condemned: PackIndex, live: list[Entry], *, untouched: bool) -> int:
    """Give back everything of a condemned pack but these chunks; the bytes that came free.

    `untouched` says that it was condemned just now. Otherwise an earlier gc was killed on the way, and a chunk that is named
    again may be a hole by now: it is listed only if its bytes are right.
    """
    path = indexes.pack_path(store, condemned.pack)
    before = sweeping.allocated(path)
    if not untouched:
        live = list(damaged.sound(path, live))
    smaller = indexes.make(condemned.pack, condemned.size_bytes, live, constant=condemned.constant)
    published = _publish(store, smaller)
    give_back_rest(store, smaller)
    if not published:
        atomic.publish(indexes.index_path(store, condemned.pack), smaller.encode(), tmp=store.tmp)
    indexes.condemned_path(store, condemned.pack).unlink(missing_ok=True)
    atomic.sync_folder(indexes.folder_of(store))
    return max(0, before - sweeping.allocated(path))


def give_back_rest(store: Store, index: PackIndex) -> None:
    """Holes wherever the index lists nothing."""
    direct.punch(indexes.pack_path(store, index.pack), holes(index, index.size_bytes))


def _publish(store: Store, index: PackIndex) -> bool:
    try:
        atomic.publish(indexes.index_path(store, index.pack), index.encode(), tmp=store.tmp)
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        return False
    return True
