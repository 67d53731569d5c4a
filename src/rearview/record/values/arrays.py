"""Arrays and tensors as bytes in C order, with what is needed to build them again.

Knows NumPy, torch, TensorFlow and JAX by the modules the user's program has loaded; imports none of them and never needs
NumPy to read a torch tensor. Reading leaves everything as it was: nothing is drawn from a random stream, no gradient
history is added, no warning is given, and the only wait is the copy from the device. What cannot be given back bit for
bit raises `Unstorable`. Knows nothing of files or journals.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field
from typing import Any

from rearview.errors import Unstorable
from rearview.record.values import summaries
from rearview.record.values.summaries import Figures
from rearview.store.encoding import type_name

_NUMPY_CLASSES = ("ndarray", "memmap", "matrix", "recarray", "MaskedArray")


@dataclass(frozen=True, slots=True)
class Whole:
    """A value that is kept whole: its bytes and how to read them (`docs/reference/values.md`)."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes
    figures: Figures
    details: dict[str, Any] = field(default_factory=dict)


# NumPy


def from_numpy(np: Any, array: Any, kind: str = "numpy") -> Whole:
    """A NumPy array, or one that another library gave out as NumPy."""
    name = type(array).__name__
    if not type(array).__module__.startswith("numpy") or name not in _NUMPY_CLASSES:
        raise Unstorable(f"{type_name(array)} adds something to a NumPy array that would be lost; log np.asarray(...) of it")
    details: dict[str, Any] = {"dtype": dtype_spec(np, array.dtype)}
    if array.dtype.kind in "fc" and array.dtype.itemsize > (8 if array.dtype.kind == "f" else 16):
        details["mantissa"] = int(np.finfo(array.dtype).nmant)  # what longdouble means differs between machines
    if name in ("matrix", "recarray"):
        details["class"] = name
    if name == "MaskedArray":
        return _masked(np, array, details)
    data = array.tobytes()
    figures = summaries.of_numpy(np, np.frombuffer(data, dtype=array.dtype)) if data else Figures()
    return Whole(kind, str(array.dtype), tuple(array.shape), data, figures, details)


def _masked(np: Any, array: Any, details: dict[str, Any]) -> Whole:
    """A masked array: the data, also under the mask, then one byte for each element: is it masked?"""
    if array.dtype.names is not None:
        raise Unstorable("a masked array with fields cannot be kept; log each field by itself")
    mask = np.ma.getmaskarray(array)
    details |= {"class": "MaskedArray", "hard_mask": bool(array.hardmask), "fill": np.asarray(array.fill_value, array.dtype).tobytes()}
    data = array.data.tobytes() + mask.tobytes()
    shown = np.ascontiguousarray(array.data[~mask])
    return Whole("numpy", str(array.dtype), tuple(array.shape), data, summaries.of_numpy(np, shown), details)


def dtype_spec(np: Any, dtype: Any) -> Any:
    """A dtype as plain values; `rearview.catalog.cells` builds it again."""
    if summaries.is_extension(dtype):
        return f"ml_dtypes.{dtype.name}"
    if dtype.hasobject or dtype.kind not in "biufcSUMmV" or dtype.isbuiltin == 2:
        raise Unstorable(f"an array of dtype {dtype} cannot be kept: its elements are objects, not bytes; log a list or text")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [dtype_spec(np, base), list(shape)]
    if dtype.names is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [dtype_spec(np, each[0]) for each in fields],
        "offsets": [int(each[1]) for each in fields],
        "titles": [_title(each) for each in fields],
        "itemsize": int(dtype.itemsize),
        "aligned": bool(dtype.isalignedstruct),
        "record": dtype.type is not np.void,
    }


def _title(entry: Any) -> str | None:
    title = entry[2] if len(entry) > 2 else None
    if title is not None and not isinstance(title, str):
        raise Unstorable("an array whose field titles are not text cannot be kept")
    return title


# torch


def refuse_wrapper(torch: Any, tensor: Any) -> None:
    """Refuse a tensor that stands for others: reading one that is spread over ranks would make them all wait."""
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise Unstorable(f"{type_name(tensor)} stands for other tensors and cannot be kept; log its local or full tensor, or .item() of it")


def from_torch(torch: Any, tensor: Any) -> Whole:
    """A torch tensor of any layout, on any device that has bytes."""
    kind = type(tensor)
    if tensor.is_nested:
        raise Unstorable("a nested tensor cannot be kept; log its parts as a list")
    if tensor.device.type == "meta":
        raise Unstorable("a meta tensor has no bytes to keep; log its shape")
    if sys.byteorder != "little":
        raise Unstorable("tensors of a big-endian machine cannot be kept; log numpy arrays")
    details: dict[str, Any] = {}
    if kind is torch.nn.Parameter:
        details = {"class": "Parameter", "requires_grad": bool(tensor.requires_grad)}
    elif kind is not torch.Tensor:
        details = {"class": type_name(tensor)}
    plain = tensor.detach()
    plain = (plain if type(plain) is torch.Tensor else plain.as_subclass(torch.Tensor)).cpu()
    name, shape = _torch_name(plain.dtype), tuple(plain.shape)
    if plain.is_quantized:
        return _quantised(torch, plain, details)
    if plain.layout != torch.strided:
        return _sparse(torch, plain, details)
    plain = plain.resolve_conj().resolve_neg().contiguous()
    return Whole("torch", name, shape, _memory(plain), summaries.of_torch(torch, plain), details)


def _torch_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _memory(tensor: Any) -> bytes:
    """The bytes of a contiguous CPU tensor, without NumPy."""
    size_bytes = tensor.numel() * tensor.element_size()
    return bytes((ctypes.c_char * size_bytes).from_address(tensor.data_ptr())) if size_bytes else b""


def _in_parts(torch: Any, whole: Any, parts: list[Any], shown: Any, details: dict[str, Any]) -> Whole:
    """A tensor that is made of others: their bytes one after the other."""
    parts = [part.contiguous() for part in parts]
    details["parts"] = [[_torch_name(part.dtype), list(part.shape)] for part in parts]
    figures = summaries.of_torch(torch, shown.contiguous())
    return Whole("torch", _torch_name(whole.dtype), tuple(whole.shape), b"".join(map(_memory, parts)), figures, details)


def _sparse(torch: Any, tensor: Any, details: dict[str, Any]) -> Whole:
    """Summed up over the stored elements: the zeros in between are not there."""
    layout = _torch_name(tensor.layout)
    details["layout"] = layout
    if layout == "sparse_coo":
        details["coalesced"] = bool(tensor.is_coalesced())
        parts = [tensor._indices(), tensor._values()]
    elif layout in ("sparse_csr", "sparse_bsr"):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif layout in ("sparse_csc", "sparse_bsc"):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    else:
        raise Unstorable(f"a tensor of layout {layout} cannot be kept; log .to_dense() of it")
    return _in_parts(torch, tensor, parts, parts[-1], details)


def _quantised(torch: Any, tensor: Any, details: dict[str, Any]) -> Whole:
    scheme = _torch_name(tensor.qscheme())
    details["quantised"] = scheme
    if _torch_name(tensor.dtype) not in ("qint8", "quint8", "qint32"):
        raise Unstorable(f"a quantised tensor of {tensor.dtype} cannot be kept; log .dequantize() of it")
    parts = [tensor.int_repr()]
    if scheme == "per_tensor_affine":
        details |= {"scale": float(tensor.q_scale()), "zero_point": int(tensor.q_zero_point())}
    elif scheme == "per_channel_affine":
        details["axis"] = int(tensor.q_per_channel_axis())
        parts += [tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()]
    else:
        raise Unstorable(f"a quantised tensor of scheme {scheme} cannot be kept; log .dequantize() of it")
    return _in_parts(torch, tensor, parts, tensor.dequantize(), details)


# libraries that give out NumPy arrays


def from_jax(jax: Any, np: Any, array: Any) -> Whole:
    """A JAX array. A traced one has no value yet."""
    core = getattr(jax, "core", None)
    if isinstance(array, getattr(core, "Tracer", ())):
        raise Unstorable("a traced JAX value has no number yet; log what the jitted function returns")
    return from_numpy(np, np.asarray(array), "jax")


def from_tensorflow(np: Any, tensor: Any) -> Whole:
    """A TensorFlow tensor or variable that is not inside a graph."""
    read = getattr(tensor, "numpy", None)
    if read is None:
        raise Unstorable("a symbolic TensorFlow tensor has no value yet; log outside of the traced function")
    whole = from_numpy(np, np.asarray(read()), "tensorflow")
    if "Variable" in type(tensor).__name__:
        whole.details["class"] = "Variable"
    return whole
