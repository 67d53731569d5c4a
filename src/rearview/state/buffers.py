"""Memory of the running program that a state refers to: where it is, how large, and what is known about its changing.

A buffer is a whole allocation (a tensor's storage, the memory behind an array), never a view: views are described in the
tree. Knows torch only through the storages it is given; copies nothing.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Hashable
from typing import Any

from rearview.state.places import Places


def memory_at(address: int, nbytes: int) -> memoryview:
    """Memory of this process as bytes. Whoever asks keeps its owner alive."""
    if nbytes == 0:
        return memoryview(bytearray())
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")


class LiveBuffer:
    """One allocation that the captured state needs the bytes of."""

    __slots__ = ("_node", "_places", "address", "constant_hint", "key", "nbytes", "owner", "private", "storage", "uncounted", "version")

    def __init__(
        self,
        key: Hashable,
        nbytes: int,
        owner: object,
        address: int,
        places: Places,
        node: int,
        storage: Any = None,
        private: bool = False,
    ) -> None:
        self.key = key
        """The same as long as it is the same memory."""
        self.nbytes = nbytes
        self.owner = owner
        """Kept alive, so that the memory is."""
        self.address = address
        """Where it is on this machine; 0 on another device."""
        self.storage = storage
        """The torch storage, if it is one."""
        self.private = private
        """Made for this capture: nobody else writes it, it can be used without a copy."""
        self.version: int | None = None
        """What torch counts of changes in place; it misses `p.data.add_` and writes through NumPy. None: nobody counts."""
        self.uncounted = False
        """NumPy has it too: what is written through an array, torch does not count."""
        self.constant_hint = False
        """Nothing is expected to change it (frozen parameters, read-only arrays): a hint that has to be proved."""
        self._places = places
        self._node = node

    def release(self) -> None:
        """Let go of the memory: it has been copied."""
        self.owner = self.storage = None
        self.address = 0

    @property
    def where(self) -> str:
        """A readable path, such as `opt.state[net.fc.weight]['exp_avg']`."""
        return self._places.of(self._node)

    def memory(self) -> memoryview:
        """The bytes themselves, not a copy; only where the processor can read them."""
        if self.address == 0 and self.nbytes:
            raise ValueError(f"{self.where} is on another device; take tensor()")
        return memory_at(self.address, self.nbytes)

    def tensor(self) -> Any:
        """A one-dimensional torch.uint8 tensor over the same memory; None in a program without torch."""
        torch = sys.modules.get("torch")
        if torch is None:
            return None
        if self.storage is not None:
            flat = torch.empty(0, dtype=torch.uint8, device=self.storage.device)
            return flat.set_(self.storage, 0, (self.nbytes,), (1,))
        if self.nbytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer((ctypes.c_char * self.nbytes).from_address(self.address), dtype=torch.uint8)
