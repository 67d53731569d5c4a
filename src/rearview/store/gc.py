"""Giving back what no checkpoint needs: decide first (`plan`, changes nothing), then do it (`execute`).

Safe beside any number of writers and readers, whenever it is killed, and with no byte free on the disk. In this order:

1. manifests that are to lose their bytes are marked as thinned;
2. the index of each pack with something to give back is renamed to `.condemned`: it can be read, nothing new relies on it;
3. writers that began before that are waited for (their leases end when their manifest is there);
4. the references are read anew, and only what none of them names goes: packs are removed whole, or get holes.

Which checkpoints are dropped is decided elsewhere. Knows files and references, no policies.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rearview.errors import CheckpointError, Damaged
from rearview.store import atomic, direct, duplicates, leases, manifests, references, replays, sweeping, thinning
from rearview.store.layout import Store
from rearview.store.manifests import ManifestName
from rearview.store.packs import damaged
from rearview.store.packs import index as indexes
from rearview.store.packs.index import PackIndex
from rearview.store.references import References

GRACE_S = 600.0
"""What no manifest ever named is left alone for so long: it may belong to a checkpoint in the making."""
WAIT_S = 30.0
"""How long writers are waited for."""
WORTH_BYTES = 64 << 10
"""Holes of less than this are not worth a new index."""
_WORTH_A_WORD = 0.1
"""What waits is spoken of if it is this much of what comes free."""
Unused = dict[str, sweeping.Candidate]
_NETWORK_SETTLE_S = 65.0
"""Other hosts may see a name for so long after it is gone: what network file systems remember of a folder."""


@dataclass(frozen=True, slots=True)
class GcPlan:
    """What would go, why, and how many bytes come free. Nothing has been touched."""

    bytes_free: int = 0
    packs_removed: tuple[str, ...] = ()
    packs_thinned: tuple[str, ...] = ()
    objects_removed: tuple[str, ...] = ()
    leftovers: tuple[Path, ...] = ()
    """Unfinished files that belong to nobody any more."""
    drop: tuple[ManifestName, ...] = ()
    """Manifests that will be marked as thinned."""
    reasons: tuple[str, ...] = ()
    """What goes and why, a sentence each."""
    kept: tuple[str, ...] = ()
    """What could have gone and stays, and why, a sentence each."""
    grace_s: float = GRACE_S
    why: Mapping[ManifestName, str] = field(default_factory=dict)
    """Goes into the marks of thinned manifests."""


@dataclass(slots=True)
class GcDone:
    """What went."""

    bytes_freed: int = 0
    packs_removed: int = 0
    packs_thinned: int = 0
    objects_removed: int = 0
    kept: list[str] = field(default_factory=list)
    """What stayed although it was planned, and why."""


def plan(
    store: Store,
    drop: Iterable[ManifestName] = (),
    *,
    grace_s: float = GRACE_S,
    why: str | Mapping[ManifestName, str] = "",
    released: Iterable[bytes] = (),
    only_packs: bool = False,
) -> GcPlan:
    """What dropping the bytes of these checkpoints, and everything that nobody needs, would give back.

    A pinned checkpoint is not dropped. `released` are chunks of checkpoints that were just removed. `only_packs` leaves out
    what needs all journals to be read.
    """
    wanted = sorted(set(drop))
    dropped = tuple(name for name in wanted if not manifests.has(store, name, manifests.PIN))
    kept = [f"checkpoint {name} of run {name.run} is pinned" for name in wanted if name not in dropped]
    found = references.of_manifests(store, dropped)
    found.released.update(released)
    removed, thinned, bytes_free, scattered = [], [], 0, 0
    words = {name: (why if isinstance(why, str) else why.get(name, "")) or "dropped" for name in dropped}
    reasons = [f"checkpoint {name} of run {name.run} is thinned: {words[name]}" for name in dropped]
    can_punch = direct.can_punch(atomic.temp_name(store.tmp))
    listed = list(_indexes(store, kept))
    noted = damaged.every(store)
    spare = duplicates.spare((index for index, _ in listed), found.chunks, noted)
    for index, path in listed:
        dead, free = _verdict(store, index, path, found, spare.get(index.pack, set()), can_punch=can_punch)
        if not dead:
            continue
        worthless = spare.get(index.pack, set()) & noted.get(index.pack, frozenset())
        settled = dead == len(worthless) and not sweeping.on_network(store)  # nothing in the making relies on what was found damaged
        if not settled and (reason := _too_young(store, index, path, found, grace_s)):
            kept.append(reason)
            continue
        bytes_free += free
        if dead == len(index):
            removed.append(index.pack)
            reasons.append(f"pack {index.pack[:8]}: no checkpoint needs it ({free} bytes)")
        elif worthless:
            thinned.append(index.pack)
            reasons.append(f"pack {index.pack[:8]}: {len(worthless)} of its chunks are damaged, and whole in another pack ({free} bytes)")
        elif free >= WORTH_BYTES:
            thinned.append(index.pack)
            reasons.append(f"pack {index.pack[:8]}: no checkpoint needs {dead} of its {len(index)} chunks ({free} bytes)")
        else:
            bytes_free -= free
            scattered += free
    if scattered:
        kept.append(f"{scattered:,} bytes that nobody needs lie between chunks of their packs that are needed: too few for a hole")
    leftovers = {**sweeping.leftovers(store, grace_s), **replays.unfinished(store, grace_s)}
    gone, waiting = ({}, {}) if only_packs else _objects_gone(store, found, grace_s)
    reasons += [f"{path.name}: unfinished, and nobody is writing it ({size} bytes)" for path, size in leftovers.items()]
    reasons += [f"object {key}: no record and no checkpoint refers to it ({one.size_bytes} bytes)" for key, one in gone.items()]
    bytes_free += sum(leftovers.values()) + sum(one.size_bytes for one in gone.values())
    if sum(one.size_bytes for one in waiting.values()) > bytes_free * _WORTH_A_WORD:
        kept.append(_waits(waiting, grace_s))
    return GcPlan(
        bytes_free, tuple(removed), tuple(thinned), tuple(gone), tuple(leftovers), dropped, tuple(reasons), tuple(kept), grace_s, words
    )


def _objects_gone(store: Store, found: References, grace_s: float) -> tuple[Unused, Unused]:
    """Objects that nobody refers to: those that go, and those that were put so lately that they wait."""
    unused = sweeping.unused_objects(store, sweeping.settled_objects(store, -1.0), found)
    settled = sweeping.settled_objects(store, grace_s) if unused else {}
    return {key: one for key, one in unused.items() if key in settled}, {key: one for key, one in unused.items() if key not in settled}


def _waits(waiting: Unused, grace_s: float) -> str:
    size, many = sum(one.size_bytes for one in waiting.values()), len(waiting) != 1
    return (
        f"{len(waiting)} object{'s' * many} of no record and no checkpoint ({size:,} bytes) {'are' if many else 'is'} less than "
        f"{grace_s / 60:.0f} minutes old and may belong to a checkpoint in the making: run gc again later"
    )


def _indexes(store: Store, kept: list[str]) -> Iterator[tuple[PackIndex, Path]]:
    """Every index that can be read, once a pack: a condemned one, left by a gc that was killed, stands for its pack."""
    condemned = set(sweeping.packs_with(store, indexes.CONDEMNED))
    for pack in sorted({*condemned, *sweeping.packs_with(store, indexes.INDEX)}):
        path = indexes.condemned_path(store, pack) if pack in condemned else indexes.index_path(store, pack)
        try:
            yield indexes.read(path), path
        except FileNotFoundError:
            continue
        except (Damaged, OSError) as problem:
            kept.append(f"pack {pack[:8]}: {problem}")


def _verdict(store: Store, index: PackIndex, path: Path, found: References, spare: set[bytes], *, can_punch: bool) -> tuple[int, int]:
    """(chunks that nobody needs here, bytes that come free)."""
    live = [entry for entry in index if entry[0] in found.chunks and entry[0] not in spare]
    dead = len(index) - len(live)
    if not dead or any(name in found.doubtful for name, _, _ in index):
        return 0, 0
    if not live:
        return dead, sweeping.allocated(indexes.pack_path(store, index.pack)) + sweeping.allocated(path)
    return dead, sum(size for _, size in thinning.holes(live, index.size_bytes)) if can_punch else 0


def _too_young(store: Store, index: PackIndex, path: Path, found: References, grace_s: float) -> str:
    """Why a pack with something to give back stays for now; empty if it need not."""
    try:
        made, used = indexes.pack_path(store, index.pack).stat(), path.stat()
    except FileNotFoundError:
        return ""  # a pack or an index without the other: nothing is lost with it
    if path.name.endswith(indexes.CONDEMNED):
        return ""
    age_s = time.time() - max(made.st_mtime, made.st_ctime)
    if age_s < grace_s and not any(name in found.released for name, _, _ in index):
        age = f"{max(0.0, age_s):.0f} s old"
        return f"pack {index.pack[:8]} is {age}, and what no checkpoint has of it may belong to one in the making: run gc again later"
    if time.time() - used.st_mtime < grace_s and sweeping.on_network(store):
        return f"pack {index.pack[:8]} was used less than {grace_s:.0f} s ago, and other machines may write to this store"
    return ""


def execute(store: Store, what: GcPlan, *, wait_s: float = WAIT_S) -> GcDone:
    """Do it. What is needed again by then stays. One gc at a time: a second one raises `CheckpointError`."""
    done = GcDone()
    with sweeping.alone(store) as got_it:
        if not got_it:
            raise CheckpointError(f"another gc is at work in {store.root}: wait for it, then run gc again")
        sweeping.recover(store)
        for path in what.leftovers:
            if path.parent == store.tmp or replays.is_unfinished(path):
                done.bytes_freed += sweeping.remove(path)
        for name in what.drop:
            _mark(store, name, what.why[name])
        _packs(store, what, done, wait_s)
        done.bytes_freed += sweeping.drop_notes(store)
        _objects(store, what, done, wait_s)
    return done


def _mark(store: Store, name: ManifestName, why: str) -> None:
    try:
        manifests.put_mark(store, name, manifests.THINNED, when=time.time(), why=why)
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        atomic.claim(manifests.path_of(store, name, manifests.THINNED))  # an empty mark takes no room, and counts


def _packs(store: Store, what: GcPlan, done: GcDone, wait_s: float) -> None:
    left = sweeping.packs_with(store, indexes.CONDEMNED)  # by a gc that was killed; one with a new index begins anew
    ours = {pack for pack in (*what.packs_removed, *what.packs_thinned, *left) if _condemn(store, pack)}
    waiting = {*ours, *left}
    orphans = [path for path in what.leftovers if path.suffix == indexes.PACK]
    if not waiting and not orphans:
        return
    if sweeping.on_network(store):
        time.sleep(_NETWORK_SETTLE_S)
    if not _writers_done(store, wait_s):
        for pack in ours:
            _pardon(store, pack)
        done.kept.append("a checkpoint is being written and may use what was to go: nothing of the packs was removed, run gc again")
        return
    for path in orphans:
        if not path.with_suffix(indexes.INDEX).exists() and path.stem not in waiting:
            done.bytes_freed += sweeping.remove(path)  # whoever wrote it has ended without an index
    found = references.of_manifests(store)
    condemned = [index for index, path in _indexes(store, done.kept) if path.suffix == indexes.CONDEMNED]
    needed = {name for index in condemned for name, _, _ in index if name in found.chunks}
    spare = duplicates.held_elsewhere(store, needed, waiting) if needed else set()
    # Whole packs first: on a full disk they make the room that a new index needs.
    for pack in sorted(waiting, key=lambda pack: pack not in what.packs_removed):
        _finish(store, pack, found, spare, done, ours=pack in ours)


def _condemn(store: Store, pack: str) -> bool:
    """Hide a pack from new checkpoints. A rename needs no room."""
    try:
        os.rename(indexes.index_path(store, pack), indexes.condemned_path(store, pack))
    except FileNotFoundError:
        return False
    return True


def _pardon(store: Store, pack: str) -> None:
    """Everything in it is needed: it is as it was."""
    try:
        os.rename(indexes.condemned_path(store, pack), indexes.index_path(store, pack))
    except FileNotFoundError:
        pass  # gone by itself: an index without a pack


def _writers_done(store: Store, wait_s: float) -> bool:
    """Wait for the leases that exist now to end; those taken later saw that the packs are condemned."""
    until = time.monotonic() + wait_s
    waited_for = leases.live(store)
    while waited_for:
        waited_for &= leases.live(store)
        if waited_for and time.monotonic() > until:
            return False
        if waited_for:
            time.sleep(0.05)
    return True


def _finish(store: Store, pack: str, found: References, spare: set[bytes], done: GcDone, *, ours: bool) -> None:
    """Settle a condemned pack by what is referred to now."""
    condemned = indexes.condemned_path(store, pack)
    try:
        index = indexes.read(condemned)
    except FileNotFoundError:
        return
    except Damaged as problem:
        done.kept.append(f"pack {pack[:8]}: {problem}")
        return
    if not indexes.pack_path(store, pack).exists():
        sweeping.remove(condemned)  # nothing is behind it
        return
    if any(name in found.doubtful for name, _, _ in index):
        live = list(index)
    else:
        live = [entry for entry in index if entry[0] in found.chunks and entry[0] not in spare]
    if not live:
        done.bytes_freed += sweeping.remove(indexes.pack_path(store, pack)) + sweeping.remove(indexes.index_path(store, pack))
        done.bytes_freed += sweeping.remove(condemned)
        done.packs_removed += 1
    elif ours and len(live) == len(index):
        thinning.give_back_rest(store, index)  # of an earlier gc, killed before it came to that
        _pardon(store, pack)
    else:
        freed = thinning.thin(store, index, live, untouched=ours)
        damaged.note(store, pack, damaged.noted(store, pack) & {name for name, _, _ in live})
        done.bytes_freed += freed
        done.packs_thinned += freed > 0


def _objects(store: Store, what: GcPlan, done: GcDone, wait_s: float) -> None:
    """Looked at first; then writers end, or put it again, which shows; then the references are read."""
    seen = sweeping.settled_objects(store, what.grace_s) if what.objects_removed else {}
    seen = {key: seen[key] for key in what.objects_removed if key in seen}
    if not seen:
        return
    if not _writers_done(store, wait_s):
        done.kept.append("a checkpoint is being written and may use what was to go: no object was removed, run gc again")
        return
    for key, one in sweeping.unused_objects(store, seen, references.of_manifests(store)).items():
        freed = sweeping.remove_object(store, key, one.mtime_ns)
        done.bytes_freed += freed
        done.objects_removed += freed > 0
