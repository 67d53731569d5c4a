"""Staging memory: what is copied is what was there; memory is kept and grows; a forked child has none of it."""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from collections import deque
from types import SimpleNamespace

import pytest

from rearview.record.checkpoints import staging
from rearview.record.checkpoints.staging import PAGE, SAMPLE, SMALL, Arena
from rearview.store.packs.hashing import digest, held_digest


def live(data: bytes) -> SimpleNamespace:
    memory = bytearray(data)
    return SimpleNamespace(nbytes=len(memory), address=0, tensor=lambda: None, memory=lambda: memoryview(memory))


def test_copies_are_equal_and_large_ones_begin_at_a_page() -> None:
    arena = Arena()
    sizes = [0, 1, 100, SMALL - 1, SMALL, SMALL + 1, 3 * PAGE + 7, 2 << 20]
    contents = [bytes([k + 1]) * size for k, size in enumerate(sizes)]
    copies = staging.copy([live(data) for data in contents], arena).views
    assert [bytes(view) for view in copies] == contents
    offsets, _ = staging.layout(sizes)
    assert all(offset % PAGE == 0 for offset, size in zip(offsets, sizes, strict=True) if size >= SMALL)


def at_its_place(data: bytes) -> SimpleNamespace:
    memory = bytearray(data)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return SimpleNamespace(nbytes=len(memory), address=address, tensor=lambda: None, memory=lambda: memoryview(memory))


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_helpers_leave_nothing_out(helpers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_helpers", lambda _size: helpers)
    monkeypatch.setattr(staging, "_PIECE", 300_000)
    draw = random.Random(helpers)
    arena = Arena()
    for _ in range(5):
        contents = [draw.randbytes(size) for size in (70_000, (1 << 20) + 1, 3 << 20, 5_000_001)]
        copies = staging.copy([at_its_place(data) for data in contents], arena).views
        assert [bytes(view) for view in copies] == contents


def test_what_is_not_large_is_named_while_it_is_at_hand() -> None:
    draw, arena, name = random.Random(1), Arena(), held_digest()
    for sizes in ([100, 70_000, 300_000, 0, 2 << 20], [100, 70_000, 300_000, 0, 2 << 20], [70_000, 100]):
        contents = [draw.randbytes(size) for size in sizes]
        copies = staging.copy([at_its_place(data) if data else live(data) for data in contents], arena, name)
        assert [bytes(view) for view in copies.views] == contents
        assert [ctypes.string_at(at, size) for at, size in zip(copies.addresses, sizes, strict=True)] == contents
        assert copies.names == [digest(data) if 0 < len(data) <= 256 << 10 else None for data in contents]
    far = staging.copy([live(b"x" * 100)], arena, name)
    assert (bytes(far.views[0]), far.names) == (b"x" * 100, [None])


def test_pairs_that_are_not_the_same_are_found() -> None:
    places = [ctypes.create_string_buffer(b"a" * 1000) for _ in range(6)]
    places[3][999] = b"b"
    at = [ctypes.addressof(one) for one in places]
    pairs = [(at[0], other, 1000) for other in at]
    assert staging.unequal(pairs) == [3]
    assert staging.unequal([*pairs[:3], (at[0], at[3], 999)]) == staging.unequal([]) == []


def test_an_interrupted_copy_leaves_nobody_behind_who_reads_the_memory_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    waits = threading.Event()

    def memcpy(to: int, _source: int, _size: int) -> None:
        if threading.current_thread() is threading.main_thread():
            waits.wait(5)
            raise KeyboardInterrupt
        waits.set()
        time.sleep(0.05)
        done.append(to)

    monkeypatch.setattr(staging, "_helpers", lambda _size: 1)
    monkeypatch.setattr(staging, "_of_c", lambda _name: memcpy)
    with pytest.raises(KeyboardInterrupt):
        staging._copy_together(deque((to, 0, 1) for to in range(10)))
    assert len(done) == 1, "the helper was still at it, or went on"


def test_samples_see_what_every_stretch_has_and_the_end() -> None:
    data = bytes(3 * SAMPLE + 100)
    assert staging.alike(at_its_place(data), memoryview(bytearray(data)))
    for at in (0, SAMPLE, 2 * SAMPLE, 3 * SAMPLE, len(data) - 1):
        changed = bytearray(data)
        changed[at] = 1
        assert not staging.alike(at_its_place(data), memoryview(changed))
    assert not staging.alike(at_its_place(data), memoryview(bytearray(data + b"0")))


def test_memory_is_kept_while_the_state_grows() -> None:
    arena = Arena()
    arena.touch(5 * PAGE)
    assert arena.size == 5 * PAGE
    before = ctypes.addressof(ctypes.c_char.from_buffer(arena.room(5 * PAGE)))
    room = arena.room(12 * PAGE)
    assert ctypes.addressof(ctypes.c_char.from_buffer(room)) == before, "what was touched was given up although there was room beside it"
    assert arena.size == 12 * PAGE
    arena.room(3 * PAGE)
    assert arena.size == 12 * PAGE
    arena.room(1000 * PAGE)
    assert arena.size == 1000 * PAGE
    arena.release()
    assert arena.size == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_memory_of_its_own() -> None:
    arena = Arena()
    arena.room(4 * PAGE)[:4] = b"mine"
    child = os.fork()
    if child == 0:
        try:
            arena.room(4 * PAGE)[:4] = b"its."
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the child could not use staging memory"
    assert bytes(arena.room(4 * PAGE)[:4]) == b"mine"


def test_a_speed_is_measured_once() -> None:
    assert staging.copy_speed(10) > 0
    assert staging.copy_speed(10) == staging.copy_speed(10) == staging.copy_speed(1000)


def test_the_speed_of_a_copy_is_tried_with_no_more_than_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr(staging, "_copy_speed", lambda size: tried.append(size) or 1.0)
    for size in (0, 70_000, 1 << 40):
        staging.copy_speed(size)
    assert tried == [64 << 10, 128 << 10, 8 << 20]
