"""Staging memory: what is copied is what was there; memory is kept and grows; a forked child has none of it."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from rearview.record import staging
from rearview.record.staging import PAGE, SMALL, Arena


def live(data: bytes) -> SimpleNamespace:
    memory = bytearray(data)
    return SimpleNamespace(nbytes=len(memory), address=0, tensor=lambda: None, memory=lambda: memoryview(memory))


def test_copies_are_equal_and_large_ones_begin_at_a_page() -> None:
    arena = Arena()
    sizes = [0, 1, 100, SMALL - 1, SMALL, SMALL + 1, 3 * PAGE + 7, 2 << 20]
    contents = [bytes([k + 1]) * size for k, size in enumerate(sizes)]
    copies = staging.copy([live(data) for data in contents], arena)
    assert [bytes(view) for view in copies] == contents
    offsets, _ = staging.layout(sizes)
    assert all(offset % PAGE == 0 for offset, size in zip(offsets, sizes, strict=True) if size >= SMALL)


def test_memory_is_kept_while_the_state_grows() -> None:
    arena = Arena()
    arena.touch(5 * PAGE)
    assert arena.size == 5 * PAGE
    before = arena.address()
    arena.room(12 * PAGE)
    assert arena.address() == before, "what was touched was given up although there was room beside it"
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
    assert staging.copy_speed() > 0
    assert staging.copy_speed() == staging.copy_speed()
