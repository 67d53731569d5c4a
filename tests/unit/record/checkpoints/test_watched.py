"""Memory that the kernel watches: every write is seen, whoever makes it; what cannot be told is called written."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rearview.record.checkpoints import pages, watched
from rearview.record.checkpoints.pages import PAGE, Pages
from rearview.record.checkpoints.watched import Place, Watch, Watched

SIZE = 64 * PAGE


@pytest.fixture
def kernel() -> Iterator[Pages]:
    found = pages.here()
    if found is None:
        pytest.skip("this kernel does not watch pages")
    yield found
    found.close()


@pytest.fixture
def memory(kernel: Pages) -> Iterator[mmap.mmap]:
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[:] = b"\1" * SIZE
        yield memory


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _whole(memory: mmap.mmap) -> list[pages.Span]:
    start = _address(memory)
    return [(start, start + SIZE)]


def _by_store(memory: mmap.mmap, at: int) -> None:
    memory[at] = 7


def _by_the_same_byte(memory: mmap.mmap, at: int) -> None:
    memory[at] = memory[at]


def _by_native_code(memory: mmap.mmap, at: int) -> None:
    ctypes.memset(_address(memory) + at, 7, 1)


def _by_a_read_of_a_file(memory: mmap.mmap, at: int) -> None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(b"7")
        file.seek(0)
        assert file.readinto(memoryview(memory)[at : at + 1]) == 1


def _by_another_process(memory: mmap.mmap, at: int) -> None:
    """As a debugger would."""
    reader, writer = os.pipe()
    address, me = _address(memory) + at, os.getpid()
    child = os.fork()
    if not child:
        os.read(reader, 1)
        with open(f"/proc/{me}/mem", "r+b", buffering=0) as theirs:
            theirs.seek(address)
            theirs.write(b"7")
        os._exit(0)
    os.write(writer, b"!")
    assert os.waitpid(child, 0)[1] == 0
    os.close(reader), os.close(writer)


def _by_giving_it_back(memory: mmap.mmap, at: int) -> None:
    memory.madvise(mmap.MADV_DONTNEED, at // PAGE * PAGE, PAGE)


@pytest.mark.parametrize(
    "write", [_by_store, _by_the_same_byte, _by_native_code, _by_a_read_of_a_file, _by_another_process, _by_giving_it_back]
)
def test_each_write_is_seen(write: object, kernel: Pages, memory: mmap.mmap) -> None:
    if write is _by_another_process and os.geteuid() != 0:
        pytest.skip("needs root")
    (span,) = whole = _whole(memory)
    assert kernel.watch(whole) == whole
    assert kernel.unwritten(whole) == whole
    assert callable(write)
    write(memory, 5 * PAGE + 3)
    assert kernel.unwritten(whole) == [(span[0], span[0] + 5 * PAGE), (span[0] + 6 * PAGE, span[1])]
    kernel.let_go(whole)
    assert kernel.unwritten(whole) == []


def test_memory_that_was_never_used_is_watched_as_well(kernel: Pages) -> None:
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        (span,) = whole = _whole(memory)
        assert memory[7 * PAGE] == 0  # read, not written: the page of zeros that all share
        assert kernel.watch(whole) == kernel.unwritten(whole) == whole
        assert memory[9 * PAGE] == 0
        assert kernel.unwritten(whole) == whole
        memory[7 * PAGE] = memory[9 * PAGE] = 1
        assert kernel.unwritten(whole) == [
            (span[0], span[0] + 7 * PAGE),
            (span[0] + 8 * PAGE, span[0] + 9 * PAGE),
            (span[0] + 10 * PAGE, span[1]),
        ]


def test_more_stretches_than_one_answer_has(kernel: Pages) -> None:
    count = 4 * pages._ANSWERS
    with mmap.mmap(-1, count * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        start = _address(memory)
        whole = [(start, start + count * PAGE)]
        assert kernel.watch(whole) == whole
        for at in range(0, count, 2):
            memory[at * PAGE] = 1
        assert kernel.unwritten(whole) == [(start + at * PAGE, start + (at + 1) * PAGE) for at in range(1, count, 2)]


def test_memory_that_others_can_write_is_not_watched(kernel: Pages, tmp_path: Path) -> None:
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS) as memory:
        assert kernel.watch(_whole(memory)) == kernel.unwritten(_whole(memory)) == []
    (tmp_path / "file").write_bytes(b"1" * SIZE)
    with open(tmp_path / "file", "r+b") as file, mmap.mmap(file.fileno(), SIZE, flags=mmap.MAP_PRIVATE) as memory:
        assert kernel.watch(_whole(memory)) == kernel.unwritten(_whole(memory)) == []


def test_memory_that_was_freed_and_is_anothers_is_not_called_unwritten(kernel: Pages) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = library.mmap(None, SIZE, 3, flags, -1, 0)
    whole = [(start, start + SIZE)]
    assert kernel.watch(whole) == whole
    assert library.munmap(start, SIZE) == 0
    assert kernel.unwritten(whole) == []
    assert library.mmap(start, SIZE, 3, flags | 0x10, -1, 0) == start  # MAP_FIXED: just there again
    assert kernel.unwritten(whole) == []
    kernel.let_go(whole)
    library.munmap(start, SIZE)


def test_a_forked_child_has_memory_of_its_own(kernel: Pages, memory: mmap.mmap) -> None:
    whole = _whole(memory)
    assert kernel.watch(whole) == whole

    child = os.fork()
    if not child:
        _by_store(memory, 3)
        kernel.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert kernel.unwritten(whole) == whole, "it wrote to its own"
    _by_store(memory, SIZE - 1)
    assert kernel.unwritten(whole) == [(whole[0][0], whole[0][1] - PAGE)]


def test_files_that_came_after_it_was_closed_by_the_program_stay_open(tmp_path: Path) -> None:
    program = """
import os
from rearview.record.checkpoints import pages
kernel = pages.here()
os.closerange(3, 100)
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
assert kernel.watch([(4096, 8192)]) == kernel.unwritten([(4096, 8192)]) == []
kernel.close()
for file in files:
    os.fstat(file)
"""
    if (found := pages.here()) is None:
        pytest.skip("this kernel does not watch pages")
    found.close()
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


# -- buffers -----------------------------------------------------------------------------------------------------------


def _places(*arrays: np.ndarray) -> list[Place]:
    return [(array.ctypes.data, array.nbytes) for array in arrays]


def _begun(all_of_it: Watched, *arrays: np.ndarray) -> list[Watch]:
    found = [watch for watch in all_of_it.begin(_places(*arrays)) if watch is not None]
    assert len(found) == len(arrays)
    return found


@pytest.fixture
def all_of_it(kernel: Pages) -> Iterator[Watched]:
    everything = Watched()
    yield everything
    everything.end()


@pytest.mark.parametrize("at", [0, 1, 20_000, -1])
def test_a_buffer_is_watched_to_its_first_and_last_byte(at: int, all_of_it: Watched) -> None:
    room = np.zeros(1_000_000, dtype=np.uint8)
    one, before, other = room[300:200_000], room[:300], room[200_000:500_000]  # they share pages
    watches = _begun(all_of_it, one, other)
    before[-1] = 1
    assert all_of_it.unwritten(watches) == [True, True]
    one[at] = 1
    assert all_of_it.unwritten(watches) == [False, True]
    assert all_of_it.unwritten(watches) == [False, True], "once written is written"


def test_small_buffers_are_not_watched(all_of_it: Watched) -> None:
    assert all_of_it.begin(_places(np.zeros(watched.SMALLEST - 1, dtype=np.uint8), np.zeros(0))) == [None, None]


def test_watching_anew_forgets_what_was_seen_by_whoever_watched_before(all_of_it: Watched) -> None:
    room = np.zeros(1_000_000, dtype=np.uint8)
    (before,) = _begun(all_of_it, room[:500_000])
    room[250_000] = 1
    (after,) = _begun(all_of_it, room[200_000:900_000])  # the memory was freed, and is another's
    assert all_of_it.unwritten([before, after]) == [False, True]


def test_copies_that_are_watched_overtake_as_well(all_of_it: Watched) -> None:
    room, copy = np.zeros(1_000_000, dtype=np.uint8), np.zeros(1_000_000, dtype=np.uint8)
    places, copies = _places(room[:600_000]), [copy.ctypes.data]
    all_of_it.copied(places, copies)
    assert all_of_it.unwritten_copied([True]) == [True]
    for _ in range(2):  # what was worked out the time before serves again, and is looked through again
        (before,) = _begun(all_of_it, room[100:500_000])
        room[250_000] += 1
        all_of_it.copied(places, copies)
        assert all_of_it.unwritten([before]) == [False]
        assert all_of_it.unwritten_copied([True]) == [True]


@pytest.mark.parametrize("at", [0, 250_000, -1, None])
def test_copies_are_watched_until_somebody_asks(at: int | None, all_of_it: Watched) -> None:
    room = np.zeros(1_000_000, dtype=np.uint8)
    one, other = room[77:400_000], room[400_000:800_000]
    copies = [one.copy(), other.copy()]
    for _ in range(2):
        all_of_it.copied(_places(one, other), [copy.ctypes.data for copy in copies])
        if at is not None:
            one[at] += 1
        room[0] += 1  # beside them, on the same page
        assert all_of_it.unwritten_copied([True, True]) == [at is None, True]
        assert all_of_it.unwritten_copied([True, True]) is None
        copies[0][:] = one
    all_of_it.copied(_places(one, other), [copy.ctypes.data for copy in copies])
    all_of_it.let_go()
    assert all_of_it.unwritten_copied([True, True]) is None


def test_nothing_is_watched_where_the_kernel_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "here", lambda: None)
    everything, room = Watched(), np.zeros(1_000_000, dtype=np.uint8)
    assert everything.begin(_places(room)) == [None]
    everything.copied(_places(room), [room.ctypes.data])
    assert everything.unwritten_copied([True]) is None
    assert everything.unwritten([]) == []


def test_a_kernel_that_misses_a_write_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pages, "unwritten", lambda self, spans: list(spans))
    assert pages.here() is None


def test_memory_that_was_given_back_is_not_looked_at(all_of_it: Watched) -> None:
    gone = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = ctypes.c_char.from_buffer(gone)
    address = ctypes.addressof(view)
    del view
    room, copy = np.zeros(1_000_000, dtype=np.uint8), np.zeros(3_000_000, dtype=np.uint8)
    (place,) = _places(room)
    all_of_it.copied([(address + 100, 900_000), place], [copy.ctypes.data, copy.ctypes.data + 1_000_000])
    gone.close()
    assert all_of_it.unwritten_copied([False, True]) == [False, True]
