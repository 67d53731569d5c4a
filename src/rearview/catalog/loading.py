"""Bytes of an object back to the array, tensor or picture they were, bit for bit.

The only module of the reading side that imports a framework, and only when a value is asked for. Everything it is told
comes from a file: lengths are checked against the bytes before anything is allocated, and a dtype is built only from the
plain forms that `rearview.record.values.arrays` writes. What does not fit raises `ValueError`; the caller names the object.
"""

from __future__ import annotations

import importlib
import math
import re
from typing import Any

from rearview.errors import MissingLibrary
from rearview.model import ArraySummary

_DTYPE = re.compile(r"[<>|=]?[biufcSUV]\d{1,9}|[<>][Mm]8(\[\d{0,9}[A-Za-z]{1,7}\])?", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9_]{1,30}", re.ASCII)
_BANDS = {"1": "|b1", "I": "<i4", "F": "<f4", "I;16": "<u2", "I;16L": "<u2", "I;16N": "<u2", "I;16B": ">u2"}
_TORCH_AS_NUMPY = {
    "bool": "|b1", "uint8": "|u1", "int8": "|i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4",
    "uint64": "<u8", "int64": "<i8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8", "complex128": "<c16",
    "bfloat16": "ml_dtypes.bfloat16", "float8_e4m3fn": "ml_dtypes.float8_e4m3fn", "float8_e5m2": "ml_dtypes.float8_e5m2",
    "float8_e4m3fnuz": "ml_dtypes.float8_e4m3fnuz", "float8_e5m2fnuz": "ml_dtypes.float8_e5m2fnuz",
    "float8_e8m0fnu": "ml_dtypes.float8_e8m0fnu",
}  # fmt: skip


def load(summary: ArraySummary, data: bytes, *, original: bool) -> Any:
    """The value of an object. `original` asks for its own library first."""
    loaders = {"torch": _torch, "pil": _pil, "figure": _figure, "jax": _jax, "tensorflow": _tensorflow}
    if summary.kind not in (*loaders, "numpy"):
        raise ValueError(f"unknown kind {summary.kind!r}")
    if original and summary.kind in loaders:
        found = loaders[summary.kind](summary, data)
        if found is not None:
            return found
    return _as_numpy(summary, data)


def _library(name: str) -> Any:
    """A module if it can be imported, else None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _need(name: str, why: str, install: str | None = None) -> Any:
    module = _library(name)
    if module is None:
        raise MissingLibrary(f"{why} needs {name}, which is not installed: `pip install {install or name}`")
    return module


# NumPy


def _as_numpy(summary: ArraySummary, data: bytes) -> Any:
    import_hint = "loading this value" if summary.kind == "numpy" else f"loading this value without {_owner(summary)}"
    np = _need("numpy", import_hint)
    if summary.kind in ("pil", "figure"):
        return _picture_array(np, summary, data)
    if summary.kind == "torch":
        spec = _TORCH_AS_NUMPY.get(summary.dtype)
        if spec is None or "parts" in summary.details:
            raise MissingLibrary(f"a tensor of {_what(summary)} has no NumPy form: `pip install torch` to load it")
        return _filled(np, _dtype(np, spec), summary.shape, data)
    return _numpy(np, summary, data)


def _owner(summary: ArraySummary) -> str:
    return {"pil": "Pillow", "figure": "matplotlib"}.get(summary.kind, summary.kind)


def _what(summary: ArraySummary) -> str:
    return str(summary.details.get("layout", summary.details.get("quantised", summary.dtype)))[:40]


def _filled(np: Any, dtype: Any, shape: tuple[int, ...], data: bytes) -> Any:
    """An own, writable array of these bytes."""
    count = math.prod(shape)
    if dtype.itemsize * count != len(data):
        raise ValueError(f"{len(data)} bytes for {count} elements of {dtype.itemsize} bytes")
    if not count or not dtype.itemsize:
        return np.zeros(shape, dtype)
    return np.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def _numpy(np: Any, summary: ArraySummary, data: bytes) -> Any:
    details = summary.details
    dtype = _dtype(np, details["dtype"])
    mantissa = details.get("mantissa")
    if mantissa is not None and int(np.finfo(dtype).nmant) != mantissa:
        raise MissingLibrary("this value holds extended floats of another kind of machine: load it on one like the one that logged it")
    name = details.get("class")
    if name == "MaskedArray":
        return _masked(np, summary, dtype, data)
    array = _filled(np, dtype, summary.shape, data)
    if name == "scalar":
        return array[()]
    if name == "matrix":
        return array.view(np.matrix)
    return array.view(np.recarray) if name == "recarray" else array


def _masked(np: Any, summary: ArraySummary, dtype: Any, data: bytes) -> Any:
    count = math.prod(summary.shape)
    split = len(data) - count
    if split < 0 or split != dtype.itemsize * count:
        raise ValueError("a mask of another size")
    values = _filled(np, dtype, summary.shape, data[:split])
    mask = _filled(np, np.dtype("|b1"), summary.shape, data[split:])
    fill = _filled(np, dtype, (), summary.details["fill"])[()]
    return np.ma.MaskedArray(values, mask=mask, fill_value=fill, hard_mask=bool(summary.details["hard_mask"]))


def _dtype(np: Any, spec: Any, depth: int = 0) -> Any:
    """A dtype from its plain form (`rearview.record.values.arrays.dtype_spec`)."""
    if depth > 32:
        raise ValueError("a dtype nested too deep")
    if isinstance(spec, str):
        library, _, name = spec.rpartition(".")
        if library == "ml_dtypes" and _NAME.fullmatch(name):
            return np.dtype(getattr(_need("ml_dtypes", f"loading {name} elements"), name))
        if not _DTYPE.fullmatch(spec):
            raise ValueError(f"unknown dtype {spec[:40]!r}")
        return np.dtype(spec)
    if isinstance(spec, list):
        base, shape = spec
        return np.dtype((_dtype(np, base, depth + 1), tuple(shape)))
    fields = {
        "names": spec["names"],
        "formats": [_dtype(np, each, depth + 1) for each in spec["formats"]],
        "offsets": spec["offsets"],
        "itemsize": spec["itemsize"],
    }
    if any(title is not None for title in spec["titles"]):
        fields["titles"] = spec["titles"]
    dtype = np.dtype(fields, align=spec["aligned"])
    return np.dtype((np.record, dtype)) if spec["record"] else dtype


# torch


def _torch(summary: ArraySummary, data: bytes) -> Any:
    torch = _library("torch")
    if torch is None:
        return None
    details = summary.details
    if "layout" in details:
        return _torch_sparse(torch, summary, data)
    if "quantised" in details:
        return _torch_quantised(torch, summary, data)
    tensor = _torch_dense(torch, summary.dtype, summary.shape, data)
    if details.get("class") == "Parameter":
        return torch.nn.Parameter(tensor, requires_grad=bool(details["requires_grad"]))
    return tensor


def _torch_dense(torch: Any, name: str, shape: Any, data: bytes) -> Any:
    dtype = _torch_attribute(torch, name, torch.dtype)
    count = math.prod(shape)
    if dtype.itemsize * count != len(data):
        raise ValueError(f"{len(data)} bytes for {count} elements of {dtype.itemsize} bytes")
    if not count:
        return torch.empty(tuple(shape), dtype=dtype, device="cpu")
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(tuple(shape))


def _torch_attribute(torch: Any, name: Any, kind: type) -> Any:
    found = getattr(torch, name, None) if isinstance(name, str) and _NAME.fullmatch(name) else None
    if not isinstance(found, kind):
        raise TypeError(f"unknown torch name {str(name)[:40]!r}")
    return found


def _torch_parts(torch: Any, summary: ArraySummary, data: bytes) -> list[Any]:
    parts, at = [], 0
    for name, shape in summary.details["parts"]:
        size_bytes = _torch_attribute(torch, name, torch.dtype).itemsize * math.prod(shape)
        parts.append(_torch_dense(torch, name, shape, data[at : at + size_bytes]))
        at += size_bytes
    if at != len(data):
        raise ValueError(f"{len(data)} bytes for parts of {at}")
    return parts


def _torch_sparse(torch: Any, summary: ArraySummary, data: bytes) -> Any:
    layout = _torch_attribute(torch, summary.details["layout"], torch.layout)
    parts = _torch_parts(torch, summary, data)
    if layout == torch.sparse_coo:
        indices, values = parts
        coalesced = bool(summary.details["coalesced"])
        return torch.sparse_coo_tensor(indices, values, summary.shape, is_coalesced=coalesced, check_invariants=True)
    compressed, plain, values = parts
    return torch.sparse_compressed_tensor(compressed, plain, values, summary.shape, layout=layout, check_invariants=True)


def _torch_quantised(torch: Any, summary: ArraySummary, data: bytes) -> Any:
    details, parts = summary.details, _torch_parts(torch, summary, data)
    if tuple(parts[0].shape) != summary.shape:
        raise ValueError("a quantised tensor of another shape")
    if details["quantised"] == "per_tensor_affine":
        return torch._make_per_tensor_quantized_tensor(parts[0], details["scale"], details["zero_point"])
    numbers, scales, zero_points = parts
    channels = (summary.shape[details["axis"]],)
    if tuple(scales.shape) != channels or tuple(zero_points.shape) != channels:  # torch would read past their end
        raise ValueError("scales for another number of channels")
    return torch._make_per_channel_quantized_tensor(numbers, scales, zero_points, details["axis"])


# JAX and TensorFlow: None where their own type cannot hold the value as it was


def _jax(summary: ArraySummary, data: bytes) -> Any:
    jax_numpy = _library("jax.numpy")
    if jax_numpy is None:
        return None
    array = _as_numpy(summary, data)
    narrowed = _library("jax").dtypes.canonicalize_dtype(array.dtype) != array.dtype  # 64-bit numbers while x64 is off
    return None if narrowed else jax_numpy.asarray(array)


def _tensorflow(summary: ArraySummary, data: bytes) -> Any:
    tf = _library("tensorflow")
    if tf is None:
        return None
    array = _as_numpy(summary, data)
    return tf.Variable(array) if summary.details.get("class") == "Variable" else tf.constant(array)


# pictures


def _check_picture(summary: ArraySummary, data: bytes) -> str:
    """The mode of a picture whose size fits its bytes: nothing larger is allocated."""
    mode = summary.details.get("mode", "")
    height, width = summary.shape[:2]
    if mode == "1":
        expected = height * ((width + 7) // 8)  # eight pixels a byte, rows padded
    else:
        expected = math.prod(summary.shape) * int(_BANDS.get(mode, "|u1")[2:])
    if expected != len(data):
        raise ValueError(f"{len(data)} bytes for a picture of {expected}")
    return str(mode)


def _picture_array(np: Any, summary: ArraySummary, data: bytes) -> Any:
    mode = _check_picture(summary, data)
    if mode != "1":
        return _filled(np, np.dtype(_BANDS.get(mode, "|u1")), summary.shape, data)
    height, width = summary.shape
    rows = _filled(np, np.dtype("|u1"), (height, (width + 7) // 8), data)
    return np.unpackbits(rows, axis=1, count=width).astype(np.bool_)


def _pil(summary: ArraySummary, data: bytes) -> Any:
    images = _library("PIL.Image")
    if images is None:
        return None
    details = summary.details
    height, width = summary.shape[:2]
    image = images.frombytes(_check_picture(summary, data), (width, height), data)
    if image.tobytes() != data:
        raise ValueError("a picture of another mode")
    if "palette" in details:
        mode, palette = details["palette"]
        image.putpalette(palette, mode)
    if "transparency" in details:
        image.info["transparency"] = details["transparency"]
    return image


def _figure(summary: ArraySummary, data: bytes) -> Any:
    """A figure of the same size that shows the picture. It belongs to no window and not to pyplot."""
    figures, np = _library("matplotlib.figure"), _library("numpy")
    if figures is None or np is None:
        return None
    picture = _picture_array(np, summary, data)
    height, width = summary.shape[:2]
    dpi = float(summary.details["dpi"])
    figure = figures.Figure(figsize=(width / dpi, height / dpi), dpi=dpi, frameon=False)
    figure.figimage(picture, origin="upper")
    return figure
