"""NumPy arrays, scalars, dtypes and generators going back. Generators last: anything else may draw from them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from rearview.state.put.kind import ABSENT, InPlace, Kind, Pairs, sequence
from rearview.state.put.memory import contiguous
from rearview.state.tree import NONE

if TYPE_CHECKING:
    from rearview.state.restore import Job, Plan


def numpy() -> Any:
    """NumPy; a state that has arrays in it needs it."""
    import importlib

    return sys.modules.get("numpy") or importlib.import_module("numpy")


def dtype_of(parts: list[Any]) -> Any:
    """A dtype from how it was written down."""
    np = numpy()
    if parts[0] == "name":
        return np.dtype(parts[1])
    if parts[0] == "type":
        return np.dtype(parts[1])
    if parts[0] == "subarray":
        return np.dtype((parts[1], parts[2]))
    names, dtypes, offsets = list(parts[3::3]), list(parts[4::3]), list(parts[5::3])
    return np.dtype({"names": names, "formats": dtypes, "offsets": offsets, "itemsize": parts[1]}, align=parts[2])


class Dtype(Kind):
    """A dtype."""

    shared = True

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return dtype_of([job.made[number] for number in payload])


class Array(InPlace):
    """An array. Payload: class, attributes, buffer, dtype, shape, strides, offset, can be written."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], numpy().ndarray):
            return None
        dtype, shape, strides, _ = (plan.plain(number) for number in payload[3:7])
        if live.dtype != dtype or live.shape != shape or (live.strides != strides and live.size):
            return None
        return plan.extras(payload[1], live)

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        np = numpy()
        if live is not ABSENT:
            made = live
        else:
            target = job.memory.targets[payload[2]]
            dtype, shape, strides, offset, _ = (job.plain(number) for number in payload[3:8])
            own = target.array if payload[0] == NONE and offset == 0 else None
            if own is not None and own.dtype == dtype and own.shape == shape and own.strides == strides:
                made = own
            else:
                kind = np.ndarray if payload[0] == NONE else job.named(payload[0])
                made = over(kind, target.flat_array(), dtype, shape, strides, offset)
        if bool(made.flags.writeable) != job.plain(payload[7]):
            try:
                made.flags.writeable = job.plain(payload[7])
            except ValueError:
                pass  # only a base that can be written may say so; what is in it is right
        return made

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        job.put_extras(payload[1], made)


def over(kind: Any, flat: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    """An array over memory."""
    if 0 in shape or flat.nbytes == 0:
        return numpy().ndarray.__new__(kind, shape, dtype)
    return numpy().ndarray.__new__(kind, shape, dtype, flat, offset, strides)


class Objects(InPlace):
    """An array of objects. Payload: class, attributes, dtype, shape, strides, can be written, items."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        np = numpy()
        if not plan.fits(live, payload[0], np.ndarray) or live.dtype != object or live.shape != plan.plain(payload[3]):
            return None
        items = [live[index] for index in np.ndindex(live.shape)]
        return [*plan.extras(payload[1], live), *zip(payload[6:], items, strict=True)]

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        np = numpy()
        kind = np.ndarray if payload[0] == NONE else job.named(payload[0])
        return np.ndarray.__new__(kind, job.plain(payload[3]), object) if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        np = numpy()
        writeable = made.flags.writeable
        if not writeable:
            made.flags.writeable = True
        for index, item in zip(np.ndindex(made.shape), sequence(job, payload[6:]), strict=True):
            if index:
                if made[index] is not item:
                    made[index] = item
            else:
                made.fill(item)
        made.flags.writeable = job.plain(payload[5])
        job.put_extras(payload[1], made)


class MemoryMapped(Kind):
    """A memory-mapped file. Payload: class, attributes, file, mode, dtype, shape, strides, place in the file, can be written."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        from rearview.state.take.arrays import mapped_file

        np = numpy()
        file = mapped_file(live) if isinstance(live, np.ndarray) else None
        dtype, shape, strides = (plan.plain(number) for number in payload[4:7])
        same = file is not None and plan.fits(live, payload[0], np.ndarray) and os.fspath(file.filename) == plan.plain(payload[2])
        return () if same and live.dtype == dtype and live.shape == shape and live.strides == strides else None

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        path = plan.plain(payload[2])
        return None if live is not ABSENT or os.path.exists(path) else f"the memory-mapped file {path} is not there"

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        np = numpy()
        path, mode, dtype, shape, strides, place = (job.plain(number) for number in payload[2:8])
        if live is not ABSENT and _place(live) == place:
            return live
        mode = "r" if mode == "r" else "r+"  # never the one that empties the file
        if payload[0] != NONE and strides == contiguous(shape, dtype.itemsize, "C"):
            return np.memmap(path, dtype, mode, place, shape)
        return over(np.ndarray, np.memmap(path, np.uint8, mode), dtype, shape, strides, place)


def _place(live: Any) -> int:
    from rearview.state.take.arrays import address_of, mapped_file

    file = mapped_file(live)
    return int(address_of(live) - address_of(file) + file.offset)


class Scalar(Kind):
    """A single number with a NumPy type."""

    shared = True

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind, dtype, data = (job.made[number] for number in payload)
        return scalar_of(kind, dtype, data)


def scalar_of(kind: Any, dtype: Any, data: bytes) -> Any:
    """A scalar from its bytes."""
    return kind() if dtype.itemsize == 0 else numpy().ndarray((), dtype, bytearray(data))[()]


def full_state(state: Any) -> Any:
    """A generator's state with its arrays."""
    if isinstance(state, dict):
        return {key: full_state(item) for key, item in state.items()}
    if isinstance(state, tuple) and len(state) == 3 and state[0] == "array":
        return numpy().frombuffer(state[2], dtype=state[1]).copy()
    return state


class Bits(InPlace):
    """A bit generator. Payload: class, state, seeds of children."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return ((payload[2], getattr(live, "_seed_seq", None)),) if plan.fits(live, payload[0], object) else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return job.named(payload[0])(0) if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        state, seeds = job.made[payload[1]], job.made[payload[2]]

        def put() -> None:
            if getattr(made, "_seed_seq", None) is seeds:
                made.state = full_state(state)
            else:
                try:
                    made.__setstate__((full_state(state), seeds))
                except (TypeError, ValueError, KeyError):  # a NumPy that keeps no seeds with the state
                    made.state = full_state(state)

        job.at_last(put)


class Generator(Kind):
    """A `Generator` over its bit generator."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return ((payload[1], live.bit_generator),) if plan.fits(live, payload[0], object) else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind, bits = (job.made[number] for number in payload)
        return live if live is not ABSENT and live.bit_generator is bits else kind(bits)


class RandomState(Kind):
    """An old `RandomState`. Payload: class, bit generator, whether a second normal number waits, that number."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return ((payload[1], live._bit_generator),) if plan.fits(live, payload[0], object) else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind, bits = (job.made[number] for number in payload[:2])
        return live if live is not ABSENT and live._bit_generator is bits else kind(bits)

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        waits, number = (job.made[part] for part in payload[2:])
        job.at_last(lambda: made.set_state({**made.get_state(legacy=False), "has_gauss": waits, "gauss": number}))


class Seeds(Kind):
    """A `SeedSequence`; the live one if it says the same."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], object):
            return None
        return list(zip(payload[1:], (live.entropy, live.spawn_key, live.pool_size, live.n_children_spawned), strict=True))

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind, *parts = (job.made[number] for number in payload)
        if live is not ABSENT and [live.entropy, live.spawn_key, live.pool_size, live.n_children_spawned] == parts:
            return live
        entropy, spawn_key, pool_size, children = parts
        return kind(entropy, spawn_key=spawn_key, pool_size=pool_size, n_children_spawned=children)


KINDS: dict[str, Kind] = {
    "npdtype": Dtype(), "nparray": Array(), "npobjects": Objects(), "npmemmap": MemoryMapped(), "npscalar": Scalar(), "npbits": Bits(),
    "npgenerator": Generator(), "npstate": RandomState(), "npseed": Seeds(),
}  # fmt: skip
