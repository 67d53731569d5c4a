"""Arrays, tensors and pictures with the real libraries: kept whole, brought back bit for bit, and nothing else touched."""

from __future__ import annotations

import gc
import importlib
import io
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rearview.catalog import loading
from rearview.catalog.cells import Cell, present
from rearview.errors import Damaged, MissingLibrary, NotFound, Unstorable, UsageError
from rearview.model import ArraySummary
from rearview.record.values import storable
from rearview.store import layout, objects
from rearview.store.encoding import decode, encode

Trip = Callable[[Any], Any]


@pytest.fixture
def store(tmp_path: Path) -> layout.Store:
    return layout.create(tmp_path / ".rearview")


@pytest.fixture
def trip(store: layout.Store) -> Trip:
    """Logs a value and gives what the table holds: warnings are errors, also those of the libraries."""

    def there_and_back(value: Any) -> Any:
        return present(store, decode(encode(storable(value, lambda data: objects.put(store, data)))))

    return there_and_back


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes libraries impossible to import while loading."""

    def hide(*names: str) -> None:
        real = importlib.import_module

        def fake(name: str, package: str | None = None) -> Any:
            if name.partition(".")[0] in names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return real(name, package)

        monkeypatch.setattr(loading.importlib, "import_module", fake)  # type: ignore[attr-defined]

    return hide


def same_array(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    assert a.dtype == b.dtype
    assert a.dtype.str == b.dtype.str
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


# NumPy


def numpy_arrays() -> list[Any]:
    np = pytest.importorskip("numpy")
    draw = np.random.default_rng(0)
    aligned = np.dtype([("a", "u1"), ("b", ">i2", (3,)), ("n", [("x", "<f8"), ("y", "S3")])], align=True)
    union = np.dtype({"names": ["whole", "low"], "formats": ["<u4", "<u2"], "offsets": [0, 0], "itemsize": 8})
    titled = np.dtype([(("A title", "a"), "<f4"), ("b", "<M8[ms]")])
    bits = draw.integers(0, 256, 64, dtype=np.uint8).tobytes()
    nan_bits = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], dtype=np.uint32).view(np.float32)
    return [
        draw.normal(size=(3, 4)),
        draw.normal(size=(4, 6))[::2, ::-3].T,
        np.broadcast_to(np.float32(3), (5, 2)),
        nan_bits,
        np.zeros((0, 3), np.float16),
        np.zeros((2, 0)),
        np.arange(5, dtype=">f8"),
        np.arange(5, dtype="<u8"),
        np.array([True, False]),
        draw.normal(size=3) + 1j,
        np.arange(4, dtype=np.float16),
        np.array(["a", "äöü", ""]),
        np.array([b"a", b"\0b"]),
        np.array(["2024-01-01", "NaT"], dtype="M8[D]"),
        np.array([1, 2], dtype="m8[25us]"),
        np.arange(3, dtype=np.longdouble) / 3,
        np.arange(3, dtype=np.clongdouble) / 3,
        np.frombuffer(bits[: aligned.itemsize], dtype=aligned),
        np.frombuffer(bits[:16], dtype=union),
        np.frombuffer(bits[:24], dtype=titled),
        np.zeros(3, dtype=[]),
        np.frombuffer(bits, dtype="V8"),
        np.ones((2, 3)).view(np.matrix),
        np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f4")]),
        np.asfortranarray(draw.normal(size=(2, 3, 4))),
    ]


@pytest.mark.parametrize("at", range(25))
def test_numpy_arrays_come_back_bit_for_bit(at: int, trip: Trip) -> None:
    array = numpy_arrays()[at]
    cell = trip(array)
    assert (cell.kind, cell.shape, cell.size_bytes) == ("numpy", array.shape, array.nbytes)
    loaded = cell.load()
    same_array(loaded, array)
    assert loaded.flags.writeable
    if array.dtype.names:
        assert loaded.dtype.fields == array.dtype.fields


def test_a_memory_map_comes_back_as_an_array(trip: Trip, tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    mapped = np.memmap(tmp_path / "data", dtype=np.int16, mode="w+", shape=(3, 2))
    mapped[:] = 7
    same_array(trip(mapped).load(), np.full((3, 2), 7, np.int16))


def test_a_masked_array_keeps_what_is_under_the_mask(trip: Trip) -> None:
    np = pytest.importorskip("numpy")
    array = np.ma.MaskedArray([[1.0, 2.0], [99.0, 4.0]], mask=[[0, 0], [1, 0]], fill_value=-5.0, hard_mask=True)
    cell = trip(array)
    assert (cell.minimum, cell.maximum) == (1.0, 4.0)
    loaded = cell.load()
    assert type(loaded) is np.ma.MaskedArray
    same_array(loaded.data, array.data)
    same_array(np.ma.getmaskarray(loaded), np.ma.getmaskarray(array))
    assert (loaded.fill_value, loaded.hardmask) == (-5.0, True)


def test_numpy_scalars_that_are_no_numbers_come_back(trip: Trip) -> None:
    np = pytest.importorskip("numpy")
    row = np.array([(1, 2.5)], dtype=[("a", "<i4"), ("b", "<f8")])[0]
    loaded = trip(row).load()
    assert (type(loaded), loaded.dtype, loaded.tobytes()) == (np.void, row.dtype, row.tobytes())
    third = np.longdouble(1) / 3
    found = trip(third)
    assert (found.load() if isinstance(found, Cell) else found) == third


# torch


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
from rearview.record.values import storable
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


# loading without the library


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


def test_without_numpy_an_array_says_what_to_install(trip: Trip, without: Callable[..., None]) -> None:
    np = pytest.importorskip("numpy")
    cell = trip(np.ones(3))
    without("numpy")
    with pytest.raises(MissingLibrary, match="pip install numpy"):
        cell.load()
    with pytest.raises(UsageError):
        cell.load(as_="pandas")


# pictures

MODES = ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA", "RGBX", "RGBa", "La", "I;16", "I;16B", "I;16L"]


def picture(mode: str, size: tuple[int, int] = (13, 5)) -> Any:
    images = pytest.importorskip("PIL.Image")
    length = len(images.new(mode, size).tobytes())
    image = images.frombytes(mode, size, bytes(k * 37 % 256 for k in range(length)))
    if mode in ("P", "PA"):
        image.putpalette([k * 3 % 256 for k in range(768)])
    return image


@pytest.mark.parametrize("mode", MODES)
def test_images_come_back_in_their_mode(mode: str, trip: Trip, without: Callable[..., None]) -> None:
    np = pytest.importorskip("numpy")
    image = picture(mode)
    cell = trip(image)
    loaded = cell.load()
    assert (loaded.mode, loaded.size, loaded.tobytes()) == (image.mode, image.size, image.tobytes())
    assert loaded.getpalette() == image.getpalette()
    assert cell.shape == np.asarray(image).shape
    if mode != "F":
        assert (cell.minimum, cell.maximum) == (np.asarray(image).min(), np.asarray(image).max())
    without("PIL")
    plain = cell.load()
    assert plain.dtype == np.asarray(image).dtype
    assert np.array_equal(plain, np.asarray(image), equal_nan=mode == "F")


def test_palettes_with_transparency_and_files_and_nothing(trip: Trip) -> None:
    images = pytest.importorskip("PIL.Image")
    image = picture("P")
    image.putpalette([k % 256 for k in range(64)], "RGBA")
    image.info["transparency"] = 3
    loaded = trip(image).load()
    assert (loaded.getpalette("RGBA"), loaded.info["transparency"]) == (image.getpalette("RGBA"), 3)
    assert trip(images.new("RGB", (0, 3))).load().size == (0, 3)
    file = io.BytesIO()
    picture("RGB").save(file, "PNG")
    opened = images.open(file)
    assert trip(opened).load().tobytes() == picture("RGB").tobytes()
    with pytest.raises(Unstorable, match="could not be read"):
        trip(images.open(io.BytesIO(file.getvalue()[:-40])))


def drawn() -> Any:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure(figsize=(2.005, 1), dpi=60)
    figure.subplots().plot([1, 3, 2])
    return figure


def test_a_figure_is_kept_as_the_picture_it_draws(trip: Trip, without: Callable[..., None]) -> None:
    np = pytest.importorskip("numpy")
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    figure = drawn()
    cell = trip(figure)
    canvas = agg.FigureCanvasAgg(drawn())
    canvas.draw()
    wanted = np.asarray(canvas.buffer_rgba())
    same_array(cell.load(as_="numpy"), wanted.copy())
    assert (cell.kind, cell.shape) == ("figure", wanted.shape)
    loaded = cell.load()
    assert type(loaded) is type(figure)
    canvas = agg.FigureCanvasAgg(loaded)
    canvas.draw()
    assert np.array_equal(np.asarray(canvas.buffer_rgba()), wanted)
    without("matplotlib")
    same_array(cell.load(), wanted.copy())


def test_drawing_leaves_figure_and_pyplot_as_they_were(trip: Trip) -> None:
    np = pytest.importorskip("numpy")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    first, other = plt.figure(figsize=(3, 2), dpi=50), plt.figure()
    axes = first.subplots()
    axes.set(xlim=(0, 3), ylim=(0, 4))
    axes.plot([1, 3, 2])
    seen: list[object] = []
    first.canvas.mpl_connect("draw_event", seen.append)
    axes.plot([3, 1])

    def state() -> tuple[Any, ...]:
        return (
            dict(matplotlib.rcParams),
            matplotlib.get_backend(),
            plt.get_fignums(),
            first.canvas,
            first.canvas.manager,
            first.dpi,
            tuple(first.get_size_inches()),
            [(id(artist), artist.stale) for artist in first.findobj()],
            axes.get_xlim(),
            axes.get_position().bounds,
            random.getstate(),
            np.random.get_state()[1].tobytes(),
            getattr(first.canvas, "renderer", None),
        )

    try:
        first.canvas.draw()
        seen.clear()
        axes.plot([2, 2])
        before = state()
        assert first.stale
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            trip(first).load()
        assert state() == before
        assert plt.gcf() is other
        assert not said
        assert not seen
    finally:
        plt.close("all")
    gc.collect()


# cells


def test_what_a_cell_shows(trip: Trip, store: layout.Store) -> None:
    np = pytest.importorskip("numpy")
    cell = trip(np.array([[0.0, 0.25], [1.0, np.nan]], np.float32))
    assert repr(cell) == "array float32[2, 2] min=0 mean=0.4167 max=1 nan=1 █▁▁▁█▁▁▁▁▁▁▁▁▁▁█"
    shown = cell.as_json()
    assert shown["histogram"] == [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (shown["shape"], shown["nan_count"], shown["kind"], shown["object"]) == ([2, 2], 1, "numpy", cell.object_key)
    assert trip(np.array([np.inf, -np.inf])).as_json()["minimum"] == "-Infinity"
    assert trip(np.array([np.inf, -np.inf])).as_json()["mean"] == "NaN"
    assert repr(trip(np.array(["a"]))) == "array <U1[1]"
    assert trip({"w": np.ones(2), "t": (np.ones(2), [1])})["t"][0] == trip(np.ones(2))
    assert trip(np.ones(2)) != trip(np.ones(2).reshape(2, 1))
    assert trip(np.zeros(2)) != trip(np.zeros(2, np.int64))
    assert len({trip(np.ones(2)), trip(np.ones(2)), trip(np.zeros(2))}) == 2
    hostile = Cell(store, ArraySummary("<b>", "<script>\x1b[31m", (10**400,), 10**400, 1, 1, 0, (), "k", 0))
    assert "<script>" not in hostile._repr_html_()
    assert "\x1b" not in repr(hostile)


def test_loading_is_verified(trip: Trip, store: layout.Store) -> None:
    np = pytest.importorskip("numpy")
    cell = trip(np.ones(3))
    path = objects.path_of(store, cell.object_key)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"\0")
    with pytest.raises(Damaged, match="another hash"):
        cell.load()
    path.unlink()
    with pytest.raises(NotFound):
        cell.load()


BEYOND_ITS_END = {
    "names": ["a"], "formats": ["<f8"], "offsets": [4], "itemsize": 8, "titles": [None], "aligned": False, "record": False,
}  # fmt: skip
SHORT_SCALES = [["uint8", [4, 1]], ["float32", [3]], ["int64", [1]]]
HOSTILE: list[tuple[str, str, tuple[int, ...], dict[str, Any]]] = [
    ("numpy", "f", (7,), {"dtype": "<f4"}),
    ("numpy", "f", (2**62, 2**62), {"dtype": "<f4"}),
    ("numpy", "f", (6,), {"dtype": "O"}),
    ("numpy", "f", (3,), {"dtype": "|O8"}),
    ("numpy", "f", (6,), {"dtype": "os.system"}),
    ("numpy", "f", (6,), {"dtype": ["<f4"]}),
    ("numpy", "f", (6,), {}),
    ("numpy", "f", (6,), {"dtype": {"names": ["a"]}}),
    ("numpy", "f", (3,), {"dtype": BEYOND_ITS_END}),
    ("numpy", "f", (6,), {"dtype": "<f4", "class": "MaskedArray"}),
    ("numpy", "f", (0,), {"dtype": "<f4"}),
    ("torch", "__class__", (6,), {}),
    ("torch", "load", (6,), {}),
    ("torch", "float64", (6,), {}),
    ("torch", "float32", (3,), {"layout": "sparse_coo", "parts": [["int64", [1, 1]], ["float32", [4]]], "coalesced": True}),
    ("torch", "float32", (1,), {"layout": "sparse_coo", "parts": [["int64", [1, 2]], ["float32", [2]]], "coalesced": True}),
    ("torch", "float32", (3,), {"layout": "nonsense", "parts": []}),
    ("torch", "qint8", (24,), {"quantised": "per_tensor_affine", "parts": [["int8", [24]]]}),
    ("torch", "quint8", (4, 1), {"quantised": "per_channel_affine", "axis": 0, "parts": SHORT_SCALES}),
    ("pil", "uint8", (2, 5), {"mode": "L"}),
    ("pil", "uint8", (10**6, 10**6), {"mode": "L"}),
    ("pil", "uint8", (2, 12), {"mode": "RGB"}),
    ("pil", "uint8", (2, 12), {"mode": "nonsense"}),
    ("pil", "uint8", (2,), {"mode": "L"}),
    ("figure", "uint8", (2, 5, 4), {"dpi": 100.0}),
    ("figure", "uint8", (2, 3, 4), {"dpi": 0.0}),
    ("unknown", "uint8", (24,), {}),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_a_summary_that_does_not_fit_its_bytes_is_damaged(at: int, store: layout.Store) -> None:
    for name in ("numpy", "PIL", "matplotlib"):
        pytest.importorskip(name)
    kind, dtype, shape, details = HOSTILE[at]
    key = objects.put(store, bytes(range(24)))
    cell = Cell(store, ArraySummary(kind, dtype, shape, None, None, None, 0, (), key, 24, details))
    with pytest.raises(Damaged, match="does not fit"):
        cell.load()
