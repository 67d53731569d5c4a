"""Chunks back into memory: large reads straight to where the bytes belong, each chunk verified by its hash.

What the page cache holds is read through it, what it does not hold past it: packs are written past the cache, so the first
restore is cold, and a large direct read is several times faster then than the cache's readahead (measured: 4 GB/s against
1.6). Two threads read and verify by turns; both leave the interpreter to others meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from rearview.errors import Damaged
from rearview.store import direct
from rearview.store.direct import PAGE
from rearview.store.layout import Store
from rearview.store.packs import index as indexes
from rearview.store.packs.chunks import ChunkRef
from rearview.store.packs.hashing import digest
from rearview.store.packs.known import Known, Place

BLOCK_BYTES = 8 << 20
"""Read at once."""
THREADS = 2
_ALONE_BYTES = 16 << 20
"""Less than this is not worth a second thread."""


class _PackDamaged(Damaged):
    """Bytes of a pack are not what was written."""

    def __init__(self, pack: str, told: str) -> None:
        super().__init__(told)
        self.pack = pack


@dataclass(slots=True)
class _Block:
    """Chunks that lie one behind the other in a pack, and where each belongs."""

    pack: str
    offset: int
    size: int = 0
    parts: list[tuple[bytes, memoryview]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _File:
    cached: int
    """Reads through the cache."""
    past: int
    """Reads past it; -1 where that is not offered."""


class ChunkReader:
    """Reads chunks; keeps packs open between calls, so use one for all buffers of a checkpoint and close it."""

    def __init__(self, store: Store, known: Known, threads: int = THREADS) -> None:
        self.store = store
        self.known = known
        self._threads = threads
        self._files: dict[str, _File] = {}
        self._bounces: list[memoryview] = []
        self._lock = threading.Lock()

    def into(self, refs: Sequence[ChunkRef], dest: memoryview, verify: bool = True) -> None:
        """The bytes of a buffer into memory of exactly its size."""
        self.many([(refs, dest)], verify)

    def many(self, wanted: Iterable[tuple[Sequence[ChunkRef], memoryview]], verify: bool = True) -> None:
        """Several buffers at once: what is neighbours on disk is read together, whichever buffer it belongs to."""
        parts = [part for refs, dest in wanted for part in _split(refs, dest)]
        places, looked = self._places(parts), set[str]()
        while True:
            try:
                self._read(parts, places, verify)
            except _PackDamaged as problem:
                if problem.pack in looked:
                    raise
                looked.add(problem.pack)
                self.known.look_through(problem.pack)
                before, places = places, self._places(parts)
                if places == before:
                    raise
            else:  # perhaps after gc took a copy while we read, or one was damaged: there was another
                return

    def _places(self, parts: list[tuple[ChunkRef, memoryview]]) -> dict[bytes, Place]:
        places = self.known.places(ref.digest for ref, _ in parts)
        for ref, _ in parts:
            self._must_be_there(ref, places.get(ref.digest))
        return places

    def _read(self, parts: list[tuple[ChunkRef, memoryview]], places: dict[bytes, Place], verify: bool) -> None:
        blocks = _blocks(parts, places)
        total = sum(block.size for block in blocks)
        if total < _ALONE_BYTES or self._threads < 2:
            self._work(iter(blocks), verify)
            return
        self._together(iter(blocks), verify)

    def _must_be_there(self, ref: ChunkRef, place: Place | None) -> None:
        if place is None:
            why = next(iter(self.known.damaged.values()), "")
            more = f" ({why})" if why else ": it was removed, or the copy of the store is incomplete"
            raise Damaged(f"chunk {ref.digest.hex()} is in no pack of the store{more}")
        if place.size != ref.size:
            raise Damaged(f"chunk {ref.digest.hex()} has {place.size} bytes in pack {place.pack}, not {ref.size}: restore a copy")

    def _together(self, blocks: Iterator[_Block], verify: bool) -> None:
        problems: list[BaseException] = []
        shared = _Shared(blocks)

        def help_out() -> None:
            try:
                self._work(shared, verify)
            except BaseException as problem:  # noqa: BLE001 (raised again by the caller's thread)
                problems.append(problem)
                shared.stop()

        helpers = [threading.Thread(target=help_out, name="rearview-read", daemon=True) for _ in range(self._threads - 1)]
        for helper in helpers:
            helper.start()
        try:
            self._work(shared, verify)
        finally:
            shared.stop()
            for helper in helpers:
                helper.join()
        if problems:
            raise problems[0]

    def _work(self, blocks: Iterator[_Block], verify: bool) -> None:
        bounce: memoryview | None = None
        try:
            for block in blocks:
                file = self._open(block.pack)
                try:
                    if file.past < 0 or block.size < PAGE or direct.is_cached(file.cached, block.offset, block.size):
                        _through_cache(file.cached, block, verify)
                        continue
                    if bounce is None:
                        bounce = self._bounce()
                    if not _past_cache(file.past, block, bounce, verify):
                        _through_cache(file.cached, block, verify)
                except OSError as problem:
                    told = f"pack {block.pack} cannot be read at offset {block.offset}: {problem.strerror}"
                    raise _PackDamaged(block.pack, told) from problem
        finally:
            if bounce is not None:
                self._bounces.append(bounce)

    def _bounce(self) -> memoryview:
        """Whole pages to read into, from one call to the next: new memory costs many times the copy out of it."""
        try:
            return self._bounces.pop()
        except IndexError:
            return memoryview(direct.aligned_memory(BLOCK_BYTES + 2 * PAGE))

    def _open(self, pack: str) -> _File:
        with self._lock:
            file = self._files.get(pack)
            if file is None:
                path = indexes.pack_path(self.store, pack)
                try:
                    cached = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError as problem:
                    told = f"pack {pack} cannot be opened: {problem.strerror}; restore {path.name} from a copy"
                    raise _PackDamaged(pack, told) from problem
                file = self._files[pack] = _File(cached, direct.open_direct(path))
            return file

    def close(self) -> None:
        """Let go of the packs."""
        with self._lock:
            for file in self._files.values():
                os.close(file.cached)
                if file.past >= 0:
                    os.close(file.past)
            self._files.clear()
            self._bounces.clear()

    def __enter__(self) -> ChunkReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Shared:
    """Blocks that several threads take from."""

    def __init__(self, blocks: Iterator[_Block]) -> None:
        self._blocks = blocks
        self._lock = threading.Lock()

    def __iter__(self) -> _Shared:
        return self

    def __next__(self) -> _Block:
        with self._lock:
            return next(self._blocks)

    def stop(self) -> None:
        with self._lock:
            self._blocks = iter(())


def _split(refs: Sequence[ChunkRef], dest: memoryview) -> Iterator[tuple[ChunkRef, memoryview]]:
    flat = dest if dest.ndim == 1 and dest.format == "B" else dest.cast("B")
    if sum(ref.size for ref in refs) != flat.nbytes:
        raise ValueError(f"a buffer of {sum(ref.size for ref in refs)} bytes does not fit memory of {flat.nbytes}")
    at = 0
    for ref in refs:
        yield ref, flat[at : at + ref.size]
        at += ref.size


def _blocks(parts: list[tuple[ChunkRef, memoryview]], places: dict[bytes, Place]) -> list[_Block]:
    """In the order of the disk: each pack from its beginning."""
    order = sorted(parts, key=lambda part: (places[part[0].digest].pack, places[part[0].digest].offset))
    blocks: list[_Block] = []
    for ref, view in order:
        place = places[ref.digest]
        last = blocks[-1] if blocks else None
        if last is None or (last.pack, last.offset + last.size) != (place.pack, place.offset) or last.size + ref.size > BLOCK_BYTES:
            last = _Block(place.pack, place.offset)
            blocks.append(last)
        last.parts.append((ref.digest, view))
        last.size += ref.size
    return blocks


def _through_cache(fd: int, block: _Block, verify: bool) -> None:
    """Chunk by chunk: what was just copied is still near the core when it is hashed."""
    at = block.offset
    for name, view in block.parts:
        left, end = view, at + view.nbytes
        while left.nbytes:
            count = os.preadv(fd, [left], end - left.nbytes)
            if not count:
                told = f"pack {block.pack} ends before chunk {name.hex()} does: restore {block.pack}{indexes.PACK} from a copy"
                raise _PackDamaged(block.pack, told)
            left = left[count:]
        if verify:
            _verify(block.pack, name, view)
        at = end


def _past_cache(fd: int, block: _Block, bounce: memoryview, verify: bool) -> bool:
    """One read of whole pages, then each chunk to its place. False if the file system wants it otherwise."""
    first = block.offset // PAGE * PAGE
    length = direct.up(block.offset + block.size) - first
    got = 0
    try:
        while got < block.offset - first + block.size:
            count = os.preadv(fd, [bounce[got:length]], first + got)
            if not count or count % PAGE:
                return False
            got += count
    except OSError:
        return False  # the ordinary way says what is wrong
    source = direct.address_of(bounce) + block.offset - first
    for name, view in block.parts:
        ctypes.memmove(direct.address_of(view), source, view.nbytes)  # unlike a slice, leaves the interpreter to others
        source += view.nbytes
        if verify:
            _verify(block.pack, name, view)
    return True


def _verify(pack: str, name: bytes, view: memoryview) -> None:
    if digest(view) != name:
        told = f"chunk {name.hex()} in pack {pack} is damaged: its bytes have another hash"
        raise _PackDamaged(pack, f"{told}; restore {pack}{indexes.PACK} from a copy")


class PackReader:
    """The buffers of one checkpoint by their numbers: what `state.restore` reads from."""

    def __init__(self, store: Store, known: Known, buffers: Sequence[Sequence[ChunkRef]]) -> None:
        self._chunks = ChunkReader(store, known)
        self._buffers = buffers

    def size(self, buffer: int) -> int:
        """Bytes of a buffer."""
        return sum(ref.size for ref in self._buffers[buffer])

    def into(self, buffer: int, dest: memoryview) -> None:
        """The verified bytes of a buffer into memory of exactly its size."""
        self._chunks.into(self._buffers[buffer], dest)

    def many(self, wanted: Iterable[tuple[int, memoryview]]) -> None:
        """Several buffers at once: the quickest way, above all for many small ones."""
        self._chunks.many((self._buffers[buffer], dest) for buffer, dest in wanted)

    def close(self) -> None:
        """Let go of the packs."""
        self._chunks.close()


def read_into(store: Store, known: Known, refs: Sequence[ChunkRef], dest: memoryview, verify: bool = True) -> None:
    """The bytes of one buffer into memory of exactly its size. `Damaged` names the pack and the chunk."""
    with ChunkReader(store, known) as reader:
        reader.into(refs, dest, verify)


def read_buffer(store: Store, known: Known, refs: Sequence[ChunkRef]) -> bytes:
    """The bytes of one buffer."""
    memory = bytearray(sum(ref.size for ref in refs))
    if memory:
        read_into(store, known, refs, memoryview(memory))
    return bytes(memory)
