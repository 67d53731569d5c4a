"""Names of chunks: the same by way of Python and by way of an address, whoever else wants the interpreter."""

from __future__ import annotations

import ctypes
import random
from types import SimpleNamespace

import pytest

from rearview.store.packs.hashing import digest, held_digest, held_hash


@pytest.mark.parametrize("size", [1, 16, 17, 128, 129, 240, 241, 4096, 100_000, 3_000_001])
def test_memory_is_called_what_its_bytes_are(size: int) -> None:
    data = random.Random(size).randbytes(size)
    memory = ctypes.create_string_buffer(data, size)
    at = held_digest()
    assert at is not None, "the library of this environment shows its function"
    assert at(ctypes.addressof(memory), size) == digest(data) == digest(memoryview(data))


@pytest.mark.parametrize("broken", ["missing", "another"])
def test_a_library_that_does_not_show_it_is_asked_otherwise(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = SimpleNamespace()
    if broken == "another":

        def other(_address: int, _size: int) -> bytes:
            return bytes(16)

        hidden.XXH3_128bits = other
    monkeypatch.setattr(ctypes, "PyDLL", lambda _path: hidden)
    held_hash.cache_clear()
    try:
        assert held_hash() is None
    finally:
        held_hash.cache_clear()
