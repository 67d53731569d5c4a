"""Laws of values: what is stored comes back to the bit, and no bytes do anything but give a value or `Damaged`."""

from __future__ import annotations

import datetime as dt
import os
import struct
import tracemalloc
import zoneinfo
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rearview.errors import Damaged, Unstorable
from rearview.model import ArraySummary
from rearview.record.values.storable import storable
from rearview.store import frames
from rearview.store.encoding import decode, encode

EXAMPLES = int(os.environ.get("REARVIEW_TEST_EXAMPLES", "2000"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])

ZONES = [zoneinfo.ZoneInfo(key) for key in ("Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "UTC", "Africa/Monrovia")]
offsets = st.timedeltas(dt.timedelta(hours=-23, minutes=-59), dt.timedelta(hours=23, minutes=59))
zones = st.one_of(st.none(), st.just(dt.UTC), st.sampled_from(ZONES), offsets.map(dt.timezone))
doubles = st.integers(0, 2**64 - 1).map(lambda raw: struct.unpack("<d", raw.to_bytes(8, "little"))[0])
texts = st.text(st.characters(exclude_categories=()), max_size=40)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**70), 2**70), st.integers(-(10**300), 10**300), doubles, st.floats(),
    st.builds(complex, doubles, doubles), texts, st.binary(max_size=40), st.dates(), st.timedeltas(),
    st.datetimes(timezones=zones), st.builds(lambda when, zone: when.replace(tzinfo=zone), st.times(), zones),
)  # fmt: skip
keys = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.binary(max_size=9), st.tuples(texts, st.integers()))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.lists(inner, max_size=5).map(tuple) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)
figures = st.one_of(st.none(), st.floats(), st.integers())
summaries = st.builds(
    ArraySummary, texts, texts, st.lists(st.integers(0, 2**40), max_size=4).map(tuple), figures, figures, figures, st.integers(0, 2**70),
    st.lists(st.integers(0, 2**40), max_size=16).map(tuple), texts, st.integers(0, 2**64), st.dictionaries(texts, scalars, max_size=3),
)  # fmt: skip


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest, tally: Callable[[str, int], None]) -> None:
    """For the totals of a long run."""
    law = "values stored and read back" if "back" in request.node.name else "hostile encoded values read"
    tally(law, 200 if "allocates" in request.node.name else EXAMPLES)


def exact(value: Any) -> object:
    """A form that is equal for values that are the same to the bit, and for no others."""
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, complex):
        return "complex", struct.pack("<dd", value.real, value.imag)
    if isinstance(value, (dt.datetime, dt.time)):
        zone = value.tzinfo
        known = zone.key if isinstance(zone, zoneinfo.ZoneInfo) else None
        return type(value).__name__, value.replace(tzinfo=None), value.fold, value.utcoffset(), zone is None, known
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [exact(item) for item in value]
    if isinstance(value, dict):
        return "dict", [(exact(key), exact(item)) for key, item in value.items()]
    if isinstance(value, ArraySummary):
        return "summary", [exact(getattr(value, name)) for name in value.__slots__]
    return type(value).__name__, value


def no_bytes(data: bytes) -> str:
    raise AssertionError("a plain value has no bytes to keep")


@many
@given(st.text(st.characters(exclude_categories=())), values)
def test_a_name_and_a_value_come_back_to_the_bit_alone_and_from_a_journal(name: str, value: object) -> None:
    try:
        data = encode(storable(value, no_bytes))
    except Unstorable as refused:
        assert "time zone" in str(refused), refused  # offsets of some microseconds that Python itself cannot read back
        return
    assert exact(decode(data)) == exact(value)
    assert encode(decode(data)) == data
    reading = frames.Reading()
    part = frames.MAGIC + frames.frame(0, frames.fact_body("x", name=name, value=value))
    [(sequence, body)] = frames.walk(part, reading)
    found = frames.read_fact(body)
    assert (sequence, found["name"], reading.damage) == (0, name, [])
    assert exact(found["value"]) == exact(value)


@many
@given(st.one_of(summaries, st.lists(summaries, max_size=2)))
def test_a_summary_comes_back_to_the_bit(value: object) -> None:
    assert exact(decode(encode(value))) == exact(value)


def gives_a_value_or_damaged(data: bytes) -> bool:
    try:
        value = decode(data)
    except Damaged:
        return False
    try:
        encode(value)
    except Unstorable as refused:
        assert "deep" in str(refused) or "time zone" in str(refused), refused
    return True


@many
@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_damaged(data: bytes) -> None:
    gives_a_value_or_damaged(data)


TAGS = b"nTFiIfcsbDMtdlumo"


@many
@given(st.lists(st.one_of(st.sampled_from(TAGS).map(lambda tag: bytes((tag,))), st.integers(0, 9).map(lambda n: n.to_bytes(4, "little")))))
def test_bytes_that_look_like_ours_give_a_value_or_damaged(parts: list[bytes]) -> None:
    gives_a_value_or_damaged(b"".join(parts))


@many
@given(st.one_of(values, summaries), st.data())
def test_flipped_and_cut_bytes_give_a_value_or_damaged(value: object, data: st.DataObject) -> None:
    try:
        good = bytearray(encode(value))
    except Unstorable:
        return
    for _ in range(data.draw(st.integers(1, 4), label="flips")):
        at = data.draw(st.integers(0, len(good) - 1), label="at")
        good[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    cut = data.draw(st.integers(0, len(good)), label="cut")
    gives_a_value_or_damaged(bytes(good[:cut]))
    gives_a_value_or_damaged(bytes(good))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([bytes((tag,)) for tag in TAGS]), st.integers(2**24, 2**32 - 1), st.binary(max_size=60))
def test_a_length_that_lies_allocates_nothing(tag: bytes, length: int, rest: bytes) -> None:
    tracemalloc.start()
    try:
        gives_a_value_or_damaged(tag + length.to_bytes(4, "little") + rest)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
