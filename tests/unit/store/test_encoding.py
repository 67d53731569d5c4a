"""Values to bytes and back: exactly, or refused; bytes of others: a value, or `Damaged`."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import math
import struct
import sys
import zoneinfo
from typing import Any

import pytest

from rearview.errors import Damaged, Unstorable
from rearview.model import ArraySummary
from rearview.store import encoding, moments
from rearview.store.encoding import MAX_DEPTH, decode, encode

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def back(value: object) -> Any:
    return decode(encode(value))


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


@pytest.mark.parametrize("value", [None, True, False, 0, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**300, -(10**300)])
def test_plain_values_come_back_with_their_type(value: object) -> None:
    assert back(value) == value
    assert type(back(value)) is type(value)


@pytest.mark.parametrize("text", ["", "ü", "\x00", "\ud800", "\udc00\ud800", "\ud83d" + "\ude00", "😀", "a" * 1_000_000, "\x1b[31m"])
def test_any_text_comes_back(text: str) -> None:
    assert back(text) == text


@pytest.mark.parametrize(
    "raw", [0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0x7FF0000000000000, 1]
)
def test_every_bit_of_a_float_comes_back(raw: int) -> None:
    (number,) = struct.unpack("<d", raw.to_bytes(8, "little"))
    assert bits(back(number)) == raw.to_bytes(8, "little")
    both = back(complex(number, -0.0))
    assert bits(both.real) == raw.to_bytes(8, "little")
    assert bits(both.imag) == bits(-0.0)


def test_an_integer_beyond_the_limit_of_text_comes_back() -> None:
    huge = 7 ** (sys.int_info.default_max_str_digits * 2)
    assert back(huge) == huge
    assert back({"n": [-huge]}) == {"n": [-huge]}


def test_containers_keep_kind_and_order() -> None:
    value = {"b": [1, (2.5, [])], "a": {}, 3: (), None: b"x", (1, "y"): True, False: ""}
    assert back(value) == value
    assert list(back(value)) == list(value)
    assert type(back(value)["b"][1]) is tuple


def test_nan_keys_stay_apart() -> None:
    assert len(back({math.nan: 1, float("nan"): 2})) == 2


class Colour(enum.IntEnum):
    RED = 3


class Mode(enum.StrEnum):
    FAST = "fast"


class Odd(int):
    """An integer that says something else when asked."""

    def __int__(self) -> int:
        return 99

    def __index__(self) -> int:
        return 99


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, 3),
        (Mode.FAST, "fast"),
        (Odd(5), 5),
        (Point(1, 2), (1, 2)),
        (collections.Counter(a=2), {"a": 2}),
        (bytearray(b"ab"), b"ab"),
    ],
)
def test_subclasses_come_back_as_the_plain_type(value: object, plain: object) -> None:
    assert back(value) == plain
    assert type(back(value)) is type(plain)


def test_an_ordered_dict_keeps_the_order_it_shows() -> None:
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert list(back(ordered)) == ["b", "a"]


class Self(str):
    """Text that only equals itself."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def test_keys_that_would_fall_together_are_refused() -> None:
    with pytest.raises(Unstorable, match="keys that are equal"):
        encode({Self("a"): 1, Self("a"): 2})
    with pytest.raises(Unstorable, match="keys that are equal"):
        encode({"a": 1, Self("a"): 2})
    assert back({Self("a"): 1, Self("b"): 2}) == {"a": 1, "b": 2}


MOMENTS = [
    dt.date.min,
    dt.date.max,
    dt.date(999, 12, 31),
    dt.datetime.min,
    dt.datetime.max,
    dt.datetime(2024, 2, 29, 1, 2, 3, 4),
    dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
    dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
    dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    dt.datetime(2024, 3, 31, 2, 30, tzinfo=BERLIN, fold=1),
    dt.datetime(2024, 3, 31, 2, 30, tzinfo=BERLIN),
    dt.datetime(1800, 1, 1, tzinfo=BERLIN),
    dt.datetime(2024, 1, 1, fold=1),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30, seconds=7, microseconds=9))),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(-dt.timedelta(hours=23, minutes=59))),
    dt.time(23, 59, 59, 999999, fold=1),
    dt.time(1, 2, tzinfo=dt.UTC),
    dt.time(1, 2, tzinfo=BERLIN),
    dt.timedelta.min,
    dt.timedelta.max,
    dt.timedelta(microseconds=-1),
]


@pytest.mark.parametrize("value", MOMENTS, ids=repr)
def test_dates_come_back_to_the_bit(value: Any) -> None:
    found = back(value)
    assert found == value
    assert type(found) is type(value)
    assert getattr(found, "fold", 0) == getattr(value, "fold", 0)
    if isinstance(value, (dt.datetime, dt.time)):
        assert found.utcoffset() == value.utcoffset()
        assert (found.tzinfo is BERLIN) == (value.tzinfo is BERLIN)


class Zone(dt.tzinfo):
    """A time zone of somebody's own."""

    key = "Europe/Berlin"

    def __init__(self, offset: Any) -> None:
        self.offset = offset

    def utcoffset(self, when: object) -> Any:
        return self.offset

    def tzname(self, when: object) -> str:
        return "mine"

    def dst(self, when: object) -> None:
        return None


def test_a_zone_of_ones_own_keeps_its_offset_and_not_the_name_it_claims() -> None:
    value = dt.datetime(2024, 7, 1, 12, tzinfo=Zone(dt.timedelta(hours=-7)))
    assert back(value) == value
    assert back(value).utcoffset() == dt.timedelta(hours=-7)


@pytest.mark.parametrize("offset", [None, "+1", dt.timedelta(days=3)])
def test_a_zone_that_cannot_come_back_is_refused(offset: object) -> None:
    with pytest.raises(Unstorable):
        encode(dt.datetime(2024, 7, 1, 12, tzinfo=Zone(offset)))


def test_a_zone_that_raises_is_refused() -> None:
    class Broken(Zone):
        def utcoffset(self, when: object) -> Any:
            raise KeyError("no rules")

    with pytest.raises(Unstorable):
        encode(dt.datetime(2024, 7, 1, 12, tzinfo=Broken(None)))


def test_an_offset_python_cannot_read_back_is_refused_or_exact() -> None:
    for micros in (1, 59_999_999, 60_000_001, 3_600_000_001):
        for sign in (1, -1):
            value = dt.datetime(2024, 1, 1, tzinfo=dt.timezone(sign * dt.timedelta(microseconds=micros)))
            try:
                data = encode(value)
            except Unstorable:
                continue
            assert decode(data).utcoffset() == value.utcoffset()


def test_an_unknown_zone_still_tells_the_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    value = dt.datetime(2024, 7, 1, 12, tzinfo=BERLIN)
    data, time_only = encode(value), encode(dt.time(1, tzinfo=BERLIN))
    monkeypatch.setattr(moments, "find_zone", lambda key: None)
    assert decode(data) == value
    assert decode(data).tzname() == "Europe/Berlin"
    with pytest.raises(Damaged, match="tzdata"):  # without a date there is no offset to fall back to
        decode(time_only)


def test_a_zone_with_other_rules_here_still_tells_the_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    value = dt.datetime(2024, 7, 1, 12, tzinfo=BERLIN)
    data = encode(value)
    monkeypatch.setattr(moments, "find_zone", lambda key: zoneinfo.ZoneInfo("Asia/Tokyo"))
    assert decode(data) == value


def test_pandas_dates_come_back_unless_nanoseconds_would_be_lost() -> None:
    pd = pytest.importorskip("pandas")
    assert back(pd.Timestamp("2024-01-01 00:00:00.000001")) == dt.datetime(2024, 1, 1, 0, 0, 0, 1)
    assert back(pd.Timestamp("2024-07-01 12:00", tz="Europe/Berlin")).utcoffset() == dt.timedelta(hours=2)
    assert back(pd.Timedelta(1000)) == dt.timedelta(microseconds=1)
    for lost in (pd.Timestamp(1), pd.Timedelta(1), pd.NaT):
        with pytest.raises(Unstorable):
            encode(lost)


def test_what_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop += [loop, loop]
    with pytest.raises(Unstorable, match="contains itself"):
        encode(loop)
    ring: dict[str, object] = {}
    ring["again"] = [ring]
    with pytest.raises(Unstorable, match="contains itself"):
        encode(ring)
    twice = [1]
    assert back([twice, twice]) == [[1], [1]]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_nesting_has_a_limit_that_is_the_same_both_ways() -> None:
    assert back(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(Unstorable, match="deep"):
        encode(nested(MAX_DEPTH + 1))
    with pytest.raises(Unstorable):
        encode(nested(900))
    with pytest.raises(Damaged):
        decode(b"l\x01\x00\x00\x00" * (MAX_DEPTH + 1) + b"n")


def test_little_that_grows_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MAX_ITEMS", 10_000)
    monkeypatch.setattr(encoding, "MAX_BYTES", 10_000)
    grown: list[Any] = [1]
    for _ in range(40):
        grown = [grown] * 10
    with pytest.raises(Unstorable, match="parts"):
        encode(grown)
    with pytest.raises(Unstorable, match="bytes"):
        encode(["x" * 1000] * 11)


@pytest.mark.parametrize("value", [object(), {1, 2}, range(3), 1j.__class__, len, enum.Enum("E", "A").A])  # type: ignore[attr-defined]
def test_what_has_no_tag_is_refused_by_type(value: object) -> None:
    with pytest.raises(Unstorable) as caught:
        encode([value])
    assert type(value).__qualname__ in str(caught.value)


SUMMARY = ArraySummary("numpy", "float32", (2, 3), 0.0, 2**70, math.inf, 1, (1, 0, 4), "xxh3-" + "0" * 32, 24, {"dtype": "<f4"})


def test_a_summary_comes_back() -> None:
    assert back([SUMMARY, {"w": SUMMARY}]) == [SUMMARY, {"w": SUMMARY}]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["numpy"] * 11,
        ["numpy", "f", [1], None, None, None, 0, (), "k", 0, {}],
        ["numpy", "f", (-1,), None, None, None, 0, (), "k", 0, {}],
        ["numpy", "f", (True,), None, None, None, 0, (), "k", 0, {}],
        ["numpy", "f", (1,), "0", None, None, 0, (), "k", 0, {}],
        ["numpy", "f", (1,), None, None, None, 0, (), 7, 0, {}],
        ["numpy", "f", (1,), None, None, None, 0, (), "k", 0, []],
    ],
)
def test_a_summary_with_other_fields_is_damaged(fields: list[object]) -> None:
    with pytest.raises(Damaged):
        decode(b"o" + encode(fields))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"?",
        b"f",
        b"i\x00",
        b"nn",
        b"s\xff\xff\xff\xff",
        b"s\x01\x00\x00\x00\xff",
        b"l\xff\xff\xff\xff" + b"n" * 20,
        b"m\x01\x00\x00\x00n",
        b"m\x02\x00\x00\x00nTnF",
        b"m\x01\x00\x00\x00l\x00\x00\x00\x00n",
        b"D\x04\x00\x00\x002024",
        b"D\x08\x00\x00\x0020240101",
        b"M\x00" * 3000,
        b"M\x02" + encode("2024-01-01T00:00:00") + encode(""),
        b"M\x00" + encode("2024-01-01T00:00:00") + encode("../../etc/passwd"),
        b"M\x00" + encode("2024-01-01") + encode(""),
        b"M\x00i" + bytes(8) + encode(""),
        b"t\x00" + encode("25:00:00") + encode(""),
        b"d" + b"\xff\xff\xff\x7f" + bytes(8),
        b"on",
    ],
)
def test_malformed_bytes_are_damaged(data: bytes) -> None:
    with pytest.raises(Damaged):
        decode(data)
