"""What can be logged: as a plain value, as a summary of something kept whole, or refused with a reason."""

from __future__ import annotations

import datetime as dt
import math
import random
import subprocess
import sys
import types
from typing import Any

import pytest

from rearview.errors import Unstorable
from rearview.model import ArraySummary
from rearview.record.values import summaries
from rearview.record.values.storable import storable
from rearview.store.encoding import decode, encode


class Kept:
    """Stands for the store: remembers bytes by a key."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def __call__(self, data: bytes) -> str:
        assert type(data) is bytes
        key = f"object-{len(self.objects)}"
        self.objects[key] = data
        return key


@pytest.fixture
def kept() -> Kept:
    return Kept()


def number(value: object) -> Any:
    """A value that must become a plain one."""
    found = storable(value, keep=lambda data: pytest.fail("a number has no bytes to keep"))
    assert decode(encode(found)) == found or found != found
    return found


def test_plain_values_pass_untouched() -> None:
    for value in (None, True, 3, 0.5, "x", b"y", dt.date(2024, 1, 1), dt.timedelta(1), 1j):
        assert storable(value, keep=lambda data: "") is value


def test_containers_are_walked_and_copied() -> None:
    inner = [1, 2]
    found = number({"a": inner, "b": (1, [None])})
    assert found == {"a": [1, 2], "b": (1, [None])}
    assert found["a"] is not inner


def test_what_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop += [loop, loop]
    with pytest.raises(Unstorable, match="contains itself"):
        number(loop)


def test_depth_and_growth_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(Unstorable, match="deep"):
        number(deep)
    monkeypatch.setattr("rearview.record.values.storable.MAX_ITEMS", 10_000)
    grown: list[Any] = [1]
    for _ in range(40):
        grown = [grown] * 10
    with pytest.raises(Unstorable, match="parts"):
        number(grown)


def test_containers_with_a_mind_of_their_own_are_refused() -> None:
    class Rows(list[int]):
        def __iter__(self) -> Any:
            raise LookupError("the file is closed")

    with pytest.raises(Unstorable, match="Rows could not be read: LookupError: the file is closed"):
        number({"rows": Rows([1])})


def test_a_stack_that_is_nearly_used_up_is_no_crash() -> None:
    deep: list[Any] = []
    for _ in range(60):
        deep = [deep]

    def descend() -> bool:
        try:
            found = descend()
        except RecursionError:
            found = False
        if not found:
            try:
                number(deep)
                found = True
            except Unstorable as refused:
                assert "stack" in str(refused)
        return found

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        assert descend()
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("value", [object(), {1}, range(3), (x for x in ()), print, type])
def test_other_types_are_refused_by_name(value: object) -> None:
    with pytest.raises(Unstorable) as caught:
        number({"inside": [value]})
    assert type(value).__qualname__ in str(caught.value)


def test_an_object_that_only_looks_like_a_number_is_refused() -> None:
    class Pretender:
        shape = ()
        dtype = "float32"

        def item(self) -> object:
            return self

    class Raises(Pretender):
        def item(self) -> object:
            raise ZeroDivisionError("no\nnumber")

    with pytest.raises(Unstorable, match="Pretender"):
        number(Pretender())
    with pytest.raises(Unstorable, match="ZeroDivisionError: no$"):
        number(Raises())


def test_a_failing_store_is_not_mistaken_for_a_bad_value() -> None:
    np = pytest.importorskip("numpy")

    def full(data: bytes) -> str:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        storable([np.zeros(3)], full)


# NumPy


def test_numpy_scalars_become_python_numbers() -> None:
    np = pytest.importorskip("numpy")
    for scalar, plain in [
        (np.bool_(True), True),
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float16(0.1), float(np.float16(0.1))),
        (np.float32(0.1), 0.10000000149011612),
        (np.float64(0.1), 0.1),
        (np.complex64(1 - 2j), 1 - 2j),
        (np.str_("ü"), "ü"),
        (np.bytes_(b"x"), b"x"),
        (np.array(7), 7),
        (np.array("text"), "text"),
        (np.longdouble(0.5), 0.5),
        (np.clongdouble(1 + 1j), 1 + 1j),
    ]:
        assert number(scalar) == plain
        assert type(number(scalar)) is type(plain)
        assert number([{"x": scalar}]) == [{"x": plain}]
    assert math.isnan(number(np.float32("nan")))
    assert math.isnan(number(np.longdouble("nan")))
    assert math.copysign(1, number(np.float32(-0.0))) == -1


def test_an_extended_float_that_is_no_float_is_kept_whole(kept: Kept) -> None:
    np = pytest.importorskip("numpy")
    if np.finfo(np.longdouble).nmant == 52:
        pytest.skip("longdouble is a plain double on this machine")
    found = storable(np.longdouble(1) / 3, kept)
    assert isinstance(found, ArraySummary)
    assert found.details["class"] == "scalar"


def test_numpy_dates_are_kept_to_the_microsecond_or_refused() -> None:
    np = pytest.importorskip("numpy")
    assert number(np.datetime64("2024-02-29")) == dt.date(2024, 2, 29)
    assert number(np.datetime64("2024-02-29T01:02")) == dt.datetime(2024, 2, 29, 1, 2)
    assert number(np.datetime64("2024-02-29T01:02:03.000004000")) == dt.datetime(2024, 2, 29, 1, 2, 3, 4)
    assert number(np.timedelta64(90, "m")) == dt.timedelta(minutes=90)
    assert number(np.timedelta64(-5000, "ns")) == dt.timedelta(microseconds=-5)
    for lost in (
        np.datetime64("2024-02-29T01:02:03.000000004"),
        np.datetime64("20000-01-01"),
        np.datetime64("-0001-01-01"),
        np.datetime64("NaT", "ns"),
        np.timedelta64("NaT", "ns"),
        np.timedelta64(1, "ns"),
        np.timedelta64(1, "M"),
    ):
        with pytest.raises(Unstorable):
            number(lost)


def test_arrays_of_objects_are_refused() -> None:
    np = pytest.importorskip("numpy")
    for array in (np.array([1, "a", None], dtype=object), np.array(None), np.array([(1, None)], dtype=[("a", "i4"), ("b", "O")])):
        with pytest.raises(Unstorable, match="object"):
            number(array)
    if hasattr(np.dtypes, "StringDType"):
        with pytest.raises(Unstorable):
            number(np.array(["a"], dtype=np.dtypes.StringDType()))


def test_an_array_that_carries_more_is_refused() -> None:
    np = pytest.importorskip("numpy")

    class Metres(np.ndarray):  # type: ignore[misc,name-defined]
        unit = "m"

    with pytest.raises(Unstorable, match="Metres"):
        number(np.ones(3).view(Metres))
    with pytest.raises(Unstorable, match="Metres"):
        number(np.array(3.0).view(Metres))


def test_bytes_are_in_c_order_whatever_the_strides(kept: Kept) -> None:
    np = pytest.importorskip("numpy")
    array = np.arange(24, dtype=">i2").reshape(2, 3, 4).transpose(2, 0, 1)[::-1, :, 1:]
    found = storable(array, kept)
    assert isinstance(found, ArraySummary)
    assert kept.objects[found.object_key] == np.ascontiguousarray(array).tobytes()
    assert (found.kind, found.shape, found.size_bytes, found.details) == ("numpy", (4, 2, 2), 32, {"dtype": ">i2"})


def test_arrays_inside_containers_are_kept_each(kept: Kept) -> None:
    np = pytest.importorskip("numpy")
    found: Any = storable({"w": np.ones(3), "n": 3, "all": [np.zeros(2), (np.int64(1),)]}, kept)
    assert found["n"] == 3
    assert found["all"][1] == (1,)
    assert [found["w"].shape, found["all"][0].shape] == [(3,), (2,)]
    assert len(kept.objects) == 2
    assert decode(encode(found)) == found


def test_arrays_cannot_be_keys(kept: Kept) -> None:
    np = pytest.importorskip("numpy")
    third = np.longdouble(1) / 3
    for key in (third, (1, third)):
        if float(third) != third:  # where longdouble is more than a double
            with pytest.raises(Unstorable, match="key"):
                storable({key: 1}, kept)
    assert not kept.objects
    assert storable({np.float32(0.5): 1, np.str_("a"): 2}, kept) == {0.5: 1, "a": 2}


# summaries


def figures_of(array: Any) -> summaries.Figures:
    import numpy as np

    return summaries.of_numpy(np, np.ascontiguousarray(array))


def test_a_summary_leaves_out_nan_and_counts_it() -> None:
    np = pytest.importorskip("numpy")
    found = figures_of(np.array([1.0, np.nan, 3.0, np.nan]))
    assert (found.minimum, found.maximum, found.mean, found.nan_count) == (1.0, 3.0, 2.0, 2)
    assert sum(found.histogram) == 2
    nothing = figures_of(np.full(5, np.nan))
    assert (nothing.minimum, nothing.mean, nothing.nan_count, nothing.histogram) == (None, None, 5, ())
    assert figures_of(np.zeros((0, 4))) == summaries.Figures()


def test_infinities_are_extremes_but_in_no_bin() -> None:
    np = pytest.importorskip("numpy")
    found = figures_of(np.array([-np.inf, 0.0, 1.0, 4.0]))
    assert (found.minimum, found.maximum, found.mean, found.nan_count) == (-math.inf, 4.0, -math.inf, 0)
    assert sum(found.histogram) == 3
    both = figures_of(np.array([-np.inf, 1.0, np.inf, np.nan]))
    assert (both.minimum, both.maximum, both.nan_count) == (-math.inf, math.inf, 1)
    assert both.mean is not None
    assert math.isnan(both.mean)
    assert sum(both.histogram) == 1


def test_whole_numbers_are_exact() -> None:
    np = pytest.importorskip("numpy")
    found = figures_of(np.array([2**63 - 1, 2**63 - 3], dtype=np.int64))
    assert (found.minimum, found.maximum) == (2**63 - 3, 2**63 - 1)
    assert figures_of(np.array([2**64 - 1], dtype=np.uint64)).maximum == 2**64 - 1
    flags = figures_of(np.array([True, False, True, True]))
    assert (flags.minimum, flags.maximum, flags.mean) == (0, 1, 0.75)


def test_numbers_near_the_end_of_all_floats() -> None:
    np = pytest.importorskip("numpy")
    top = sys.float_info.max
    found = figures_of(np.array([top, top, -top]))
    assert (found.minimum, found.maximum) == (-top, top)
    assert found.mean == pytest.approx(top / 3)
    assert (found.histogram[0], found.histogram[-1]) == (1, 2)
    tiny = figures_of(np.array([0.0, 5e-324]))
    assert (tiny.histogram[0], tiny.histogram[-1]) == (1, 1)


def test_complex_numbers_are_summed_up_by_magnitude() -> None:
    np = pytest.importorskip("numpy")
    found = figures_of(np.array([3 + 4j, 0, complex(np.nan, 1)]))
    assert (found.minimum, found.maximum, found.mean, found.nan_count) == (0.0, 5.0, 2.5, 1)


def test_dates_and_text_have_no_figures_but_missing_dates_are_counted() -> None:
    np = pytest.importorskip("numpy")
    assert figures_of(np.array(["2024", "NaT"], dtype="M8[D]")) == summaries.Figures(nan_count=1)
    assert figures_of(np.array(["a", "b"])) == summaries.Figures()


@pytest.mark.parametrize("seed", range(20))
def test_figures_over_chunks_are_those_of_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    np = pytest.importorskip("numpy")
    monkeypatch.setattr(summaries, "_CHUNK", 7)
    draw = np.random.default_rng(seed)
    array = draw.normal(size=int(draw.integers(1, 60))) * 10.0 ** draw.integers(-30, 30)
    array[draw.random(array.size) < 0.2] = np.nan
    found = figures_of(array)
    good = array[~np.isnan(array)]
    assert found.nan_count == int(np.isnan(array).sum())
    if good.size:
        assert (found.minimum, found.maximum) == (good.min(), good.max())
        assert found.mean == pytest.approx(good.mean(), rel=1e-9, abs=1e-9 * float(abs(good).max()))
        assert found.histogram == tuple(np.histogram(good, bins=summaries.BINS)[0]) or good.size < 3


def test_counts_give_the_same_figures_as_the_numbers_themselves() -> None:
    np = pytest.importorskip("numpy")
    array = np.random.default_rng(0).integers(3, 200, 5000).astype(np.uint8)
    found = summaries.of_counts(np.bincount(array, minlength=256).tolist())
    whole = figures_of(array)
    assert (found.minimum, found.maximum, found.nan_count) == (whole.minimum, whole.maximum, 0)
    assert found.mean == pytest.approx(whole.mean)
    assert found.histogram == whole.histogram
    assert summaries.of_counts([0] * 256) == summaries.Figures()


# libraries that are not here: the same protocol


class FakeEager:
    """A TensorFlow eager tensor: a shape that is no tuple, `numpy()`, no `item()`."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def shape(self) -> Any:
        return list(self.array.shape)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def numpy(self) -> Any:
        return self.array[()] if self.array.ndim == 0 else self.array


class FakeVariable(FakeEager):
    """A TensorFlow variable."""


class FakeJax(FakeEager):
    """A JAX array: `item()` and `__array__`."""

    numpy = None  # type: ignore[assignment]

    def item(self) -> Any:
        return self.array.item()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class FakeTracer(FakeJax):
    """A JAX value inside a jitted function."""

    def item(self) -> Any:
        raise TypeError("Abstract tracer value encountered where concrete value is expected")


@pytest.fixture
def frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    tensorflow = types.SimpleNamespace(Tensor=FakeEager, Variable=FakeVariable)
    jax = types.SimpleNamespace(Array=FakeJax, core=types.SimpleNamespace(Tracer=FakeTracer))
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "jax", jax)  # type: ignore[arg-type]


@pytest.mark.usefixtures("frameworks")
def test_numbers_of_other_frameworks() -> None:
    np = pytest.importorskip("numpy")
    for kind in (FakeEager, FakeVariable, FakeJax):
        assert number(kind(np.array(0.5, np.float32))) == 0.5
        assert number(kind(np.array(3))) == 3
        assert number({"x": [kind(np.array(True))]}) == {"x": [True]}
    with pytest.raises(Unstorable, match="Tracer"):
        number(FakeTracer(np.array(1.0)))


@pytest.mark.usefixtures("frameworks")
def test_arrays_of_other_frameworks(kept: Kept) -> None:
    np = pytest.importorskip("numpy")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for kind, name in ((FakeEager, "tensorflow"), (FakeVariable, "tensorflow"), (FakeJax, "jax")):
        found = storable(kind(array), kept)
        assert isinstance(found, ArraySummary)
        assert (found.kind, found.shape, found.dtype, found.maximum) == (name, (2, 3), "float32", 5.0)
        assert kept.objects[found.object_key] == array.tobytes()
        assert found.details.get("class") == ("Variable" if kind is FakeVariable else None)
    with pytest.raises(Unstorable, match="traced"):
        storable(FakeTracer(array), kept)


def test_a_number_of_a_library_nobody_named() -> None:
    np = pytest.importorskip("numpy")
    assert number(FakeEager(np.array(2.5))) == 2.5
    with pytest.raises(Unstorable, match="FakeEager"):
        number(FakeEager(np.ones(3)))


# what reading leaves behind: no library, no draw from a random stream


def test_reading_values_imports_no_library() -> None:
    code = (
        "import sys\nfrom rearview.record.values.storable import storable\nfrom rearview.catalog.cells import Cell\n"
        "for value in (1, 'x', [1, {'a': 2.5}]): storable(value, str)\n"
        "try: storable(object(), str)\nexcept TypeError: pass\nelse: sys.exit('kept an object')\n"
        "bad = {'torch', 'numpy', 'pandas', 'PIL', 'matplotlib', 'jax', 'tensorflow', 'ml_dtypes'} & set(sys.modules)\n"
        "sys.exit(f'loaded {bad}' if bad else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_reading_numpy_draws_nothing() -> None:
    np = pytest.importorskip("numpy")
    before = random.getstate(), np.random.get_state()[1].tobytes(), np.geterr()
    storable([np.ones(1000), np.array([np.nan, np.inf, -np.inf])], lambda data: "")
    assert (random.getstate(), np.random.get_state()[1].tobytes(), np.geterr()) == before
