"""Putting the chunks of one checkpoint into the store: hash, skip what is there, write the rest as packs.

Runs on a background thread beside the training: everything that takes long (hashing, writing, waiting for the disk) leaves
the interpreter to the others. Nothing is visible before `finish`: packs are temporary files until all of them are on the
disk, then each gets its name and its index. A lease is held from the first chunk until `close`, which comes after the
manifest: gc keeps its hands off what a checkpoint in the making relies on.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rearview.errors import CheckpointError
from rearview.store import atomic, direct, leases
from rearview.store.layout import Store
from rearview.store.packs import index as indexes
from rearview.store.packs import layout, stream
from rearview.store.packs.chunks import CHUNK_BYTES, Names
from rearview.store.packs.hashing import digest
from rearview.store.packs.index import PackIndex
from rearview.store.packs.known import Known, Stamp
from rearview.store.packs.layout import PackPlan, Piece

_TRIES = 3
"""How often a chunk is looked for anew because gc moved it meanwhile."""


@dataclass(frozen=True, slots=True)
class Written:
    """What `finish` did."""

    new_bytes: int
    """Of chunks that the store did not have."""
    packs: Mapping[str, Stamp | None]
    """In which all chunks of the checkpoint are, whoever wrote them, as they are now."""


class Packer:
    """The chunks of one checkpoint. Used by one thread, once: `add` ..., `finish`, the manifest, `close`.

    >>> with Packer(store, known) as packer:                                                    # doctest: +SKIP
    ...     refs = packer.add(memoryview(staging)[:size])
    ...     packer.finish()
    ...     manifests.write(store, manifest)
    """

    def __init__(self, store: Store, known: Known, pack_bytes: int = layout.PACK_BYTES) -> None:
        self.store = store
        self.known = known
        self._pack_bytes = pack_bytes
        self._lease: leases.Lease | None = None
        self._pieces: dict[bool, dict[bytes, Piece]] = {False: {}, True: {}}
        """New chunks, constant ones apart."""
        self._held: set[str] = set()
        """Packs this checkpoint relies on, looked at since the lease was taken."""
        self._given_up = False

    def add(self, view: memoryview, constant: bool = False) -> Names:
        """Hash a buffer in chunks; those the store does not have are remembered. The memory must stay as it is until `finish`."""
        self._take_lease()
        flat = view if view.ndim == 1 and view.format == "B" else view.cast("B")
        if 0 < flat.nbytes <= CHUNK_BYTES:  # most buffers of most programs
            return (self._add(flat, constant, 0),)
        address = direct.address_of(flat)
        starts = range(0, flat.nbytes, CHUNK_BYTES)
        return tuple(self._add(flat[start : start + CHUNK_BYTES], constant, address + start if address else 0) for start in starts)

    def _add(self, part: memoryview, constant: bool, address: int) -> bytes:
        self._go_on()
        name = digest(part)
        if not self._has(name):
            self._pieces[constant][name] = (name, part, address or direct.address_of(part))
        return name

    def add_named(self, chunks: Sequence[Piece], constant: bool = False) -> None:
        """Many chunks whose names are known already; otherwise as `add`."""
        if not chunks:
            return
        self._take_lease()
        self._go_on()
        pieces, others = self._pieces[constant], self._pieces[not constant]
        for chunk, pack in zip(chunks, self.known.packs_of([name for name, _, _ in chunks]), strict=True):
            name = chunk[0]
            if (pack is None and name not in others) or not self._has(name):
                pieces.setdefault(name, chunk)

    def relies_on(self, packs: Mapping[str, Stamp | None]) -> bool:
        """Whether packs that an earlier checkpoint wrote or relied on are what they were. Then their chunks are held as if added."""
        self._take_lease()
        return all(map(self._hold, packs)) and self.known.stamps(packs) == packs

    def missing(self, names: Sequence[bytes]) -> list[bytes]:
        """Of chunks that an earlier checkpoint has: those that are not there any more. The others are held as if added."""
        self._take_lease()
        if all(pack is not None and self._hold(pack) for pack in set(self.known.packs_of(names))):  # of thousands of chunks a few packs
            return []
        absent = [name for name in names if not self._has(name)]
        if absent:
            self.known.recall(absent)
        return [name for name in absent if not self._has(name)]

    def _has(self, name: bytes) -> bool:
        """Whether a chunk need not be written: it is in the store for certain, or among the new ones."""
        if name in self._pieces[False] or name in self._pieces[True]:
            return True
        for _ in range(_TRIES):
            pack = self.known.pack_of(name)
            if pack is None:
                return False
            if self._hold(pack):  # else gone, or thinned: look where it is now
                return True
        return False

    def _hold(self, pack: str) -> bool:
        """Rely on a pack, if it is still what it was."""
        if pack not in self._held and self.known.hold(pack):
            self._held.add(pack)
        return pack in self._held

    def finish(self) -> Written:
        """Write what is new and wait for the disk. After an error nothing of it is there."""
        plans = [
            pack
            for constant in (True, False)
            for pack in layout.plan(list(self._pieces[constant].values()), constant=constant, pack_bytes=self._pack_bytes)
        ]
        published = self._write(plans)
        for found in published:
            self.known.add(found)
        self._pieces = {False: {}, True: {}}
        return Written(
            sum(found.chunk_bytes for found in published), self.known.stamps(self._held.union(found.pack for found in published))
        )

    def _write(self, plans: list[PackPlan]) -> list[PackIndex]:
        """Each pack into a temporary file; names only when all of them are on the disk: a full disk leaves nothing behind."""
        temps: list[Path] = []
        try:
            for plan in plans:
                temps.append(atomic.temp_name(self.store.tmp))
                self._write_one(temps[-1], plan)
            self._go_on()
            return [self._publish(temp, plan) for temp, plan in zip(temps, plans, strict=True)]
        except OSError as problem:
            raise self._failed(problem) from problem
        finally:
            for temp in temps:
                temp.unlink(missing_ok=True)

    def _failed(self, problem: OSError) -> CheckpointError:
        words = "the disk is full; `rearview gc` frees room" if problem.errno == errno.ENOSPC else str(problem.strerror or problem)
        return CheckpointError(f"a checkpoint could not be written to {self.store.root}: {words}")

    def _write_one(self, path: Path, plan: PackPlan) -> None:
        file = direct.NewFile(path, plan.size_bytes)
        try:
            stream.write(file, plan, self._go_on)
            file.finish()
        except BaseException:
            file.discard()
            raise

    def _publish(self, temp: Path, plan: PackPlan) -> PackIndex:
        pack = indexes.new_id()
        found = indexes.make(pack, plan.size_bytes, plan.entries(), constant=plan.constant)
        atomic.adopt(temp, indexes.pack_path(self.store, pack), durable=False)  # the index's folder sync is its own as well
        atomic.publish(indexes.index_path(self.store, pack), found.encode(), tmp=self.store.tmp)
        return found

    def give_up(self) -> None:
        """From another thread: stop at the next block; `add` or `finish` raises, and nothing is left behind."""
        self._given_up = True

    def _go_on(self) -> None:
        if self._given_up:
            raise CheckpointError("the checkpoint was given up: the program ends")
        if self._lease is not None:
            self._lease.refresh()

    def _take_lease(self) -> None:
        if self._lease is None:
            try:
                self._lease = leases.take(self.store)
            except OSError as problem:
                raise self._failed(problem) from problem

    def close(self) -> None:
        """The manifest is there, or will not be: gc may look at this checkpoint's chunks as at any other."""
        self._pieces = {False: {}, True: {}}
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def __enter__(self) -> Packer:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
