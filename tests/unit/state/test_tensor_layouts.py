"""Tensors of every dtype, shape and layout: strided, sparse, quantised, without memory."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.unit.state.round_trip import put, taken

torch = pytest.importorskip("torch")


nn = torch.nn


pytestmark = pytest.mark.torch


def same(a: Any, b: Any) -> bool:
    if a.layout is not torch.strided or a.is_quantized:
        return bool(
            a.dtype == b.dtype
            and torch.equal(a.to_dense() if not a.is_quantized else a.int_repr(), b.to_dense() if not b.is_quantized else b.int_repr())
        )
    bits = a.contiguous().view(torch.uint8) if a.dim() else a.reshape(1).view(torch.uint8)
    others = b.contiguous().view(torch.uint8) if b.dim() else b.reshape(1).view(torch.uint8)
    return bool(a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride() and torch.equal(bits, others))


DTYPES = [
    dtype
    for dtype in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
        "complex32",
        "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64",
    )
    if hasattr(torch, dtype)
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name: str) -> None:
    raw = torch.arange(96, dtype=torch.uint8) % 2 if name == "bool" else torch.randint(0, 120, (96,), dtype=torch.uint8)
    x = raw.view(getattr(torch, name))
    kept = taken(x=x)
    back = put(kept)["x"]
    assert same(x, back)
    before = x.clone()
    ids = id(x), x.data_ptr()
    x.zero_()
    assert put(kept, x=x)["x"] is x
    assert ids == (id(x), x.data_ptr())
    assert same(before, x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(0),
        lambda: torch.empty(3, 0, 2),
        lambda: torch.tensor(3.5),
        lambda: torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        lambda: torch.arange(20.0)[3:15:2],
        lambda: torch.arange(3.0).expand(4, 3),
        lambda: torch.arange(10.0).as_strided((4, 4), (2, 1)),
        lambda: torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        lambda: torch.randn(4, dtype=torch.complex64).conj(),
        lambda: torch.randn(4, dtype=torch.complex64).conj().imag,
        lambda: torch.randn(3, 4)[::, 1:2],
        lambda: torch.tensor([float("nan"), float("-inf"), -0.0]),
    ],
)
def test_shapes_and_strides(make: Any) -> None:
    x = make()
    kept = taken(x=x)
    back = put(kept)["x"]
    assert back.shape == x.shape
    assert back.stride() == x.stride()
    assert back.storage_offset() == x.storage_offset()
    assert back.is_conj() == x.is_conj()
    assert back.is_neg() == x.is_neg()
    assert same(x.resolve_conj().resolve_neg(), back.resolve_conj().resolve_neg())
    other = torch.zeros(7, dtype=torch.float64)
    assert same(x.resolve_conj().resolve_neg(), put(kept, x=other)["x"].resolve_conj().resolve_neg())


@pytest.mark.parametrize("layout", ["coo", "coo-uncoalesced", "csr", "csc", "bsr", "bsc"])
def test_sparse(layout: str) -> None:
    dense = torch.tensor([[0.0, 1, 0, 2], [0, 0, 3, 0], [4, 0, 0, 5], [0, 0, 0, 6]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = {
            "coo": lambda: dense.to_sparse(),
            "coo-uncoalesced": lambda: torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (3, 3)),
            "csr": lambda: dense.to_sparse_csr(),
            "csc": lambda: dense.to_sparse_csc(),
            "bsr": lambda: dense.to_sparse_bsr((2, 2)),
            "bsc": lambda: dense.to_sparse_bsc((2, 2)),
        }[layout]()
    kept = taken(x=x)
    back = put(kept)["x"]
    assert back.layout is x.layout
    assert torch.equal(back.to_dense(), x.to_dense())
    if layout.startswith("coo"):
        assert back.is_coalesced() == x.is_coalesced()
        assert torch.equal(back._indices(), x._indices())


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("live", [torch.eye(4), torch.ones(6, 6), torch.eye(4, dtype=torch.float64)], ids=["same", "larger", "dtype"])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_where_another_is(layout: str, live: Any) -> None:
    def sparse(dense: Any) -> Any:
        return dense.to_sparse(layout=getattr(torch, f"sparse_{layout}"), blocksize=(2, 2) if layout in ("bsr", "bsc") else None)

    recorded = torch.tensor([[1.0, 2, 0, 0], [0, 0, 3, 0], [0, 5, 0, 6], [0, 0, 0, 7]])
    kept = taken(t=sparse(recorded))
    there = sparse(live)
    back = put(kept, t=there)["t"]
    assert torch.equal(back.to_dense(), recorded) and back.dtype is recorded.dtype
    assert (back is there) == (layout == "coo")  # the others have no way to take other parts


def test_sparse_gradients_and_parameters_stay_the_same_objects() -> None:
    net = nn.Embedding(5, 3, sparse=True)
    opt = torch.optim.SparseAdam(net.parameters())
    net(torch.tensor([1, 3])).sum().backward()
    opt.step()
    kept = taken(net=net, opt=opt)
    want = net.weight.grad.to_dense()
    weight, before = net.weight, net.weight.detach().clone()
    opt.zero_grad()
    net(torch.tensor([0, 1])).sum().backward()
    opt.step()
    put(kept, net=net, opt=opt)
    assert net.weight is weight
    assert torch.equal(net.weight.grad.to_dense(), want)
    assert torch.equal(weight, before)


@pytest.mark.filterwarnings("ignore")
def test_quantised() -> None:
    x = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 3, torch.qint8)
    y = torch.quantize_per_channel(torch.randn(3, 4), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 2, 3]), 0, torch.quint8)
    kept = taken(x=x, y=y)
    back = put(kept, x=torch.quantize_per_tensor(torch.randn(3, 4), 0.2, 1, torch.qint8))
    assert torch.equal(back["x"].int_repr(), x.int_repr())
    assert (back["x"].q_scale(), back["x"].q_zero_point()) == (x.q_scale(), x.q_zero_point())
    assert torch.equal(back["y"].int_repr(), y.int_repr())
    assert torch.equal(back["y"].q_per_channel_scales(), y.q_per_channel_scales())
    assert back["y"].q_per_channel_axis() == 0


def test_meta_and_small_values() -> None:
    o = {"m": torch.empty(3, 4, device="meta"), "d": torch.device("cpu"), "t": torch.bfloat16, "s": torch.Size([2, 3]), "l": torch.strided,
         "f": torch.channels_last, torch.float16: 1, torch.device("cpu"): 2}  # fmt: skip
    back = put(taken(o=o), o=dict(o))["o"]
    assert back["m"].device.type == "meta"
    assert back["m"].shape == (3, 4)
    assert {key: value for key, value in back.items() if key != "m"} == {key: value for key, value in o.items() if key != "m"}
    assert type(back["s"]) is torch.Size
