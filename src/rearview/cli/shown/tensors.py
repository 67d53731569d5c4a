"""States as files of tensors that other programs load: safetensors, PyTorch's `.pt`, NumPy's `.npz`.

Knows those formats, and tensors and arrays by their own methods. Must not know checkpoints or stores. Nothing is converted in
silence: what a format cannot hold is refused by name, with the format that can.

safetensors is written here, without its library: eight bytes that say how long the header is, the header (JSON: name to
dtype, shape and offsets), the bytes of each tensor one after the other.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from rearview.errors import MissingLibrary, UsageError

_SAFE = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2": "F8_E5M2", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
"""What torch and NumPy call an element type, and what safetensors calls it."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_LENGTH = struct.Struct("<Q")


def is_tensor(value: object) -> bool:
    """A torch tensor, without importing torch."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def is_array(value: object) -> bool:
    """A NumPy array, without importing NumPy."""
    return any(kind.__module__ == "numpy" and kind.__name__ == "ndarray" for kind in type(value).__mro__)


def flat(name: str, value: object) -> dict[str, Any]:
    """The tensors and arrays of a state under dotted names; anything else in it under its name as it is."""
    found: dict[str, Any] = {}

    def walk(at: str, item: object) -> None:
        if isinstance(item, Mapping):
            for key, inner in item.items():
                walk(f"{at}.{key}" if at else str(key), inner)
        elif isinstance(item, (list, tuple)):
            for k, inner in enumerate(item):
                walk(f"{at}.{k}" if at else str(k), inner)
        elif at in found:
            raise UsageError(f"two parts of {name} would have the name {at!r} in the file: write a .pt file instead")
        else:
            found[at or name] = item

    walk("", value)
    return found


def _only_tensors(name: str, value: object, kind: str) -> dict[str, Any]:
    found = flat(name, value)
    others = [f"{at} ({type(item).__name__})" for at, item in found.items() if not (is_tensor(item) or is_array(item))]
    if others:
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        raise UsageError(f"{name} does not consist of tensors alone: {shown}; {kind} cannot hold that, write a .pt file instead")
    if not found:
        raise UsageError(f"{name} holds no tensor: there is nothing to write")
    return found


def shared(name: str, value: object) -> list[list[str]]:
    """Names that stand for the same memory: in a file each has a copy of its own."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for at, item in flat(name, value).items():
        if is_tensor(item) and item.numel() and item.layout is _strided(item):
            groups.setdefault((item.data_ptr(), tuple(item.shape), item.stride(), str(item.dtype)), []).append(at)
    return [names for names in groups.values() if len(names) > 1]


def _strided(tensor: Any) -> object:
    import torch

    return torch.strided if tensor.layout is torch.strided else None


def _is_dense(tensor: Any) -> bool:
    """Whether its elements lie in memory one by one."""
    return _strided(tensor) is not None and not tensor.is_quantized


# safetensors


def safetensors(name: str, value: object, file: IO[bytes]) -> None:
    """Write a state of tensors as a safetensors file."""
    tensors = _only_tensors(name, value, "safetensors")
    kinds = {at: _safe_kind(at, item) for at, item in tensors.items()}
    order = sorted(tensors, key=lambda at: (-_item_bytes(tensors[at]), at))  # the widest first: each begins where its type may
    header: dict[str, Any] = {}
    end = 0
    for at in order:
        begin, end = end, end + _count(tensors[at]) * _item_bytes(tensors[at])
        header[at] = {"dtype": kinds[at], "shape": list(tensors[at].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    file.write(_LENGTH.pack(len(text)) + text)
    for at in order:
        for piece in _raw(tensors[at]):
            file.write(piece)


def _safe_kind(at: str, item: Any) -> str:
    if at == "__metadata__":
        raise UsageError("safetensors keeps the name __metadata__ for itself: write a .pt file instead")
    dtype = str(item.dtype).removeprefix("torch.") if is_tensor(item) else str(item.dtype.name)
    known = _SAFE.get(dtype)
    if known is None or (is_tensor(item) and not _is_dense(item)):
        if is_array(item):
            _refuse_objects(at, item)
        what = "a tensor that is not dense" if known else f"of {dtype}"
        instead = ".pt" if is_tensor(item) or _torch_has(item.dtype) else ".npz"
        raise UsageError(f"{at} is {what}, which safetensors has no type for: write a {instead} file instead")
    return known


def _refuse_objects(at: str, array: Any) -> None:
    """No format holds objects: only a pickle would."""
    if array.dtype.hasobject:
        raise UsageError(f"{at} is an array of {array.dtype}, which files of tensors hold only as a pickle: export a part of it")


def _torch_has(dtype: Any) -> bool:
    return dtype.kind in "biufc" and dtype.name not in ("float96", "float128", "complex192", "complex256")


def _item_bytes(item: Any) -> int:
    return int(item.element_size() if is_tensor(item) else item.itemsize)


def _count(item: Any) -> int:
    return int(item.numel() if is_tensor(item) else item.size)


def _raw(item: Any) -> Iterator[bytes | memoryview]:
    """The elements row by row, little-endian, as they lie in memory."""
    if not is_tensor(item):
        import numpy

        array = numpy.ascontiguousarray(item, dtype=item.dtype.newbyteorder("<"))
        yield memoryview(array.reshape(-1).view(numpy.uint8)) if array.size else b""
        return
    import torch

    whole = item.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if not whole.numel():
        return
    data = whole.reshape(-1).view(torch.uint8)
    try:
        yield memoryview(data.numpy())
    except RuntimeError:  # torch without NumPy
        yield bytes(data.untyped_storage())[data.storage_offset() : data.storage_offset() + data.numel()]


# .pt and .npz


def pt(name: str, value: object, file: IO[bytes]) -> None:
    """Write a state as PyTorch does; `torch.load(path, weights_only=True)` reads it."""
    try:
        import torch
    except ImportError as problem:
        raise MissingLibrary("writing a .pt file needs torch: install it, or write a .npz or .safetensors file") from problem
    torch.save(_loadable(name, value, torch), file)


def _loadable(at: str, value: Any, torch: Any) -> Any:
    """The same state in the types that PyTorch loads without unpickling anything else; arrays become tensors."""
    if isinstance(value, Mapping):
        made = {key: _loadable(f"{at}.{key}", item, torch) for key, item in value.items()}
        odd = [key for key in made if not isinstance(key, _PLAIN)]
        if odd:
            raise UsageError(f"{at} has the key {odd[0]!r}, which a .pt file holds only as a pickle: export a part of it")
        return made
    if isinstance(value, (list, tuple)):
        items = [_loadable(f"{at}.{k}", item, torch) for k, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if is_array(value) or (type(value).__module__ == "numpy" and hasattr(value, "dtype")):
        import numpy

        _refuse_objects(at, value)
        try:
            return torch.from_numpy(numpy.array(value))  # a NumPy scalar becomes a tensor of no dimension
        except TypeError as problem:
            raise UsageError(f"{at} is an array of {value.dtype}, which torch has no type for: write a .npz file instead") from problem
    if is_tensor(value):
        return value.detach()
    if isinstance(value, _PLAIN):
        return value
    raise UsageError(f"{at} is of type {type(value).__name__}, which a .pt file holds only as a pickle: export a part of it")


def npz(name: str, value: object, file: IO[bytes]) -> None:
    """Write a state as NumPy's archive, the names as keys; `numpy.load(path)` reads it without pickle."""
    try:
        import numpy
    except ImportError as problem:
        raise MissingLibrary("writing a .npz file needs numpy: `pip install numpy`, or write a .safetensors file") from problem
    import zipfile

    arrays = {at: _array(at, item, numpy) for at, item in flat(name, value).items()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:  # not numpy.savez: it has words of its own, such as `file`
        for at, array in arrays.items():
            with archive.open(f"{at}.npy", "w", force_zip64=True) as member:
                numpy.lib.format.write_array(member, numpy.asanyarray(array), allow_pickle=False)


def _array(at: str, item: Any, numpy: Any) -> Any:
    if is_tensor(item):
        try:
            return item.detach().resolve_conj().resolve_neg().cpu().numpy()
        except (TypeError, RuntimeError) as problem:
            dtype = str(item.dtype).removeprefix("torch.")
            what = f"of {dtype}" if _is_dense(item) else "that is not dense"
            hint = "a .safetensors or .pt file" if _is_dense(item) and dtype in _SAFE else "a .pt file"
            raise UsageError(f"{at} is a tensor {what}, which NumPy has no type for: write {hint} instead") from problem
    if isinstance(item, bytes):
        return numpy.frombuffer(item, numpy.uint8)  # its type for bytes drops the zeros at their end
    if isinstance(item, str) and item.endswith("\0"):
        raise UsageError(f"{at} is text that ends with a zero character, which NumPy drops: write a .pt file instead")
    if is_array(item):
        _refuse_objects(at, item)
        return item
    array = numpy.asarray(item) if isinstance(item, (bool, int, float, complex, str, numpy.generic)) else None
    if array is None or array.dtype.hasobject:
        hint = "write a .pt file instead" if isinstance(item, _PLAIN) else "export a part of it"
        raise UsageError(f"{at} is of type {type(item).__name__}, which NumPy holds only as a pickle: {hint}")
    return array


FORMATS: dict[str, Callable[[str, object, IO[bytes]], None]] = {".safetensors": safetensors, ".pt": pt, ".pth": pt, ".npz": npz}
"""What a file's name ends with, and what writes it."""
