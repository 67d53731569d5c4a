"""Tensors and arrays over any pattern of shared memory, put into any other pattern: bytes, layouts and sharing come back as recorded."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept, digests, roots

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
pytestmark = pytest.mark.torch

SIZES = (0, 8, 40, 300)
DTYPES = ("float32", "int64", "uint8", "complex64")
VIEWS = st.tuples(
    st.integers(0, 3), st.sampled_from(["tensor", "parameter", "array", "of array", "same"]), st.sampled_from(DTYPES), st.integers(0, 30),
    st.integers(1, 5), st.integers(1, 3), st.booleans(),
)  # fmt: skip
WORLDS = st.tuples(st.lists(st.sampled_from(SIZES), min_size=4, max_size=4), st.lists(VIEWS, min_size=1, max_size=8), st.booleans())


def world(spec: Any) -> list[Any]:
    """Tensors and arrays over a few allocations of bytes."""
    sizes, views, by_torch = spec
    memories = []
    for k, size in enumerate(sizes):
        fill = np.arange(8 * size, dtype=np.uint8) + k
        memories.append(torch.from_numpy(fill.copy()).clone() if by_torch else fill.copy())
    made: list[Any] = []
    for at, kind, dtype, start, count, step, grad in views:
        memory = memories[at]
        if kind == "same" and made:
            made.append(made[start % len(made)])
            continue
        flat = memory if isinstance(memory, np.ndarray) else memory.numpy()
        typed = flat.view(dtype)
        part = typed[start : start + count * step : step]
        if kind == "array":
            made.append(part)
        elif kind == "of array":
            made.append(torch.from_numpy(part))
        else:
            whole = memory if not isinstance(memory, np.ndarray) else torch.from_numpy(memory)
            typed_whole = whole.view(getattr(torch, dtype)) if whole.numel() else torch.empty(0, dtype=getattr(torch, dtype))
            x = typed_whole[start : start + count * step : step].detach()
            floating = x.dtype.is_floating_point or x.dtype.is_complex
            made.append(torch.nn.Parameter(x, requires_grad=grad and floating) if kind == "parameter" else x)
    return made


def value(x: Any) -> Any:
    array = x if isinstance(x, np.ndarray) else x.detach().numpy()
    strides = array.strides if array.size > 1 else None
    return type(x).__name__, str(array.dtype), array.shape, strides, array.tobytes(), getattr(x, "requires_grad", None)


def sharing(objects: list[Any]) -> list[tuple[int, int, int]]:
    """Which of them begin at which distance in the same memory, where they overlap."""
    spans = []
    for x in objects:
        array = x if isinstance(x, np.ndarray) else x.detach().numpy()
        address = array.__array_interface__["data"][0]
        spans.append((address, address + (array.shape[0] - 1) * array.strides[0] + array.itemsize if array.size else address))
    return [
        (i, j, spans[j][0] - spans[i][0])
        for i in range(len(spans))
        for j in range(i + 1, len(spans))
        if spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1]
    ]


def storages_overlap(objects: list[Any]) -> bool:
    """Whether torch has several storages over the same bytes: each `from_numpy` of a part of an array makes one."""
    spans = {(x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()) for x in objects if isinstance(x, torch.Tensor)}
    ordered = sorted(span for span in spans if span[1])
    return any(first + size > second for (first, size), (second, _) in itertools.pairwise(ordered))


def same_objects(objects: list[Any]) -> list[int]:
    first: dict[int, int] = {}
    return [first.setdefault(id(x), k) for k, x in enumerate(objects)]


EMPTY = (0, "tensor", "float32", 0, 1, 1, False)
APART = ([0, 40, 0, 8], [EMPTY, (3, "of array", "float32", 0, 2, 1, False), (1, "tensor", "float32", 0, 1, 1, False)], False)
OVERLAPPING = ([0, 0, 40, 0], [EMPTY, (2, "of array", "float32", 0, 2, 1, False), (2, "tensor", "float32", 0, 1, 1, False)], False)
"""Two storages of torch over the memory of one array, where the recorded ones were apart."""


_TENSOR = (0, "tensor", "float32", 0, 1, 1, False)
FIRST = ([8, 0, 0, 0], [_TENSOR, (0, "array", "float32", 0, 1, 1, False)], False)
SECOND = ([8, 0, 0, 0], [_TENSOR, (0, "array", "float32", 1, 1, 1, False)], False)
"""An array of the same shape over the same memory, at another place in it."""


@example(APART, OVERLAPPING)
@example(FIRST, SECOND)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(WORLDS, WORLDS)
def test_memory_is_shared_as_recorded(recorded: Any, other: Any) -> None:
    want, live = world(recorded), world(other)
    captured = capture(roots(x=want))
    assert captured.missing == []
    kept = Kept(captured)
    values, pattern, objects = [value(x) for x in want], sharing(want), same_objects(want)
    for target in ({}, {"x": live}, {"x": want}):
        back = plan(kept.tree, roots(**target), kept).apply()["given", "x"]
        assert [value(x) for x in back] == values
        assert sharing(back) == pattern
        assert same_objects(back) == objects
        if not storages_overlap(want):  # which storage of torch is over which part of an array's memory is not brought back
            assert digests(capture(roots(x=back))) == kept.digests
    for x in want:
        if isinstance(x, torch.Tensor) and x.dtype.is_floating_point:
            x.data.add_(1)
    back = plan(kept.tree, roots(x=want), kept).apply()["given", "x"]
    assert all(a is b for a, b in zip(back, want, strict=True))
    assert [value(x) for x in back] == values
