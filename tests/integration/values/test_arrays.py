"""Arrays with the real library: kept whole, brought back bit for bit, verified; and what a cell shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rearview.catalog.cells import Cell
from rearview.errors import Damaged, MissingLibrary, NotFound, UsageError
from rearview.model import ArraySummary
from rearview.store import layout, objects
from tests.integration.values.kept import Trip, same_array


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


def test_without_numpy_an_array_says_what_to_install(trip: Trip, without: Callable[..., None]) -> None:
    np = pytest.importorskip("numpy")
    cell = trip(np.ones(3))
    without("numpy")
    with pytest.raises(MissingLibrary, match="pip install numpy"):
        cell.load()
    with pytest.raises(UsageError):
        cell.load(as_="pandas")


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
