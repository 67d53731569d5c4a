"""The global random streams: Python's `random`, NumPy's legacy global one, torch on CPU and on its devices.

`take` gives plain data that `store.encoding` keeps, a few kilobytes in a few microseconds, `put_back` takes it up again; two
streams that would draw alike have equal data. Only libraries that the program loaded are asked. A Mersenne Twister keeps its
state in a plain block of memory: it is read there, after the place was found and proved once on a generator of our own, because
the libraries' own calls build hundreds of Python numbers (15 and 47 us against 1). Nothing is ever written that way.
Knows no loader and no file.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import random
import struct
import sys
from collections.abc import Mapping
from typing import Any

Streams = dict[str, Any]
"""The state of each stream by its name: python, numpy, torch, and a device type of torch (cuda, xpu) where one is in use."""

TWISTER_BYTES = 2500
"""624 words and the place among them, 32 bits each."""

_WORDS = struct.Struct("<i624I")
_GAUSS = struct.Struct("<iid")
_LITTLE = sys.byteorder == "little"
_DEVICES = ("cuda", "xpu")


def take() -> Streams:
    """The states of all streams that the program can draw from.

    >>> before = take()
    >>> first = random.random()
    >>> put_back(before)
    []
    >>> random.random() == first
    True
    """
    taken: Streams = {"python": python_state(random.random.__self__)}  # type: ignore[attr-defined]  # the module's hidden Random
    mtrand = sys.modules.get("numpy.random.mtrand") or _late_numpy()
    if mtrand is not None and hasattr(mtrand, "_rand"):
        taken["numpy"] = legacy_state(mtrand._rand)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):  # hardly imported yet: nobody drew
        taken["torch"] = tensor_bytes(torch.default_generator.get_state())
        for name in _DEVICES:
            device = getattr(torch, name, None)
            if device is not None and device.is_initialized():  # asking for a state would begin to use it
                taken[name] = [tensor_bytes(state) for state in device.get_rng_state_all()]
    return taken


def _late_numpy() -> Any:
    """NumPy loads its random part when it is first asked for; its stream begins there, with a seed that nobody could repeat."""
    numpy = sys.modules.get("numpy")
    return importlib.import_module("numpy.random.mtrand") if numpy is not None and hasattr(numpy, "ndarray") else None


def put_back(streams: Mapping[str, Any]) -> list[str]:
    """Let every stream go on from a state that `take` gave; what could not be put back, a sentence each."""
    missing: list[str] = []
    for name, state in streams.items():
        try:
            if name == "python":
                set_python_state(random.random.__self__, state)  # type: ignore[attr-defined]
            elif name == "numpy":
                set_legacy_state(importlib.import_module("numpy.random.mtrand")._rand, state)
            elif name == "torch":
                importlib.import_module("torch").default_generator.set_state(bytes_tensor(state))
            else:
                missing += _put_device(name, state)
        except ImportError as problem:
            missing.append(f"the random stream of {name} was not put back: {problem}; install what the run was recorded with")
    return missing


def _put_device(name: str, states: list[bytes]) -> list[str]:
    device = getattr(importlib.import_module("torch"), name, None)
    count = device.device_count() if device is not None and device.is_available() else 0
    for number, state in enumerate(states[:count]):
        device.set_rng_state(bytes_tensor(state), number)  # type: ignore[union-attr]
    if count < len(states):
        return [f"the random streams of {len(states) - count} of {len(states)} {name} devices were not put back: the devices are not here"]
    return []


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The streams that somebody drew from, or seeded, between two looks."""
    return [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]


# Python's generator: (index and words as bytes, the second normal number that is waiting or None)


def python_state(generator: random.Random) -> tuple[bytes, float | None]:
    """The state of a `random.Random`."""
    if type(generator) is random.Random and _python_readable():
        waiting: float | None = generator.gauss_next  # type: ignore[attr-defined]
        return ctypes.string_at(id(generator) + object.__basicsize__, TWISTER_BYTES), waiting
    return _told_python_state(generator)


def _told_python_state(generator: random.Random) -> tuple[bytes, float | None]:
    _, words, waiting = generator.getstate()
    return _WORDS.pack(words[-1], *words[:-1]), waiting


def set_python_state(generator: random.Random, state: tuple[bytes, float | None]) -> None:
    """Let a `random.Random` go on from there."""
    index, *words = _WORDS.unpack(state[0])
    generator.setstate((3, (*words, index), state[1]))


@functools.cache
def _python_readable() -> bool:
    """Whether the words lie right behind the object's head in this interpreter."""
    if not _LITTLE or sys.implementation.name != "cpython":
        return False
    probe = random.Random(20_200_811)
    for draws in (0, 3, 700):
        for _ in range(draws):
            probe.random()
        if ctypes.string_at(id(probe) + object.__basicsize__, TWISTER_BYTES) != _told_python_state(probe)[0]:
            return False
    return True


# NumPy's legacy generator: (kind of bits, their state, whether a normal number is waiting, that number)


def legacy_state(generator: Any) -> tuple[str, Any, int, float]:
    """The state of a `numpy.random.RandomState`."""
    bits = generator._bit_generator
    kind = type(bits).__name__
    if kind == "MT19937":
        offset = _legacy_offset()
        if offset:
            words = ctypes.string_at(bits.ctypes.state_address, TWISTER_BYTES)
            has, _, waiting = _GAUSS.unpack(ctypes.string_at(id(generator) + offset, _GAUSS.size))
            return kind, words, has, waiting if has else 0.0
    told = generator.get_state(legacy=False)
    has = int(told["has_gauss"])
    return kind, bits_state(bits), has, float(told["gauss"]) if has else 0.0


def set_legacy_state(generator: Any, state: tuple[str, Any, int, float]) -> None:
    """Let a `numpy.random.RandomState` go on from there."""
    kind, words, has, waiting = state
    if type(generator._bit_generator).__name__ != kind:
        numpy_random = importlib.import_module("numpy.random")
        if generator is not sys.modules["numpy.random.mtrand"]._rand:
            raise ImportError(f"its bits are of kind {type(generator._bit_generator).__name__}, not {kind}")
        numpy_random.set_bit_generator(getattr(numpy_random, kind)())
    generator.set_state({**_told_bits(kind, words), "has_gauss": has, "gauss": waiting})


@functools.cache
def _legacy_offset() -> int:
    """Where a RandomState keeps the normal number that is waiting, counted from its head; 0 if that was not found."""
    mtrand: Any = sys.modules["numpy.random.mtrand"]
    size = mtrand.RandomState.__basicsize__
    probe = mtrand.RandomState(20_200_811)
    probe.standard_normal()
    told = probe.get_state(legacy=False)
    if not _LITTLE or sys.implementation.name != "cpython":
        return 0
    memory = ctypes.string_at(id(probe), size)
    at = memory.find(struct.pack("<d", told["gauss"])) - 8
    if at < object.__basicsize__ or struct.unpack_from("<i", memory, at) != (1,):
        return 0
    probe.standard_normal()  # takes the number that was waiting, without a draw
    if struct.unpack_from("<i", ctypes.string_at(id(probe), size), at) != (0,):
        return 0
    probe.random_sample(700)
    words = ctypes.string_at(probe._bit_generator.ctypes.state_address, TWISTER_BYTES)
    return at if words == bits_state(probe._bit_generator) else 0


# Bits: what the generators of NumPy draw from


def bits_state(bits: Any) -> Any:
    """The state of a `numpy.random.BitGenerator`: bytes for a Mersenne Twister, else what it tells, with plain numbers."""
    told = bits.state
    if told["bit_generator"] == "MT19937":
        key = told["state"]["key"]
        return key.astype("<u4").tobytes() + struct.pack("<i", int(told["state"]["pos"]))
    return _plain(told)


def set_bits_state(bits: Any, state: Any) -> None:
    """Let a `numpy.random.BitGenerator` go on from there."""
    bits.state = _told_bits(type(bits).__name__, state)


def _told_bits(kind: str, state: Any) -> dict[str, Any]:
    if isinstance(state, bytes):
        numpy = importlib.import_module("numpy")
        words = numpy.frombuffer(state, dtype="<u4")
        return {"bit_generator": kind, "state": {"key": words[:-1].astype(numpy.uint32), "pos": int(words[-1])}}
    told: dict[str, Any] = _unplain(state)
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "dtype"):  # an array, or a number of NumPy
        return (value.dtype.str, value.tobytes()) if value.ndim else value.item()
    return value


def _unplain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unplain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        numpy = importlib.import_module("numpy")
        return numpy.frombuffer(value[1], dtype=value[0]).copy()
    return value


# torch


def tensor_bytes(state: Any) -> bytes:
    """The bytes of a generator's state, which is a flat tensor of bytes in main memory."""
    return ctypes.string_at(state.data_ptr(), state.numel())


def bytes_tensor(state: bytes) -> Any:
    """A generator's state for torch."""
    torch = importlib.import_module("torch")
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


# Generators that are objects of the program


def generator_state(generator: object) -> Any:
    """The state of a generator object (Python, NumPy, torch) as (kind, plain data); None if it is none of these."""
    if isinstance(generator, random.Random):
        return None if isinstance(generator, random.SystemRandom) else ("python", *python_state(generator))
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        if isinstance(generator, numpy_random.Generator):
            return "bits", type(generator.bit_generator).__name__, bits_state(generator.bit_generator)
        if isinstance(generator, numpy_random.RandomState):
            return "legacy", *legacy_state(generator)
        if isinstance(generator, numpy_random.BitGenerator):
            return "bits", type(generator).__name__, bits_state(generator)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(generator, torch.Generator):
        return "torch", tensor_bytes(generator.get_state())
    return None


def set_generator_state(generator: Any, state: Any) -> bool:
    """Let a generator object go on from there; False if the two are not of one kind."""
    now = generator_state(generator)
    if now is None or now[0] != state[0] or (now[0] in ("bits", "legacy") and now[1] != state[1]):
        return False
    if state[0] == "python":
        set_python_state(generator, (state[1], state[2]))
    elif state[0] == "legacy":
        set_legacy_state(generator, (state[1], state[2], state[3], state[4]))
    elif state[0] == "bits":
        set_bits_state(getattr(generator, "bit_generator", generator), state[2])
    else:
        generator.set_state(bytes_tensor(state[1]))
    return True
