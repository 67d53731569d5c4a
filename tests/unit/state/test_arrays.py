"""NumPy arrays, views, dtypes, memory-mapped files and generators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rearview.errors import RestoreRefused
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept, digests, roots
from tests.unit.state.round_trip import put, taken

np = pytest.importorskip("numpy")


RECORD = np.dtype([("a", "<i4"), ("b", ">f8", (2,)), ("c", "U3")])
ARRAYS: list[Any] = [
    lambda: np.arange(6, dtype=np.int16),
    lambda: np.zeros((0, 3)),
    lambda: np.array(3.5),
    lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    lambda: np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
    lambda: np.arange(20)[15:3:-2],
    lambda: np.broadcast_to(np.arange(3), (4, 3)),
    lambda: np.array([(1, (2.0, 3.0), "abc")], RECORD),
    lambda: np.array(["a", "bcd"]),
    lambda: np.array([b"x", b"yz"]),
    lambda: np.array(["2020-01-01", "NaT"], "datetime64[D]"),
    lambda: np.array([1, 2], "timedelta64[ms]"),
    lambda: np.array([True, False]),
    lambda: np.array([1 + 2j, np.nan], np.complex64),
    lambda: np.array([1.5], np.longdouble),
    lambda: np.array([1, 2], ">i4"),
    lambda: np.ma.masked_array([1.0, 2.0, 3.0], [True, False, True], fill_value=9.0),
    lambda: np.array([(1, 2.0)], [("x", int), ("y", float)]).view(np.recarray),
    lambda: np.frombuffer(b"abcdefgh", np.int32),
    lambda: np.zeros(3, np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 24})),
    lambda: np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    lambda: np.array([[1, None], ["x", [1, 2]]], object),
    lambda: np.array(None, object),
]


@pytest.mark.parametrize("make", ARRAYS)
def test_arrays(make: Any) -> None:
    x = make()
    kept = taken(x=x)
    for live in ({}, {"x": np.zeros(2)}, {"x": make()}):
        back = put(kept, **live)["x"]
        assert type(back) is type(x)
        assert back.dtype == x.dtype
        assert back.shape == x.shape
        assert back.strides == x.strides or x.size == 0
        assert back.tobytes() == x.tobytes() or x.dtype == object
        if x.dtype == object:
            assert back.tolist() == x.tolist()
        if isinstance(x, np.ma.MaskedArray):
            assert back.mask.tolist() == x.mask.tolist()
            assert back.fill_value == x.fill_value


def test_in_place_where_it_fits() -> None:
    x, f = np.arange(6.0), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    kept = taken(x=x, f=f, n=np.arange(3))
    x[:], f[:] = 0, 0
    n = np.zeros(5)
    back = put(kept, x=x, f=f, n=n)
    assert back["x"] is x
    assert back["f"] is f
    assert back["n"] is not n
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert f.flags.f_contiguous
    assert back["n"].base is None, "an array of its own"


def test_views_and_their_bases() -> None:
    base = np.arange(12)
    o = {"base": base, "row": base.reshape(3, 4)[1], "back": base[::-1], "bytes": base.view(np.uint8), "same": base}
    kept = taken(o=o)
    fresh = np.zeros(12, int)
    for live in ({}, {"o": {"base": fresh}}, {"o": dict(o)}, {"o": {"base": np.zeros(12, int), "row": np.zeros(4, int)}}):
        made = put(kept, **live)["o"]
        assert made["same"] is made["base"]
        made["base"][5] = 99
        assert made["row"].tolist() == [4, 99, 6, 7]
        assert made["back"][6] == 99
        assert made["bytes"][40] == 99
        made["base"][5] = 5
    assert put(kept, o={"base": fresh})["o"]["base"] is fresh


def test_read_only_arrays_and_memory_of_others() -> None:
    x = np.arange(400)
    x.flags.writeable = False
    y = np.frombuffer(bytearray(b"12345678" * 100), np.uint8)
    captured = capture(roots(x=x, y=y, z=np.frombuffer(b"abcd" * 100, np.uint8)))
    hints = {buffer.where: buffer.constant_hint for buffer in captured.buffers}
    assert hints == {"x": True, "y": False, "z": True}
    kept = Kept(captured)
    x.flags.writeable = True
    x[:] = 0
    y[:] = 0
    back = put(kept, x=x, y=y, z=np.frombuffer(b"abcd" * 100, np.uint8))
    assert back["x"] is x
    assert not x.flags.writeable
    assert back["y"] is y
    assert bytes(y) == b"12345678" * 100
    assert bytes(back["z"]) == b"abcd" * 100


def test_scalars_and_dtypes() -> None:
    values = [np.float32(1.5), np.int64(-3), np.bool_(True), np.float64("nan"), np.str_("ü"), np.str_(""), np.bytes_(b"a"),
        np.datetime64("2020-01-01"),
              np.complex128(1j), np.float16(2), np.dtype("f4"), RECORD, np.dtype((int, (2, 3))), np.longdouble(1) / 3,
              np.float32]  # fmt: skip
    values.append(np.array([(1, (2.0, 3.0), "abc")], RECORD)[0])
    back = put(taken(o=values))["o"]
    assert [type(value) for value in back] == [type(value) for value in values]
    assert [str(value) for value in back] == [str(value) for value in values]
    table = {np.int64(3): "a", np.dtype("f4"): "b", np.float32: "c"}
    again = put(taken(o=table), o=dict(table))["o"]
    assert again == table
    assert [type(key) for key in again] == [type(key) for key in table]


def test_memory_mapped_files_are_inputs(tmp_path: Path) -> None:
    file = tmp_path / "data.bin"
    np.arange(100, dtype=np.int32).tofile(file)
    data = np.memmap(file, np.int32, "r")
    o = {
        "data": data,
        "part": data[10:20],
        "plain": np.asarray(data)[5:25:2],
        "offset": np.memmap(file, np.int32, "r", offset=40, shape=(5,)),
    }
    captured = capture(roots(o=o))
    assert captured.buffers == []
    assert captured.missing == []
    kept = Kept(captured)
    back = put(kept, o=dict(o))["o"]
    assert all(back[name] is o[name] for name in o)
    anew = put(kept)["o"]
    assert all(np.array_equal(anew[name], o[name]) for name in o)
    assert type(anew["data"]) is np.memmap
    file.unlink()
    with pytest.raises(RestoreRefused, match=r"data.bin is not there"):
        plan(kept.tree, {}, kept)


def test_a_memory_map_that_is_written_is_said(tmp_path: Path) -> None:
    writable = np.memmap(tmp_path / "w.bin", np.uint8, "w+", shape=(400,))
    assert [missing.where for missing in capture(roots(w=writable)).missing] == ["w"]
    private = np.memmap(tmp_path / "w.bin", np.uint8, "c")
    private[0] = 7
    captured = capture(roots(p=private))
    assert captured.missing == []
    assert bytes(captured.buffers[0].memory()) == b"\x07" + b"\0" * 399


def test_generators_go_on_where_they_were() -> None:
    def build() -> dict[str, Any]:
        bits = np.random.PCG64(1)
        return {
            "shared": (np.random.Generator(bits), np.random.Generator(bits)),
            "philox": np.random.Generator(np.random.Philox(3)),
            "mt": np.random.Generator(np.random.MT19937(4)),
            "sfc": np.random.Generator(np.random.SFC64(4)),
            "old": np.random.RandomState(5),
            "seeds": np.random.SeedSequence(6),
        }

    def draw(o: dict[str, Any]) -> list[Any]:
        numbers = [g.normal() for g in (*o["shared"], o["philox"], o["mt"], o["sfc"])]
        numbers += [g.integers(0, 100, dtype=np.int32) for g in (*o["shared"], o["sfc"])]
        children = [g.spawn(1)[0].random() for g in (o["shared"][0], o["philox"])] if hasattr(o["mt"], "spawn") else []
        return [*numbers, o["old"].normal(), *children, o["seeds"].spawn(1)[0].generate_state(1)[0]]

    o = build()
    draw(o)
    kept = taken(**o)
    want = [draw(o) for _ in range(3)]
    generators = o["shared"][0], o["philox"], o["old"]
    back = put(kept, **o)
    assert (back["shared"][0], back["philox"], back["old"]) == generators
    assert [draw(back) for _ in range(3)] == want
    assert [draw(x) for x in [put(kept, **build())] for _ in range(3)] == want
    assert [draw(x) for x in [put(kept)] for _ in range(3)] == want


def test_unseeded_generators_too() -> None:
    o = {"g": np.random.default_rng(), "r": np.random.RandomState()}
    kept = taken(**o)
    want = o["g"].random(), o["r"].random()
    back = put(kept, g=np.random.default_rng())
    assert (back["g"].random(), back["r"].random()) == want


def test_the_global_stream_is_meant_by_its_name() -> None:
    kept = taken(draw=np.random.normal, old=np.random.mtrand._rand)
    back = put(kept)
    assert back["old"] is np.random.mtrand._rand
    assert back["draw"].__self__ is np.random.mtrand._rand


@pytest.mark.parametrize("text", ["U5", "M8[ns]", [("r", "f8"), ("a", "i8")], [("inner", [("r", ">f4")]), ("many", "i2", (3,))]])
def test_which_arrays_share_a_dtype_means_nothing(text: Any) -> None:
    def two() -> dict[str, Any]:
        return {"b": np.zeros(3, np.dtype(text)), "a": np.zeros(2, np.dtype(text))}

    made = np.zeros(3, np.dtype(text))
    kept = taken(b=made, a=made[np.array([0, 1])])
    put(kept, **two())
    other = capture(roots(b=made, a=made[:2].view(np.dtype("V" + str(made.dtype.itemsize)))))
    assert digests(other)["given", "a"] != kept.digests["given", "a"]
