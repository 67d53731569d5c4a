"""Chunks in packs: what is put comes back, once, from wherever it lay in memory, and nothing half is ever there."""

from __future__ import annotations

import errno
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from rearview.errors import CheckpointError, Damaged
from rearview.store import direct, leases, packs
from rearview.store.layout import Store
from rearview.store.manifests import Buffer
from rearview.store.packs import ChunkRef, Known, Packer, digest, index
from tests.unit.store.checkpoints import new_store, staged

MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def put(store: Store, *buffers: bytes, known: Known | None = None, **how: Any) -> list[list[ChunkRef]]:
    with Packer(store, known or Known(store)) as packer:
        refs = [added(packer, view, **how) for view in staged(*buffers)]
        packer.finish()
    return refs


def added(packer: Packer, view: memoryview, **how: Any) -> list[ChunkRef]:
    return packs.refs_of(view.nbytes, packer.add(view, **how))


def names(refs: list[ChunkRef]) -> tuple[bytes, ...]:
    return tuple(ref.digest for ref in refs)


def files(store: Store, suffix: str) -> list[Path]:
    return sorted(index.folder_of(store).glob("*" + suffix))


def nothing_left(store: Store) -> bool:
    return not list(store.tmp.iterdir()) and not list(leases.folder_of(store).iterdir())


@pytest.mark.parametrize("size", [1, 7, 4095, 4096, 4097, 65536, MIB - 1, MIB, MIB + 1, 3 * MIB + 5, 9 * MIB])
def test_what_is_put_comes_back(store: Store, size: int) -> None:
    data = noise(size)
    (refs,) = put(store, data)
    assert [ref.size for ref in refs] == [min(MIB, size - at) for at in range(0, size, MIB)]
    assert packs.read_buffer(store, Known(store), refs) == data
    assert nothing_left(store)


def test_an_empty_buffer_has_no_chunks(store: Store) -> None:
    assert put(store, b"") == [[]]
    assert packs.read_buffer(store, Known(store), []) == b""
    assert not files(store, ".pack")


def test_memory_that_is_not_at_a_page_or_cannot_be_written(store: Store) -> None:
    data = noise(3 * MIB + 17)
    memory = memoryview(bytearray(data))
    with Packer(store, Known(store)) as packer:
        refs = [added(packer, view) for view in (memory[1:], memoryview(data)[3:], memoryview(data)[:100])]
        packer.finish()
    known = Known(store)
    assert [packs.read_buffer(store, known, one) for one in refs] == [data[1:], data[3:], data[:100]]


def test_other_element_types_are_bytes_too(store: Store) -> None:
    numbers = memoryview(bytearray(noise(8000))).cast("d")
    with Packer(store, Known(store)) as packer:
        refs = added(packer, numbers)
        packer.finish()
    back = memoryview(bytearray(8000)).cast("d")
    packs.read_into(store, Known(store), refs, back)
    assert back.tobytes() == numbers.tobytes()


def test_what_is_there_is_not_written_again(store: Store) -> None:
    data = noise(2 * MIB + 9)
    known = Known(store)
    first = put(store, data, known=known)
    for later in (known, Known(store)):
        with Packer(store, later) as packer:
            changed = data[:MIB] + noise(MIB, 2) + data[2 * MIB :]
            refs = [added(packer, view) for view in staged(data, changed, changed)]
            written = packer.finish()
        assert refs[0] == first[0]
        assert written.new_bytes == (MIB if later is known else 0)
    assert len(files(store, ".pack")) == len(files(store, ".index")) == 2


def test_equal_bytes_have_one_digest_and_others_another() -> None:
    one, two = packs.names_of(b"a"), packs.names_of(b"b")
    assert packs.buffer_digest(one) == packs.buffer_digest(list(one))
    assert packs.buffer_digest(one) != packs.buffer_digest(two)
    assert len(packs.names_of(bytes(MIB + 3))) == 2


def test_names_that_are_not_those_of_a_buffer_are_refused() -> None:
    def refs(size: int, *texts: str) -> list[ChunkRef]:
        return Buffer(size, "", False, "", texts).refs()

    assert refs(MIB + 3, "00" * 16, "11" * 16) == [ChunkRef(bytes(16), MIB), ChunkRef(b"\x11" * 16, 3)]
    for size, text in ((MIB + 3, "00" * 16), (3, "00" * 15), (3, "0x" * 16), (3, "../" + "0" * 29)):
        with pytest.raises((Damaged, ValueError)):
            refs(size, text)


def test_constant_chunks_have_packs_of_their_own(store: Store) -> None:
    with Packer(store, Known(store)) as packer:
        for k, view in enumerate(staged(*[noise(MIB, k) for k in range(4)])):
            packer.add(view, constant=k % 2 == 0)
        packer.finish()
    found = [index.read(path) for path in files(store, ".index")]
    assert sorted(one.constant for one in found) == [False, True]
    assert {len(one) for one in found} == {2}
    assert [index.peek(path) for path in files(store, ".index")] == [(one.constant, 2) for one in found]


def test_chunks_from_pages_lie_at_pages_and_packs_have_a_size(store: Store) -> None:
    data = noise(6 * MIB + 100)
    with Packer(store, Known(store), pack_bytes=2 * MIB) as packer:
        for view in staged(data, noise(5000, 1)):
            packer.add(view)
        packer.finish()
    found = [index.read(path) for path in files(store, ".index")]
    assert len(found) == 4
    large = [(offset, size) for one in found for _, offset, size in one if size == MIB]
    assert len(large) == 6
    assert all(offset % direct.PAGE == 0 for offset, _ in large)
    for one in found:
        assert index.pack_path(store, one.pack).stat().st_size == one.size_bytes
        assert one.size_bytes % direct.PAGE == 0


def test_neighbours_are_written_together(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = os.pwritev

    def count(fd: int, parts: Any, offset: int) -> int:
        calls.append(sum(part.nbytes for part in parts))
        return real(fd, parts, offset)

    monkeypatch.setattr(os, "pwritev", count)
    put(store, noise(20 * MIB), *[noise(70_000, k) for k in range(100)])
    assert len(calls) <= 5
    assert sum(calls) >= 27 * MIB - 400_000


def test_short_writes_go_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, offset: real(fd, [parts[0][: 4 * direct.PAGE]], offset))
    data = [noise(MIB + 3), noise(90_001, 1), noise(10, 2)]
    refs = put(store, *data)
    monkeypatch.undo()
    assert [packs.read_buffer(store, Known(store), one) for one in refs] == data


@pytest.mark.parametrize("where", ["open", "write"])
def test_buffered_where_the_cache_cannot_be_passed(store: Store, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    real_open, real_write = os.open, os.pwritev
    refused = []

    def refuse_open(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_DIRECT:
            refused.append(path)
            raise OSError(errno.EINVAL, "no")
        return real_open(path, flags, *rest, **more)

    def refuse_write(fd: int, parts: Any, offset: int) -> int:
        if not refused:
            refused.append(fd)
            raise OSError(errno.EINVAL, "no")
        return real_write(fd, parts, offset)

    if where == "open":
        monkeypatch.setattr(os, "open", refuse_open)
    else:
        monkeypatch.setattr(os, "pwritev", refuse_write)
    data = noise(2 * MIB + 1)
    (refs,) = put(store, data)
    assert packs.read_buffer(store, Known(store), refs) == data
    assert refused


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["pwritev", "fsync", "rename"])
def test_a_failing_disk_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch, code: int, call: str) -> None:
    real = getattr(os, call)
    seen = []

    def fail(*args: Any) -> Any:
        seen.append(args)
        if len(seen) == (2 if call == "pwritev" else 3 if call == "fsync" else 2):
            raise OSError(code, os.strerror(code))
        return real(*args)

    data = noise(6 * MIB)
    known = Known(store)
    with Packer(store, known, pack_bytes=2 * MIB) as packer:
        packer.add(staged(data)[0])
        monkeypatch.setattr(os, call, fail)
        with pytest.raises(CheckpointError, match="full" if code == errno.ENOSPC else os.strerror(code)):
            packer.finish()
    monkeypatch.undo()
    assert nothing_left(store)
    if call != "rename":
        assert not files(store, "")
    (refs,) = put(store, data, known=known)
    assert packs.read_buffer(store, Known(store), refs) == data


def test_giving_up_leaves_nothing(store: Store) -> None:
    with Packer(store, Known(store)) as packer:
        packer.add(staged(noise(MIB))[0])
        packer.give_up()
        with pytest.raises(CheckpointError, match="given up"):
            packer.finish()
    assert nothing_left(store)
    assert not files(store, "")


def test_chunks_whose_names_are_known_are_put_as_others_are(store: Store) -> None:
    data = [noise(5000, 1), noise(100_000, 2), noise(5000, 1), noise(70_000, 3)]
    views = staged(*data)
    chunks = [(digest(view), view, direct.address_of(view)) for view in views]
    (there,) = put(store, data[3])
    known = Known(store)
    with Packer(store, known) as packer:
        packer.add_named([])
        packer.add_named(chunks)
        packer.add_named(chunks[:1], constant=True)
        written = packer.finish()
        assert written.new_bytes == 105_000
        assert known.pack_of(there[0].digest) in written.packs
        assert packer.relies_on(written.packs)
    every = Known(store)
    assert [
        packs.read_buffer(store, every, packs.refs_of(len(one), (name,))) for one, (name, _, _) in zip(data, chunks, strict=True)
    ] == data
    assert len(files(store, ".pack")) == 2


def test_damaged_bytes_are_refused_by_name(store: Store) -> None:
    (refs,) = put(store, noise(3 * MIB))
    (path,) = files(store, ".pack")
    with path.open("r+b") as file:
        file.seek(MIB + 77)
        file.write(b"?")
    with pytest.raises(Damaged, match=f"{refs[1].digest.hex()}.*{path.stem}"):
        packs.read_buffer(store, Known(store), refs)
    assert packs.read_buffer(store, Known(store), refs[:1]) == noise(3 * MIB)[:MIB]
    os.truncate(path, MIB)
    with pytest.raises(Damaged, match=path.stem):
        packs.read_buffer(store, Known(store), refs[1:2])
    path.unlink()
    with pytest.raises(Damaged, match="in no pack"):
        packs.read_buffer(store, Known(store), refs)


def test_a_pack_that_vanishes_under_a_reader_is_named(store: Store) -> None:
    known = Known(store)
    (refs,) = put(store, noise(MIB), known=known)
    files(store, ".pack")[0].unlink()
    with pytest.raises(Damaged, match="missing|in no pack"):
        packs.read_buffer(store, known, refs)


def test_memory_of_another_size_is_refused(store: Store) -> None:
    (refs,) = put(store, noise(100))
    with pytest.raises(ValueError, match="100 bytes"):
        packs.read_into(store, Known(store), refs, memoryview(bytearray(99)))


@pytest.mark.parametrize("cold", [True, False])
def test_many_buffers_at_once(store: Store, cold: bool) -> None:
    data = [noise(random.Random(k).randrange(1, 3 * MIB), k) for k in range(20)]
    refs = put(store, *data)
    if not cold:
        for path in files(store, ".pack"):
            path.read_bytes()
    reader = packs.PackReader(store, Known(store), refs)
    memory = [memoryview(bytearray(reader.size(k))) for k in range(20)]
    reader.many((k, memory[k]) for k in range(1, 20))
    reader.into(0, memory[0])
    reader.close()
    assert [bytes(one) for one in memory] == data


def test_a_failure_in_the_second_thread_is_raised(store: Store) -> None:
    (refs,) = put(store, noise(40 * MIB))
    (path,) = files(store, ".pack")
    with path.open("r+b") as file:
        file.seek(39 * MIB)
        file.write(b"?")
    for _ in range(5):
        with pytest.raises(Damaged, match=refs[39].digest.hex()):
            packs.read_buffer(store, Known(store), refs)
    assert not [thread for thread in threading.enumerate() if thread.name == "rearview-read"]


def test_low_priority_is_of_the_thread_alone() -> None:
    found = []

    def work() -> None:
        direct.low_priority()
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [min(before + 5, 19)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_the_lease_of_a_dead_process_counts_for_nothing(store: Store) -> None:
    lease = leases.take(store)
    text = lease.path.read_text()
    assert leases.live(store) == {lease.path.name}
    lease.path.write_text(text.replace('"started": ', '"started": 1'))  # the number is in use by another process
    assert not leases.live(store)
    assert not lease.path.exists()


def test_the_lease_of_another_host_counts_while_it_is_refreshed(store: Store) -> None:
    lease = leases.take(store)
    lease.path.write_text(lease.path.read_text().replace('"host": "', '"host": "far'))
    assert leases.live(store) == {lease.path.name}
    os.utime(lease.path, (1, 1))
    assert not leases.live(store)
    other = leases.take(store)
    other.path.write_text("from a later rearview")
    assert leases.live(store) == {other.path.name}
