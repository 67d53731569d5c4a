"""NumPy arrays, scalars, dtypes and random generators. Touches NumPy only if the program loaded it.

An array is described as a view of the whole memory behind it, so that views stay views. A memory-mapped file is an input: it is
kept by its name. Generators are read, never drawn from.
"""

from __future__ import annotations

import sys
from typing import Any

from rearview.state.take.plain import extra
from rearview.state.take.tensors import storage_buffer
from rearview.state.take.walk import Missing, Taker, Uncapturable, Walk
from rearview.state.tree import NONE, Node
from rearview.store.encoding import type_name


def _numpy() -> Any:
    return sys.modules["numpy"]


def address_of(array: Any) -> int:
    """Where the first element of an array is."""
    return int(array.__array_interface__["data"][0])


def bounds(array: Any) -> tuple[int, int]:
    """The first address of an array's memory, and the one after its last byte."""
    low = high = address_of(array)
    if array.size == 0:
        return low, low
    for length, stride in zip(array.shape, array.strides, strict=True):
        low, high = (low + stride * (length - 1), high) if stride < 0 else (low, high + stride * (length - 1))
    return low, high + array.itemsize


def take_array(walk: Walk, value: Any) -> Node:
    """An array: dtype, shape, strides, and the memory it looks at."""
    np = _numpy()
    mapped = mapped_file(value)
    if mapped is not None:
        return _take_memmap(walk, value, mapped)
    if type(value) is np.ndarray or isinstance(value, np.memmap):  # a private map is memory like any other
        kind = (NONE, NONE)
    else:
        kind = (walk.slot(type(value)), extra(walk, value))
    if value.dtype.hasobject:
        if value.dtype != object:
            raise Uncapturable("an array whose fields are objects")
        items = walk.slots(value[index] for index in np.ndindex(value.shape))
        head = walk.slots((value.dtype, tuple(value.shape), tuple(value.strides), bool(value.flags.writeable)))
        return ("npobjects", (*kind, *head, *items))
    buffer, start = _memory(walk, value)
    shape = tuple(value.shape)
    strides = tuple(value.strides) if value.size else (0,) * len(shape)  # of nothing, NumPy says one thing or another
    rest = walk.slots((value.dtype, shape, strides, address_of(value) - start, bool(value.flags.writeable)))
    return ("nparray", (*kind, buffer, *rest))


def root_of(value: Any) -> Any:
    """The array that has the memory, behind any number of views."""
    np = _numpy()
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value


def _memory(walk: Walk, value: Any) -> tuple[int, int]:
    """The buffer behind an array, and its first address."""
    if value.size == 0:  # nothing is behind it, wherever it looks
        low = address_of(value)
        return walk.memory(("numpy", id(value), 0), 0, value, low)[0], low
    root = root_of(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(root.base, torch.Tensor):
        number = storage_buffer(walk, root.base)
        _uncounted(walk, number)
        return number, root.base.untyped_storage().data_ptr()
    low, high = bounds(root if root.base is None else value)
    number, buffer = walk.memory(("cpu", low, high - low), high - low, root, low)
    if buffer is not None and buffer.storage is None:
        buffer.constant_hint = not (value.flags.writeable or root.flags.writeable)
    _uncounted(walk, number)
    return number, low


def _uncounted(walk: Walk, number: int) -> None:
    """Torch may have the same memory, and counts only what is written through its own tensors."""
    kind, payload = walk.nodes[number]
    if kind == "buffer":
        walk.buffers[payload].version = None
        walk.buffers[payload].uncounted = True


def mapped_file(value: Any) -> Any:
    """The memory-mapped file that an array looks at, if it is one that is not private to this program."""
    np = _numpy()
    while isinstance(value, np.ndarray):
        if isinstance(value, np.memmap) and value.filename is not None and not isinstance(value.base, np.ndarray):
            return value if value.mode != "c" else None
        value = value.base
    return None


def _take_memmap(walk: Walk, value: Any, mapped: Any) -> Node:
    if mapped.mode != "r":
        where = walk.where(walk.at)
        walk.missing.append(Missing(where, type_name(value), "a memory-mapped file that can be written: the file itself is not kept"))
        walk.mapped.add(str(mapped.filename))
    place = address_of(value) - address_of(mapped) + mapped.offset
    parts = (str(mapped.filename), mapped.mode, value.dtype, tuple(value.shape), tuple(value.strides), place, bool(value.flags.writeable))
    kind = NONE if type(value) is _numpy().ndarray else walk.slot(type(value))
    return ("npmemmap", (kind, NONE, *walk.slots(parts)))


def take_scalar(walk: Walk, value: Any) -> Node:
    """A single number with a NumPy type."""
    if value.dtype.hasobject:
        raise Uncapturable("a NumPy scalar that holds objects")
    return ("npscalar", (walk.slot(type(value)), walk.slot(value.dtype), walk.slot(value.tobytes())))


def take_dtype(walk: Walk, value: Any) -> Node:
    """A dtype: by its short name where that says all, else field by field."""
    np = _numpy()
    if value.subdtype is not None:
        base, shape = value.subdtype
        return ("npdtype", walk.slots(("subarray", base, tuple(shape))))
    if value.names is not None:
        fields = [part for name in value.names for part in (name, value.fields[name][0], value.fields[name][1])]
        return ("npdtype", walk.slots(("fields", value.itemsize, bool(value.isalignedstruct), *fields)))
    if value.isbuiltin == 2 or value.kind == "T":
        return ("npdtype", walk.slots(("type", value.type)))
    if np.dtype(value.str) != value:
        raise Uncapturable(f"the dtype {value} cannot be written down")
    return ("npdtype", walk.slots(("name", value.str)))


def flat_state(state: Any) -> Any:
    """A generator's state as plain values: arrays as (dtype, bytes)."""
    np = _numpy()
    if isinstance(state, dict):
        return {key: flat_state(item) for key, item in state.items()}
    if isinstance(state, np.ndarray):
        return ("array", state.dtype.str, state.tobytes())
    return state.item() if isinstance(state, np.generic) else state


def take_bits(walk: Walk, value: Any) -> Node:
    """A bit generator: its state, and the seeds it hands out to children."""
    state = flat_state(value.state)
    seeds = getattr(value, "_seed_seq", None)
    walk.keep.append(state)
    return ("npbits", walk.slots((type(value), state, seeds)))


def take_generator(walk: Walk, value: Any) -> Node:
    """A `Generator`: it has no state but that of its bit generator, which may be shared."""
    return ("npgenerator", walk.slots((type(value), value.bit_generator)))


def take_random_state(walk: Walk, value: Any) -> Node:
    """An old `RandomState`: the bit generator, and the second number of a normal pair."""
    state = value.get_state(legacy=False)
    return ("npstate", walk.slots((type(value), value._bit_generator, int(state["has_gauss"]), float(state["gauss"]))))


def take_seeds(walk: Walk, value: Any) -> Node:
    """A `SeedSequence` with the number of children it has had."""
    parts = (value.entropy, value.spawn_key, value.pool_size, value.n_children_spawned)
    return ("npseed", walk.slots((type(value), *(part.tolist() if hasattr(part, "tolist") else part for part in parts))))


def takers() -> dict[type, Taker]:
    """Who takes exactly these types."""
    np = sys.modules.get("numpy")
    if np is None or not hasattr(np, "ndarray"):
        return {}
    found: dict[type, Taker] = {np.ndarray: take_array, np.memmap: take_array}
    if "numpy.random" in sys.modules and hasattr(np.random, "Generator"):
        found |= {np.random.Generator: take_generator, np.random.RandomState: take_random_state, np.random.SeedSequence: take_seeds}
    return found


def decide(kind: type) -> Taker | None:
    """Who takes other classes of NumPy, and those derived from them."""
    np = sys.modules.get("numpy")
    if np is None or not hasattr(np, "ndarray"):
        return None
    if issubclass(kind, np.ndarray):
        return take_array
    if issubclass(kind, np.generic):
        return take_scalar
    if issubclass(kind, np.dtype):
        return take_dtype
    if "numpy.random" in sys.modules and issubclass(kind, np.random.BitGenerator):
        return take_bits
    return None
