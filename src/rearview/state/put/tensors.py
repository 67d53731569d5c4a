"""Torch tensors, generators and the small values of torch going back.

A live tensor of the recorded class stays the same object: its memory is filled, or it is pointed to memory of the recorded shape and
dtype. A tensor that had a history when it was recorded comes back as a value with one that leads nowhere (`unkept`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rearview.state import devices
from rearview.state.put import unkept
from rearview.state.put.kind import ABSENT, InPlace, Kind, Pairs
from rearview.state.put.objects import adopt
from rearview.state.take.tensors import CONJ, HISTORY, NEG, REQUIRES_GRAD, RETAINS_GRAD, UNKNOWN
from rearview.state.tree import NONE

if TYPE_CHECKING:
    from rearview.state.put.memory import Target
    from rearview.state.restore import Job, Plan


def torch_() -> Any:
    """torch; a state that has tensors in it needs it."""
    import importlib

    return sys.modules.get("torch") or importlib.import_module("torch")


def small_value(parts: Sequence[Any]) -> Any:
    """A dtype, device, layout, memory format or size."""
    torch = torch_()
    name, *rest = parts
    if name == "Size":
        return torch.Size(rest)
    return torch.device(devices.here(rest[0])) if name == "device" else getattr(torch, rest[0])


class Layout:
    """dtype, device, shape and strides of a tensor."""

    __slots__ = ("device", "dtype", "shape", "strides")

    def __init__(self, parts: Sequence[Any]) -> None:
        dims = parts[2]
        self.dtype = getattr(torch_(), parts[0])
        self.device = devices.here(parts[1])
        self.shape = tuple(parts[3 : 3 + dims])
        self.strides = tuple(parts[3 + dims :])

    def over(self, storage: Any, offset: int) -> Any:
        """A tensor with this layout over a storage."""
        return torch_().empty(0, dtype=self.dtype, device=self.device).set_(storage, offset, self.shape, self.strides)

    def is_of(self, live: Any) -> bool:
        """Whether a live tensor has it."""
        return live.dtype is self.dtype and live.size() == self.shape and live.stride() == self.strides and str(live.device) == self.device


class LayoutKind(Kind):
    """The node that tensors of one layout share."""

    shared = True

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return Layout([job.made[number] for number in payload])


def _strided(live: Any) -> bool:
    return live.layout is torch_().strided and live.grad_fn is None and not live.is_quantized and live.device.type != "meta"


def _fits(plan: Plan, number: int, live: Any) -> bool:
    """Whether a live tensor has the recorded class, or is one without a shape that turns into it."""
    torch = torch_()
    if plan.fits(live, number, torch.Tensor):
        return True
    if not isinstance(live, torch.nn.parameter.UninitializedTensorMixin):
        return False
    return bool(live.cls_to_become is (torch.Tensor if number == NONE else plan.names.of(number)))


def _attributes(number: int, live: Any) -> Pairs:
    return () if number == NONE else ((number, object.__getattribute__(live, "__dict__")),)


def put_attributes(job: Job, number: int, made: Any) -> None:
    """What the program wrote onto a tensor."""
    namespace = object.__getattribute__(made, "__dict__")
    if number == NONE:
        namespace.clear()
    elif job.made[number] is not namespace:
        namespace.clear()
        namespace.update(job.made[number])


def of_class(job: Job, number: int, plain: Any, requires_grad: bool) -> Any:
    """A tensor of the recorded class."""
    torch = torch_()
    if number == NONE:
        return plain.requires_grad_(requires_grad) if requires_grad else plain
    kind = job.named(number)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(plain, requires_grad)
    return torch.Tensor._make_subclass(kind, plain, requires_grad)


class Tensor(InPlace):
    """An ordinary tensor. Payload: class, layout, buffer, flags, grad, attributes, offset."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        torch = torch_()
        flags = plan.plain(payload[3])
        if not isinstance(live, torch.Tensor) or flags & (HISTORY | CONJ | NEG):
            return None
        if not _fits(plan, payload[0], live) or not _strided(live) or live.is_conj() or live.is_neg():
            return None
        if live.device.type != devices.here(str(plan.plain(plan.nodes[payload[1]][1][1]))).partition(":")[0]:
            return None
        grad = live.grad
        return [*_attributes(payload[5], live), *([(payload[4], grad)] if grad is not None else [])]

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        dtype = plan.plain(plan.nodes[payload[1]][1][0])
        return None if hasattr(torch_(), dtype) else f"this torch has no dtype {dtype}"

    def early(self, payload: Any) -> Sequence[int]:
        return [payload[1]]

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        layout: Layout = job.made[payload[1]]
        flags, offset = job.plain(payload[3]), job.plain(payload[6])
        target: Target = job.memory.targets[payload[2]]
        if live is not ABSENT:
            if isinstance(live, torch_().nn.parameter.UninitializedTensorMixin):
                live.__class__ = live.cls_to_become
            _point(live, layout, target, offset)
            if live.requires_grad != bool(flags & REQUIRES_GRAD) and not flags & UNKNOWN:
                live.requires_grad_(bool(flags & REQUIRES_GRAD))
            return live
        plain = layout.over(target.torch_storage(), offset)
        plain = torch_()._conj(plain) if flags & CONJ else plain
        plain = torch_()._neg_view(plain) if flags & NEG else plain
        if flags & HISTORY and payload[0] == NONE and not flags & (CONJ | NEG):
            plain = unkept.with_history(plain)
            adopt(job, [payload[5]], plain)
            return plain
        fresh = of_class(job, payload[0], plain, bool(flags & REQUIRES_GRAD))
        adopt(job, [payload[5]], fresh)
        return fresh

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        unkept.remember(made)
        put_attributes(job, payload[5], made)
        put_grad(job, payload[4], made)
        if made.grad_fn is not None and job.plain(payload[3]) & RETAINS_GRAD:
            made.retain_grad()
            made.grad = job.made[payload[4]]


def _point(live: Any, layout: Layout, target: Target, offset: int) -> None:
    """Let a live tensor look at the memory that was filled, unless it does."""
    storage = target.torch_storage()
    if layout.is_of(live):
        held = live.untyped_storage()
        if held._cdata == storage._cdata and live.storage_offset() == offset:
            return
        if target.array is not None and held.nbytes() and live.data_ptr() == target.address + offset * layout.dtype.itemsize:
            return  # through a storage of its own over a part of the array
    if live.requires_grad and not (layout.dtype.is_floating_point or layout.dtype.is_complex):
        live.requires_grad_(False)
    if live.grad is not None and (live.dtype is not layout.dtype or live.size() != layout.shape):
        live.grad = None
    live.data = layout.over(storage, offset)


def put_grad(job: Job, number: int, made: Any) -> None:
    """The gradient of a tensor, None where there was none."""
    grad = job.made[number]
    if grad is ABSENT or (made.grad_fn is not None):
        return
    if made.grad is not grad:
        made.grad = grad


class Sparse(InPlace):
    """A sparse tensor, made again from its parts. Payload: class, layout, flags, grad, attributes, coalesced, size, parts."""

    def early(self, payload: Any) -> Sequence[int]:
        return [*payload[:3], *payload[5:]]

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        torch = torch_()
        if not isinstance(live, torch.Tensor) or not plan.fits(live, payload[0], torch.Tensor) or live.grad_fn is not None:
            return None
        if plan.plain(payload[2]) & HISTORY or str(live.layout) != f"torch.{plan.plain(payload[1])}":
            return None
        if live.layout is not torch.sparse_coo:
            return None  # torch takes `data` of a compressed one, and leaves its parts as they were
        return [*_attributes(payload[4], live), *([(payload[3], live.grad)] if live.grad is not None else [])]

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        torch = torch_()
        name, flags, coalesced, size = (job.made[payload[at]] for at in (1, 2, 5, 6))
        parts = [job.made[number] for number in payload[7:]]
        if name == "sparse_coo":
            plain = torch.sparse_coo_tensor(*parts, size, check_invariants=True)._coalesced_(coalesced)
        else:
            plain = torch.sparse_compressed_tensor(*parts, size, layout=getattr(torch, name), check_invariants=True)
        if live is not ABSENT:
            live.data = plain
            live.requires_grad_(bool(flags & REQUIRES_GRAD))
            return live
        fresh = of_class(job, payload[0], plain, bool(flags & REQUIRES_GRAD))
        adopt(job, [payload[4]], fresh)
        return fresh

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        put_attributes(job, payload[4], made)
        put_grad(job, payload[3], made)


class Quantized(Kind):
    """A quantised tensor. Payload: class, layout, buffer, attributes, offset, scheme, scale, zero point, axis."""

    def early(self, payload: Any) -> Sequence[int]:
        return [payload[1], *payload[4:]]

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        torch = torch_()
        layout: Layout = job.made[payload[1]]
        offset, scheme, scale, zero, axis = (job.made[number] for number in payload[4:])
        if "per_tensor" in scheme:
            plain = torch._empty_affine_quantized((0,), scale=scale, zero_point=zero, dtype=layout.dtype, device=layout.device)
        else:
            plain = torch._empty_per_channel_affine_quantized(
                layout.shape, scales=scale, zero_points=zero, axis=axis, dtype=layout.dtype, device=layout.device
            )
        target: Target = job.memory.targets[payload[2]]
        plain.set_(target.torch_storage(), offset, layout.shape, layout.strides)
        fresh = of_class(job, payload[0], plain, False)
        adopt(job, [payload[3]], fresh)
        return fresh

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        put_attributes(job, payload[3], made)


class Meta(Kind):
    """A tensor without memory. Payload: class, layout, flags, attributes."""

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        layout: Layout = job.made[payload[1]]
        plain = torch_().empty_strided(layout.shape, layout.strides, dtype=layout.dtype, device="meta")
        return of_class(job, payload[0], plain, bool(job.made[payload[2]] & REQUIRES_GRAD))

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        put_attributes(job, payload[3], made)


class Lazy(Kind):
    """A parameter that has no shape yet. Payload: class, dtype, device, requires_grad, attributes."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        kind = plan.names.of(payload[0])
        fits = type(live) is kind or type(live) is getattr(kind, "cls_to_become", None)
        return _attributes(payload[4], live) if fits else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind, dtype, device, requires_grad = (job.made[number] for number in payload[:4])
        device = devices.here(str(device))
        if live is not ABSENT:
            if type(live) is not kind:
                live.grad = None
                live.data = torch_().empty(0, dtype=getattr(torch_(), dtype), device=device)
                live.__class__ = kind
            return live
        return kind(requires_grad, device, getattr(torch_(), dtype)) if kind.__name__ == "UninitializedParameter" else kind()

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        put_attributes(job, payload[4], made)


class Storage(Kind):
    """A storage that the program holds by itself."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return () if type(live) is torch_().UntypedStorage else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        storage = job.memory.targets[payload[0]].torch_storage()
        return live if live is not ABSENT and live._cdata == storage._cdata else storage


class Generator(InPlace):
    """A generator, put back after everything else."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        same = type(live) is torch_().Generator and str(live.device) == devices.here(plan.plain(payload[0]))
        return () if same else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return torch_().Generator(devices.here(job.plain(payload[0]))) if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        recorded = job.plain(payload[0])
        if devices.here(recorded) != recorded:
            return  # a generator of one device cannot go on where that of another was
        state = torch_().frombuffer(bytearray(job.plain(payload[1])), dtype=torch_().uint8)
        job.at_last(lambda: made.set_state(state))


class SmallValue(Kind):
    """A dtype, device, layout, memory format or size."""

    shared = True

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return small_value([job.made[number] for number in payload])


KINDS: dict[str, Kind] = {
    "tensor": Tensor(), "layout": LayoutKind(), "sparse": Sparse(), "quantized": Quantized(), "meta": Meta(), "lazy": Lazy(),
    "storage": Storage(),
    "tgen": Generator(), "tvalue": SmallValue(),
}  # fmt: skip
