"""Torch tensors, generators and the small values of torch. Touches torch only if the program loaded it.

A tensor is described as a view of its whole storage; two tensors over one storage name the same buffer. A tensor with history is
kept as a value. Nothing here copies memory, asks a subclass, or leaves a trace in autograd.
"""

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager
from typing import Any

from rearview.state.buffers import memory_at
from rearview.state.take import histories, hooks
from rearview.state.take.attributes import take_attrs
from rearview.state.take.walk import Missing, Taker, Uncapturable, Walk
from rearview.state.tree import NONE, Node
from rearview.store.encoding import type_name

REQUIRES_GRAD, HISTORY, CONJ, NEG, RETAINS_GRAD, UNKNOWN = 1, 2, 4, 8, 16, 32
"""Flags of a tensor. UNKNOWN: a test left out whether it requires a gradient."""

GRAD_AT = 4
"""Where the node of a tensor has its gradient."""

_TAKE_ATTRS = take_attrs()
_attributes = object.__getattribute__
_COMPUTED = "how it was computed"
"""Comes back otherwise: as a value without any history."""


def loaded() -> Any:
    """torch, if the program has loaded it."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and hasattr(torch, "Tensor") and hasattr(torch, "no_grad") else None


def quiet() -> AbstractContextManager[Any]:
    """No gradient history, no subclass and no mode that sees what happens."""
    torch = loaded()
    if torch is None:
        return contextlib.nullcontext()
    stack = contextlib.ExitStack()
    stack.enter_context(torch.no_grad())
    stack.enter_context(torch._C.DisableTorchFunction())
    return stack


def storage_buffer(walk: Walk, tensor: Any) -> int:
    """The node of a tensor's storage."""
    storage = tensor.untyped_storage()
    nbytes, address = storage.nbytes(), storage.data_ptr()
    on_cpu = tensor.is_cpu
    if nbytes == 0:
        key: tuple[Any, ...] = ("empty", storage._cdata)
    elif on_cpu:
        key = ("cpu", address, nbytes)
    else:
        key = (str(tensor.device), address, nbytes)
    number, buffer = walk.memory(key, nbytes, storage, address if on_cpu else 0, storage)
    if buffer is None:
        return number
    try:
        version = tensor._version
    except RuntimeError:  # made in inference mode: nobody counts
        version = None
    if walk.new_memory or buffer.constant_hint:
        buffer.constant_hint = not tensor.requires_grad and tensor.is_leaf and _is_parameter(tensor)
    if version is not None and not buffer.uncounted:
        before = buffer.version
        buffer.version = version if before is None or before < version else before
    return number


def _is_parameter(tensor: Any) -> bool:
    torch = sys.modules["torch"]
    return type(tensor) is not torch.Tensor and isinstance(tensor, torch.nn.Parameter)


def layout(walk: Walk, tensor: Any) -> int:
    """dtype, device, shape and strides: most tensors share theirs with others."""
    key: tuple[Any, ...] = (tensor.dtype, tensor.size(), tensor.stride())
    if not tensor.is_cpu:  # a device takes longer to hash than all else
        key = (*key, tensor.device)
    number = walk.cache.get(key)
    if number is None:
        dtype = str(tensor.dtype).removeprefix("torch.")
        number = walk.add(("layout", walk.slots((dtype, str(tensor.device), tensor.dim(), *key[1], *key[2]))))
        walk.cache[key] = number
    return int(number)


def _class_and_attributes(walk: Walk, tensor: Any) -> tuple[int, int]:
    kind = type(tensor)
    attributes = _attributes(tensor, "__dict__")
    return (
        NONE if kind is sys.modules["torch"].Tensor else walk.slot(kind),
        walk.slot_as(attributes, _TAKE_ATTRS) if attributes else NONE,
    )


def _flags(tensor: Any) -> int:
    flags = NEG if tensor.is_neg() else 0
    if tensor.dtype.is_complex and tensor.is_conj():
        flags |= CONJ
    if tensor.is_leaf:
        return flags | REQUIRES_GRAD if tensor.requires_grad else flags
    return flags | HISTORY | (RETAINS_GRAD if tensor.retains_grad else 0)


def take_tensor(walk: Walk, tensor: Any) -> Node:
    """A tensor of any layout."""
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided:
        return _take_sparse(walk, tensor)
    if tensor.is_quantized:
        return _take_quantized(walk, tensor)
    kind, attributes = _class_and_attributes(walk, tensor)
    flags = _flags(tensor)
    if walk.omit is not None and walk.omit(walk.where(walk.at) + ".requires_grad", tensor):
        flags |= UNKNOWN
    if tensor.is_meta:
        if flags & HISTORY:
            walk.differs(tensor, _COMPUTED)
        return ("meta", (kind, layout(walk, tensor), walk.slot(flags), attributes))
    try:
        buffer = storage_buffer(walk, tensor)
    except (RuntimeError, NotImplementedError) as problem:
        raise Uncapturable(f"a tensor without memory of its own ({problem})") from problem
    grad = tensor.grad if flags & RETAINS_GRAD or not flags & HISTORY else None
    if flags & HISTORY:
        _look_at_history(walk, tensor)
        if kind != NONE or flags & (CONJ | NEG):
            walk.differs(tensor, _COMPUTED)
    if flags & REQUIRES_GRAD:
        hooks.note(walk, tensor)
    if grad is not None and walk.plain is not None:
        walk.grads.append((walk.at, grad))
        grad = None
    held = NONE if grad is None else walk.slot(grad)
    return ("tensor", (kind, layout(walk, tensor), buffer, walk.slot(flags), held, attributes, walk.slot(tensor.storage_offset())))


def _look_at_history(walk: Walk, tensor: Any) -> None:
    """Name a tensor through which the program may still go back."""
    named = walk.cache.setdefault("histories", 0)
    if named < histories.MOST and histories.is_pending(tensor) and not histories.is_computed(walk.cache, tensor):
        walk.cache["histories"] = named + 1
        walk.missing.append(Missing(walk.where(walk.at), type_name(tensor), histories.PENDING))


def _take_sparse(walk: Walk, tensor: Any) -> Node:
    """A sparse tensor by its parts."""
    torch = sys.modules["torch"]
    kind, attributes = _class_and_attributes(walk, tensor)
    flags = _flags(tensor)
    if flags & HISTORY:
        walk.differs(tensor, _COMPUTED)
    name = str(tensor.layout).removeprefix("torch.")
    plain = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        parts = [plain._indices(), plain._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [plain.crow_indices(), plain.col_indices(), plain.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [plain.ccol_indices(), plain.row_indices(), plain.values()]
    else:
        raise Uncapturable(f"a tensor in the layout {name}")
    coalesced = bool(tensor.layout is torch.sparse_coo and tensor.is_coalesced())
    grad = None if flags & HISTORY else tensor.grad
    head = [kind, walk.slot(name), walk.slot(flags), walk.slot(grad), attributes, walk.slot(coalesced)]
    return ("sparse", (*head, walk.slot(tuple(tensor.size())), *walk.slots(parts)))


def _take_quantized(walk: Walk, tensor: Any) -> Node:
    """A quantised tensor: its integers, and what they mean."""
    kind, attributes = _class_and_attributes(walk, tensor)
    scheme = str(tensor.qscheme()).removeprefix("torch.")
    if "per_tensor" in scheme:
        meaning = (tensor.q_scale(), tensor.q_zero_point(), None)
    else:
        meaning = (tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points(), tensor.q_per_channel_axis())
    head = [kind, layout(walk, tensor), storage_buffer(walk, tensor), attributes, walk.slot(tensor.storage_offset())]
    return ("quantized", (*head, walk.slot(scheme), *walk.slots(meaning)))


def take_lazy(walk: Walk, tensor: Any) -> Node:
    """A parameter that has no shape yet."""
    kind, attributes = _class_and_attributes(walk, tensor)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return ("lazy", (kind, *walk.slots((dtype, str(tensor.device), bool(tensor.requires_grad))), attributes))


def take_generator(walk: Walk, value: Any) -> Node:
    """A generator: its device and state."""
    state = value.get_state()
    return ("tgen", walk.slots((str(value.device), memory_at(state.data_ptr(), state.numel()).tobytes())))


def take_storage(walk: Walk, value: Any) -> Node:
    """A storage that the program holds by itself."""
    torch = sys.modules["torch"]
    flat = torch.empty(0, dtype=torch.uint8, device=value.device).set_(value)
    return ("storage", (storage_buffer(walk, flat), walk.slot(str(value.device))))


def _take_small(name: str) -> Taker:
    def take(walk: Walk, value: Any) -> Node:
        if name == "Size":
            return ("tvalue", walk.slots((name, *value)))
        return ("tvalue", walk.slots((name, str(value).removeprefix("torch."))))

    return take


def takers() -> dict[type, Taker]:
    """Who takes exactly these types."""
    torch = loaded()
    if torch is None:
        return {}
    found: dict[type, Taker] = {
        torch.Tensor: take_tensor,
        torch.Generator: take_generator,
        torch.UntypedStorage: take_storage,
        torch.dtype: _take_small("dtype"),
        torch.device: _take_small("device"),
        torch.layout: _take_small("layout"),
        torch.memory_format: _take_small("memory_format"),
        torch.Size: _take_small("Size"),
    }
    if hasattr(torch, "nn"):
        found[torch.nn.Parameter] = take_tensor
    return found


def decide(kind: type) -> Taker | None:
    """Who takes classes derived from tensors."""
    torch = loaded()
    if torch is None or not issubclass(kind, torch.Tensor):
        return None
    return take_lazy if issubclass(kind, torch.nn.parameter.UninitializedTensorMixin) else take_tensor
