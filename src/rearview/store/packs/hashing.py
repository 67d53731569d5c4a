"""xxh3-128, which chunks are named by: of bytes, and of memory at an address without anybody else getting the interpreter."""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from typing import Any

_TRY = bytes(range(256)) * 40


def digest(view: memoryview | bytes) -> bytes:
    """xxh3-128 of bytes.

    By way of the object: it gives other threads the interpreter while it runs in every release of the library, the
    function of the same name only in late ones. 1 MiB takes 0.1 ms.
    """
    found: bytes = _hasher()(view).digest()
    return found


@functools.cache
def _hasher() -> Callable[[memoryview | bytes], Any]:
    import xxhash

    return xxhash.xxh3_128


class _Hash(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


@functools.cache
def held_hash() -> Callable[[int, int], Any] | None:
    """The library's own function of C, by address and size, called with the interpreter held: `name_of` tells what it found.

    None where the library does not show it, or shows another.
    """
    try:
        function = ctypes.PyDLL(importlib.import_module("xxhash._xxhash").__file__).XXH3_128bits
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t), _Hash
    sample = ctypes.create_string_buffer(_TRY, len(_TRY))
    sizes = (1, 100, len(_TRY))  # short ones are hashed by other means
    right = all(name_of(function(ctypes.addressof(sample), size)) == digest(_TRY[:size]) for size in sizes)
    return function if right else None


def name_of(found: Any) -> bytes:
    """What memory is called that was hashed so: the high bytes first."""
    return bytes(found)[::-1]


@functools.cache
def held_digest() -> Callable[[int, int], bytes] | None:
    """The name of memory, by address and size, for the training thread: what takes microseconds is sooner done than the interpreter is
    had again from a thread that computes (a thousand times 100 kB beside one took 2 s, so 12 ms)."""
    function = held_hash()
    return None if function is None else lambda address, size: bytes(function(address, size))[::-1]
