"""Memory that nothing should have changed, hashed where it lies while the training goes on.

The program may free it meanwhile (`storage.resize_(0)`), and whoever reads it then ends the process. So it is looked at and read within one
call of C code, a chunk at a time: nobody else gets the interpreter in between, and without that no program frees memory of its tensors.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

from rearview.record.checkpoints import staging
from rearview.store.packs import Names
from rearview.store.packs.chunks import CHUNK_BYTES
from rearview.store.packs.hashing import digest, held_hash, name_of

_IN_A_ROW = 16
"""Chunks, for less than a millisecond: to let the interpreter go takes as long as one of them."""


def holds(buffer: Any, expected: Names) -> bool:
    """Whether a buffer has these chunks still."""
    storage, nbytes = buffer.storage, buffer.nbytes
    asks, answers = ((), ()) if storage is None else ((storage.data_ptr, storage.nbytes), (buffer.address, nbytes))
    hashed = held_hash()
    for k, name in enumerate(expected):
        start = k * CHUNK_BYTES
        size = min(CHUNK_BYTES, nbytes - start)
        if _named(hashed, buffer.address + start, size, asks, answers) != name:
            return False
        if k % _IN_A_ROW == _IN_A_ROW - 1:
            time.sleep(0)  # whoever waits for the interpreter has it now, and not in five milliseconds
    return True


def _named(
    hashed: Callable[[int, int], Any] | None, address: int, size: int, asks: Sequence[Callable[[], int]], answers: Sequence[int]
) -> bytes | None:
    """What a chunk is called; None: it is no longer there."""
    found: list[Any] = []
    copy = ctypes.create_string_buffer(0 if hashed is not None else size)
    memcpy = functools.partial(staging.held("memcpy"), ctypes.addressof(copy))
    read = functools.partial(memcpy if hashed is None else hashed, address, size)
    is_another = map(operator.ne, map(operator.call, asks), answers)
    if any(itertools.chain(is_another, map(found.append, map(operator.call, (read,))))):
        return None
    return name_of(found[0]) if hashed is not None else digest(memoryview(copy).cast("B"))
