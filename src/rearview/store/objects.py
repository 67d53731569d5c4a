"""Content-addressed bytes: the name says the hash, reading verifies it.

A key is `xxh3-<32 hex digits>`, stored at `objects/<first two digits>/<key>`. Objects are immutable; putting the same
bytes twice stores them once.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rearview.errors import Damaged, NotFound
from rearview.store import atomic
from rearview.store.layout import Store

PREFIX = "xxh3-"
"""Says the algorithm of the address."""


def key_of(data: bytes | memoryview) -> str:
    """The content address of bytes."""
    import xxhash

    return PREFIX + xxhash.xxh3_128_hexdigest(data)


def path_of(store: Store, key: str) -> Path:
    """Where an object is. Only well-formed keys have a place: a name in a record is data, never a path."""
    digits = key.removeprefix(PREFIX)
    if not key.startswith(PREFIX) or len(digits) != 32 or set(digits) - set("0123456789abcdef"):
        raise Damaged(f"{key!r} is not the name of an object")
    return store.objects / digits[:2] / key


def put(store: Store, data: bytes | memoryview, *, durable: bool = False) -> str:
    """Keep bytes and return their key. `durable`: they are on the disk then, and what is there already was not damaged."""
    key = key_of(data)
    path = path_of(store, key)
    if not _is_there(path, len(data)) or (durable and not _is_sound(path, data)):
        atomic.publish(path, data, tmp=store.tmp, durable=durable)
    return key


def _is_there(path: Path, size_bytes: int) -> bool:
    """Whether an object is there in its full size: a power loss can leave an empty file of that name.

    It is refreshed first: gc leaves alone what was used of late, also if nothing refers to it yet.
    """
    try:
        with contextlib.suppress(PermissionError):  # another user's object, in a store of several
            os.utime(path)
        return path.stat().st_size == size_bytes
    except FileNotFoundError:
        return False


def _is_sound(path: Path, data: bytes | memoryview) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def get(store: Store, key: str) -> bytes:
    """The bytes of a key, verified."""
    path = path_of(store, key)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"object {key} is not in the store: it was removed, or the copy of the store is incomplete") from None
    if key_of(data) != key:
        raise Damaged(f"object {key} is damaged: its bytes have another hash; restore {path.name} from a copy")
    return data
