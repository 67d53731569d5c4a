"""Which chunks cannot be had from the store, as far as that is known without reading a pack: by indexes, lengths and notes.

Only chunks that are asked for are looked for, so that it is cheap in a large store. Knows no checkpoints.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from rearview.errors import Damaged
from rearview.store.layout import Store
from rearview.store.packs import damaged
from rearview.store.packs import index as indexes
from rearview.store.packs.index import INDEX, PACK

_LOOKS = 3
"""How often is looked for what is not found: gc may rename an index between two looks at the folder."""
_PAUSE_S = 0.02


def lacking(store: Store, wanted: Collection[bytes]) -> dict[bytes, str]:
    """Those of some chunks that cannot be had -> what is wrong with their bytes, and what to do."""
    left = set(wanted)
    why: dict[bytes, str] = {}
    for look in range(_LOOKS if left else 0):
        if look:
            time.sleep(_PAUSE_S)
        why = _look(store, left)
        left &= why.keys()
        if not left:
            break
    return why


def _look(store: Store, wanted: set[bytes]) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    there: set[bytes] = set()
    unread: list[str] = []
    listed: set[str] = set()
    for path, pack in _indexes(store):
        listed.add(pack)
        try:
            index = indexes.read(path)
        except FileNotFoundError:
            continue
        except (Damaged, OSError) as problem:
            unread.append(str(problem) if isinstance(problem, Damaged) else f"the index of pack {pack} cannot be read: {problem.strerror}")
            continue
        mine = [entry for entry in index if entry[0] in wanted]
        if not mine:
            continue
        size, noted = _size(store, pack), damaged.noted(store, pack)
        for name, offset, length in mine:
            if name in noted:
                again = "a checkpoint that has the same bytes writes them anew"
                found[name] = f"have other bytes, in pack {pack}; restore {pack}{PACK} from a copy; {again}"
            elif size is None:
                found[name] = f"are in pack {pack}, which cannot be read or is missing; restore {pack}{PACK} from a copy"
            elif offset + length > size:
                short = f"it has {size} bytes, and {index.size_bytes} were written"
                found[name] = f"are cut off in pack {pack}: {short}; restore {pack}{PACK} from a copy"
            else:
                there.add(name)
    nowhere = wanted - there - found.keys()
    if nowhere:
        found.update(dict.fromkeys(nowhere, f"are in no pack of the store{_perhaps(store, unread, listed)}"))
    return {name: found[name] for name in found if name not in there}


def _indexes(store: Store) -> Iterator[tuple[Path, str]]:
    for suffix in (INDEX, indexes.CONDEMNED):
        for path in indexes.folder_of(store).glob("*" + suffix):
            if (name := indexes.named(path.name)) is not None:
                yield path, name[0]


def _size(store: Store, pack: str) -> int | None:
    try:
        return os.stat(indexes.pack_path(store, pack)).st_size
    except OSError:
        return None


def _perhaps(store: Store, unread: list[str], listed: set[str]) -> str:
    """Which pack they may be in: one whose index cannot be read, or that has none (which may also be left over)."""
    if unread:
        return f" ({unread[0]}{' and others' if len(unread) > 1 else ''})"
    packs = {name[0] for path in indexes.folder_of(store).glob("*" + PACK) if (name := indexes.named(path.name)) is not None}
    alone = sorted(packs - listed)
    if alone:
        return f" (pack {alone[0]} has no index; restore {alone[0]}{INDEX} from a copy{' and others' if len(alone) > 1 else ''})"
    return "; restore objects/packs from a copy"
