"""Tensors with the real library: kept whole, brought back bit for bit, and the training left as it was."""

from __future__ import annotations

import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from rearview.errors import MissingLibrary, Unstorable
from rearview.store import layout
from tests.integration.values.kept import Trip, same_array


def torch_tensors() -> list[Any]:
    torch = pytest.importorskip("torch")
    draw = torch.Generator().manual_seed(0)
    base = torch.randn(3, 4, generator=draw)
    small = [base.to(getattr(torch, name)) for name in dir(torch) if name.startswith(("float8_", "bfloat16"))]
    whole = [
        (base * 10).abs().to(getattr(torch, name)) for name in ("bool", "uint8", "int8", "uint16", "int32", "uint32", "int64", "uint64")
    ]
    packed = torch.frombuffer(bytearray(range(8)), dtype=torch.uint8)
    return [
        base,
        base.t(),
        base[::2, 1:],
        base.expand(5, 3, 4),
        torch.zeros(0, 3),
        base.double(),
        base.half(),
        base.to(torch.complex64).conj(),
        torch.view_as_complex(base.reshape(3, 2, 2)).imag,
        torch.view_as_complex(base.reshape(3, 2, 2)).conj().imag,
        torch.randn(2, 3, 4, 5, generator=draw).to(memory_format=torch.channels_last),
        base.clone().requires_grad_() * 2,
        torch.tensor([float("nan"), float("inf"), -0.0]),
        packed.view(torch.float4_e2m1fn_x2) if hasattr(torch, "float4_e2m1fn_x2") else base,
        packed.view(torch.bits8),
        packed.view(torch.complex32),
        *small,
        *whole,
    ]


@pytest.mark.torch
def test_torch_tensors_come_back_bit_for_bit(trip: Trip) -> None:
    torch = pytest.importorskip("torch")
    for tensor in torch_tensors():
        cell = trip(tensor)
        loaded = cell.load()
        assert (type(loaded), loaded.dtype, loaded.shape) == (torch.Tensor, tensor.dtype, tensor.shape)
        assert (loaded.requires_grad, loaded.device.type) == (False, "cpu")
        if tensor.numel():
            plain = tensor.detach().resolve_conj().resolve_neg().contiguous().view(torch.uint8)
            assert torch.equal(loaded.view(torch.uint8), plain), tensor.dtype


@pytest.mark.torch
def test_torch_numbers_become_python_numbers(trip: Trip) -> None:
    torch = pytest.importorskip("torch")
    for tensor, plain in [
        (torch.tensor(0.5, requires_grad=True) * 2, 1.0),
        (torch.tensor(3), 3),
        (torch.tensor(True), True),
        (torch.tensor(1 - 2j), 1 - 2j),
        (torch.tensor(0.5).bfloat16(), 0.5),
        (torch.tensor(0.5).to(torch.float8_e5m2), 0.5),
        (torch.tensor(2**63 - 1), 2**63 - 1),
        (torch.nn.Parameter(torch.tensor(2.0)), 2.0),
    ]:
        assert trip(tensor) == plain
        assert type(trip(tensor)) is type(plain)
    assert trip({"loss": torch.tensor(0.25), "w": [torch.tensor(1)]}) == {"loss": 0.25, "w": [1]}
    with pytest.raises(Unstorable, match="meta"):
        trip(torch.ones((), device="meta"))


@pytest.mark.torch
def test_figures_of_tensors_are_those_of_arrays(trip: Trip) -> None:
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    array = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    array[::1000] = np.nan
    array[7] = np.inf
    for tensor, same in [
        (torch.from_numpy(array), array),
        (torch.from_numpy(array).double(), array.astype(np.float64)),
        (torch.arange(50_000), np.arange(50_000)),
        (torch.tensor([2**64 - 1, 5, 2**63], dtype=torch.uint64), np.array([2**64 - 1, 5, 2**63], dtype=np.uint64)),
        (torch.tensor([3 + 4j, 0j]), np.array([3 + 4j, 0j], dtype=np.complex64)),
        (torch.tensor([True, False, True]), np.array([True, False, True])),
        (torch.tensor([65535, 1], dtype=torch.uint16), np.array([65535, 1], dtype=np.uint16)),
    ]:
        a, b = trip(tensor), trip(same)
        assert (a.minimum, a.maximum, a.nan_count, a.histogram) == (b.minimum, b.maximum, b.nan_count, b.histogram)
        assert a.mean == pytest.approx(b.mean)


@pytest.mark.torch
def test_parameters_and_subclasses(trip: Trip) -> None:
    torch = pytest.importorskip("torch")
    for flag in (True, False):
        loaded = trip(torch.nn.Parameter(torch.ones(2), requires_grad=flag)).load()
        assert (type(loaded), loaded.requires_grad) == (torch.nn.Parameter, flag)

    class Picture(torch.Tensor):
        pass

    loaded = trip(torch.ones(2, 2).as_subclass(Picture)).load()
    assert type(loaded) is torch.Tensor
    assert torch.equal(loaded, torch.ones(2, 2))


@pytest.mark.torch
def test_sparse_tensors_come_back_with_their_layout(trip: Trip) -> None:
    torch = pytest.importorskip("torch")
    uncoalesced = torch.sparse_coo_tensor([[0, 0, 2], [1, 1, 0]], [1.0, 2.0, 3.0], (3, 4), requires_grad=True, check_invariants=True)
    hybrid = torch.sparse_coo_tensor([[0, 2]], torch.randn(2, 5), (3, 5), check_invariants=True).coalesce()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls these layouts beta when they are made
        dense = torch.eye(4).bfloat16()
        compressed = [dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((2, 2)), dense.to_sparse_bsc((2, 2))]
    for tensor in (uncoalesced, hybrid, torch.zeros(2, 2).to_sparse(), *compressed):
        cell = trip(tensor)
        loaded = cell.load()
        assert (loaded.layout, loaded.dtype, loaded.shape) == (tensor.layout, tensor.dtype, tensor.shape)
        assert torch.equal(loaded.to_dense(), tensor.detach().to_dense())
        if tensor.layout == torch.sparse_coo:
            assert loaded.is_coalesced() == tensor.is_coalesced()
            assert torch.equal(loaded._indices(), tensor.detach()._indices())
            assert torch.equal(loaded._values(), tensor.detach()._values())
    assert trip(uncoalesced).mean == 2.0  # over the stored elements


@pytest.mark.torch
def test_quantised_tensors_come_back(trip: Trip) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and still in use
        whole = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 3, torch.qint8)
        scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2])
        channels = torch.quantize_per_channel(torch.randn(3, 4), scales, zeros, 0, torch.quint8)
    for tensor in (whole, channels):
        loaded = trip(tensor).load()
        assert (loaded.dtype, loaded.qscheme()) == (tensor.dtype, tensor.qscheme())
        assert torch.equal(loaded.int_repr(), tensor.int_repr())
        assert torch.equal(loaded.dequantize(), tensor.dequantize())


@pytest.mark.torch
def test_tensors_without_bytes_are_refused_by_name(trip: Trip) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake, fake_number = torch.ones(3), torch.ones(())
    for tensor, word in [
        (torch.ones(3, device="meta"), "meta"),
        (nested, "nested"),
        (fake, "FakeTensor"),
        (fake_number, "FakeTensor"),
        (torch.nn.parameter.UninitializedParameter(), "UninitializedParameter"),
    ]:
        with pytest.raises(Unstorable, match=word):
            trip(tensor)


@pytest.mark.torch
def test_reading_a_tensor_leaves_the_training_as_it_was(trip: Trip) -> None:
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.randn(50, 40))
    loss = (weight**2).sum()
    hidden = (weight * 3).t()

    def state() -> tuple[Any, ...]:
        return (
            random.getstate(),
            np.random.get_state()[1].tobytes(),
            torch.random.get_rng_state().numpy().tobytes(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.get_num_threads(),
            weight.requires_grad,
            weight._version,
            weight.grad is None,
            hidden.grad_fn,
            hidden._version,
            hidden.stride(),
            weight.detach().numpy().tobytes(),
        )

    before = state()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trip({"w": weight, "h": hidden, "loss": loss, "b": weight.detach().bfloat16(), "c": torch.view_as_complex(torch.zeros(2, 2))})
    assert not said
    assert state() == before
    loss.backward()
    assert torch.equal(weight.grad, 2 * weight.detach())


@pytest.mark.torch
def test_a_training_that_logs_everything_ends_with_the_same_weights(trip: Trip) -> None:
    torch = pytest.importorskip("torch")

    def train(log: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.Dropout(), torch.nn.Linear(50, 1))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(20):
            loss = (model(torch.randn(16, 20)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            log({"loss": loss, "gradients": [p.grad for p in model.parameters()], "weights": list(model.parameters())})
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(train(lambda value: None), train(trip))


@pytest.mark.torch
def test_reading_a_tensor_under_other_settings(trip: Trip) -> None:
    torch = pytest.importorskip("torch")
    value = torch.arange(6.0).reshape(2, 3)
    with torch.inference_mode():
        assert torch.equal(trip(value + 1).load(), value + 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert trip(value).mean == 2.5
    torch.set_default_device("meta")
    try:
        cell = trip(value)
        assert cell.mean == 2.5
        assert cell.load().device.type == "cpu"
    finally:
        torch.set_default_device(None)
    torch.use_deterministic_algorithms(True)
    try:
        assert trip(value).maximum == 5.0
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.torch
def test_torch_is_read_without_numpy(store: layout.Store) -> None:
    """In a process where NumPy cannot be imported at all."""
    code = f"""
import sys, warnings
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == 'numpy':
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
warnings.simplefilter('ignore')
import torch
from pathlib import Path
from rearview.catalog.cells import Cell
from rearview.record.values.storable import storable
from rearview.store import layout, objects
store = layout.open_store(Path({str(store.root)!r}))
value = torch.tensor([[1.0, float('nan')], [3.0, 5.0]]).bfloat16().t()
cell = Cell(store, storable(value, lambda data: objects.put(store, data)))
assert (cell.minimum, cell.maximum, cell.mean, cell.nan_count) == (1.0, 5.0, 3.0, 1), cell
assert torch.equal(cell.load().view(torch.uint8), value.contiguous().view(torch.uint8))
assert storable(torch.tensor(2.5), str) == 2.5
assert 'numpy' not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.torch
def test_a_tensor_on_the_gpu(trip: Trip) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    value = torch.arange(6.0, device="cuda").reshape(2, 3)
    assert torch.equal(trip(value).load(), value.cpu())


@pytest.mark.torch
def test_without_torch_a_tensor_is_a_numpy_array(trip: Trip, without: Callable[..., None]) -> None:
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    cell, small, sparse = trip(torch.arange(6.0).reshape(2, 3)), trip(torch.ones(3).bfloat16()), trip(torch.eye(3).to_sparse())
    same_array(cell.load(as_="numpy"), np.arange(6, dtype=np.float32).reshape(2, 3))
    without("torch", "ml_dtypes")
    same_array(cell.load(), np.arange(6, dtype=np.float32).reshape(2, 3))
    with pytest.raises(MissingLibrary, match="pip install ml_dtypes"):
        small.load()
    with pytest.raises(MissingLibrary, match="pip install torch"):
        sparse.load()
    without("torch", "numpy")
    with pytest.raises(MissingLibrary, match=r"without torch.*pip install numpy"):
        cell.load()
