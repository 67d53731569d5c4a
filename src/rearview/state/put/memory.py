"""Which memory takes the bytes of which buffer: that of the live tensors and arrays where it fits, new memory otherwise.

One buffer goes into one allocation and the other way round. An allocation is taken if its size and device are the recorded ones and no
other buffer has any byte of it (torch can have several storages over the memory of one array); tensors that look elsewhere are pointed
to it, arrays are made again over it.
"""

from __future__ import annotations

import bisect
import sys
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

from rearview.errors import RearviewError
from rearview.state import devices
from rearview.state.buffers import memory_at
from rearview.state.put.kind import ABSENT

if TYPE_CHECKING:
    from rearview.state.restore import Job, Plan

_TENSORS = {"tensor": 2, "quantized": 2, "storage": 0}
"""Kinds that look at memory through torch, and where their payload names the buffer."""
_ARRAYS = {"nparray": 2}


class Target:
    """The memory for one buffer."""

    def __init__(self, nbytes: int, device: str) -> None:
        self.nbytes = nbytes
        self.device = device
        self.key: Hashable = None
        """Which live memory it is; None: new memory."""
        self.storage: Any = None
        self.array: Any = None
        """The array that has the memory."""
        self.address = 0

    def use_storage(self, storage: Any) -> None:
        """Take a torch storage."""
        self.storage = storage
        self.address = storage.data_ptr() if self.device == "cpu" else 0

    def use_array(self, array: Any) -> None:
        """Take the memory that an array has."""
        self.array = array
        self.address = int(array.__array_interface__["data"][0])

    def torch_storage(self) -> Any:
        """The memory for torch."""
        if self.storage is None:
            torch = sys.modules["torch"]
            self.storage = torch.from_numpy(self.flat_array()).untyped_storage()
        return self.storage

    def flat_array(self) -> Any:
        """The memory for NumPy, as bytes."""
        np = sys.modules["numpy"]
        if self.array is not None:
            return self.array.ravel(order="K").view(np.uint8)
        torch = sys.modules["torch"]
        flat = torch.empty(0, dtype=torch.uint8)
        return flat.set_(self.storage, 0, (self.nbytes,), (1,)).numpy()


class _Claimed:
    """Live memory that is spoken for."""

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        """By device, in order: they do not overlap."""
        self._empty: set[Hashable] = set()

    def take(self, key: tuple[Any, ...]) -> bool:
        """Claim memory, unless a byte of it is claimed."""
        device, start, nbytes = key
        if nbytes == 0:
            new = key not in self._empty
            self._empty.add(key)
            return new
        spans = self._spans.setdefault(device, [])
        at = bisect.bisect_left(spans, (start, 0))
        if (at < len(spans) and spans[at][0] < start + nbytes) or (at > 0 and spans[at - 1][1] > start):
            return False
        spans.insert(at, (start, start + nbytes))
        return True


class Memory:
    """The memory of one restore."""

    def __init__(self) -> None:
        self.targets: dict[int, Target] = {}
        """By the node of the memory."""
        self._users: dict[int, list[tuple[int, str]]] = {}

    def settle(self, plan: Plan, reached: Iterator[int]) -> None:
        """Decide for each buffer, after nodes and live objects are paired."""
        nodes = plan.nodes
        for number in reached:
            kind, payload = nodes[number]
            at = _TENSORS.get(kind, _ARRAYS.get(kind))
            if at is not None:
                self._users.setdefault(payload[at], []).append((number, kind))
        claimed = _Claimed()
        for memory, users in self._users.items():
            target = self.targets[memory] = Target(_size(plan, memory), _device(plan, users))
            _claim(plan, target, users, claimed)
            for number, kind in users:
                if kind in _ARRAYS and number in plan.pairs and not _stays(plan, target, number):
                    plan.part(number)

    def check(self, plan: Plan) -> Iterator[str]:
        """Why bytes cannot be had."""
        for memory, target in self.targets.items():
            why = _unavailable(plan, memory, target)
            if why is not None:
                yield f"{plan.where(self._users[memory][0][0])}: {why}"

    def fill(self, job: Job) -> None:
        """Read every buffer into its memory; those in the processor's own together."""
        wanted: list[tuple[int, memoryview]] = []
        for memory, target in self.targets.items():
            if target.key is None and target.storage is None and target.array is None:  # else it has its memory from the time before
                _allocate(job.plan, target, self._users[memory])
            if target.nbytes == 0:
                continue
            if target.device == "cpu":
                wanted.append((memory, memory_at(target.address, target.nbytes)))
            else:
                torch = sys.modules["torch"]
                bounce = torch.empty(target.nbytes, dtype=torch.uint8)
                job.read_into(memory, memory_at(bounce.data_ptr(), target.nbytes))
                torch.empty(0, dtype=torch.uint8, device=target.device).set_(target.storage, 0, (target.nbytes,), (1,)).copy_(bounce)
        job.read_all(wanted)


def _stays(plan: Plan, target: Target, number: int) -> bool:
    """Whether a live array looks at the place in the memory that it is to look at: an array cannot be pointed elsewhere."""
    live = plan.pairs[number]
    if target.key is None or _array_memory(live)[0] != target.key:
        return False
    offset = plan.plain(plan.nodes[number][1][6])
    return bool(live.size == 0 or int(live.__array_interface__["data"][0]) == target.address + offset)


def _size(plan: Plan, memory: int) -> int:
    kind, payload = plan.nodes[memory]
    return plan.tree.buffers[payload] if kind == "buffer" else len(payload)


def _device(plan: Plan, users: list[tuple[int, str]]) -> str:
    for number, kind in users:
        payload = plan.nodes[number][1]
        if kind == "storage":
            return devices.here(str(plan.plain(payload[1])))
        if kind in _TENSORS:
            return devices.here(str(plan.plain(plan.nodes[payload[1]][1][1])))
    return "cpu"


def _claim(plan: Plan, target: Target, users: list[tuple[int, str]], claimed: _Claimed) -> None:
    """Take live memory for a buffer, if some is right."""
    for number, kind in users:
        live = plan.pairs.get(number, ABSENT)
        if live is ABSENT:
            continue
        key, nbytes, device, owner = _key_of(kind, live)
        if key is None or nbytes != target.nbytes or device != target.device or not claimed.take(key):
            continue
        target.key = key
        if hasattr(owner, "__array_interface__"):
            target.use_array(owner)
        else:
            target.use_storage(owner)
        return


def _key_of(kind: str, live: Any) -> tuple[tuple[Any, ...] | None, int, str, Any]:
    """What memory a live object looks at: key, size, device, owner; no key if it is not ours to write."""
    if kind in _ARRAYS:
        return _array_memory(live)
    storage = live if kind == "storage" else live.untyped_storage()
    device, nbytes = str(storage.device), storage.nbytes()
    if nbytes == 0:
        return ("empty", storage._cdata, 0), 0, device, storage
    return (device, storage.data_ptr(), nbytes), nbytes, device, storage


def _unavailable(plan: Plan, memory: int, target: Target) -> str | None:
    kind, index = plan.nodes[memory]
    try:
        size = plan.read.size(index) if kind == "buffer" else target.nbytes
    except (RearviewError, OSError, LookupError) as problem:
        return f"its bytes are not there ({problem})"
    if size != target.nbytes:
        return f"its bytes are {size} instead of {target.nbytes}"
    if target.key is None and target.device.startswith("cuda") and not sys.modules["torch"].cuda.is_available():
        return f"it was on {target.device}, which this machine does not have"  # a replay maps it: `replay --device cpu`
    return None


def _allocate(plan: Plan, target: Target, users: list[tuple[int, str]]) -> None:
    if any(kind in _TENSORS for _, kind in users):
        torch = sys.modules["torch"]
        target.use_storage(torch.UntypedStorage(target.nbytes, device=target.device))
        return
    np = sys.modules["numpy"]
    whole = _whole_array(plan, users)
    if whole is None:
        target.use_array(np.empty(target.nbytes, np.uint8))
    else:
        shape, dtype, order = whole
        target.use_array(np.empty(shape, dtype, order))


def _array_memory(live: Any) -> tuple[tuple[Any, ...] | None, int, str, Any]:
    from rearview.state.take.arrays import bounds, root_of

    root = root_of(live)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(root.base, torch.Tensor):
        storage = root.base.untyped_storage()
        return ("cpu", storage.data_ptr(), storage.nbytes()), storage.nbytes(), "cpu", storage
    if root.base is not None or not root.flags.owndata:  # memory of something else: what it allows to write
        if not live.flags.writeable:
            return None, 0, "cpu", None
        root = live
    low, high = bounds(root)
    if low == high:
        return ("numpy", id(root), 0), 0, "cpu", root
    return ("cpu", low, high - low), high - low, "cpu", root


def _whole_array(plan: Plan, users: list[tuple[int, str]]) -> tuple[Any, Any, str] | None:
    """Shape, dtype and order of the one array that is all of a buffer."""
    if len(users) != 1:
        return None
    payload = plan.nodes[users[0][0]][1]
    dtype, shape, strides, offset = (plan.plain(number) for number in payload[3:7])
    size = dtype.itemsize
    for length in shape:
        size *= length
    if offset != 0 or payload[0] != 0 or size != _size(plan, payload[2]):
        return None
    for order in "CF":
        if strides == contiguous(shape, dtype.itemsize, order):
            return shape, dtype, order
    return None


def contiguous(shape: tuple[int, ...], itemsize: int, order: str) -> tuple[int, ...]:
    """The strides of an array without gaps."""
    strides: list[int] = []
    step = itemsize
    for length in reversed(shape) if order == "C" else shape:
        strides.append(step)
        step *= length
    return tuple(reversed(strides) if order == "C" else strides)
