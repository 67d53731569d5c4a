"""Calls that are made later: in order, with the values of the call, bounded, and with their errors."""

from __future__ import annotations

import collections
import io
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from rearview.record.background.wrapping import background, rest_all, stats
from tests.unit.record.background.writers import Broken, Holding, Writer, of

# -- order and values --------------------------------------------------------------------------------------------------------


def test_calls_are_made_in_order_by_another_thread() -> None:
    writer = Holding()
    proxy = background(writer)
    for number in range(200):
        assert proxy.add(number) is None
    assert writer.seen == []
    writer.gate.set()
    assert proxy.flush() == 200
    assert writer.seen == list(range(200))
    assert len(writer.threads) <= 2  # ours, and the caller that helped at the flush


def test_what_is_seen_is_what_it_was_at_the_call() -> None:
    class Point(NamedTuple):
        x: Any
        y: Any

    numbers, nested, text = [1, 2], {"a": [1], "b": (1, [2])}, bytearray(b"abc")
    counted, line, tagged = collections.Counter("aab"), collections.deque([1, [2]], maxlen=5), SimpleNamespace(v=[1])
    proxy = background(Holding())
    proxy.add(numbers, nested, text, key=numbers)
    proxy.add(counted, line, tagged, {1, 2}, Point(numbers, 0))
    numbers.append(3)
    nested["a"].append(2)
    nested["b"][1].append(3)
    text += b"d"
    counted["z"] = 9
    line.append(4)
    line[1].append(3)
    tagged.v.append(2)
    of(proxy).gate.set()
    proxy.flush()
    assert of(proxy).seen[0] == ([1, 2], {"a": [1], "b": (1, [2])}, bytearray(b"abc"), ("key", [1, 2]))
    assert of(proxy).seen[1] == (
        collections.Counter("aab"), collections.deque([1, [2]]), SimpleNamespace(v=[1]), {1, 2}, Point([1, 2], 0),
    )  # fmt: skip
    assert of(proxy).seen[1][1].maxlen == 5
    assert isinstance(of(proxy).seen[1][4], Point)


def test_an_object_met_twice_stays_one_and_a_list_in_itself_is_no_trouble() -> None:
    twice: list[Any] = [[1]]
    inside: list[Any] = []
    inside.append(inside)
    proxy = background(Writer())
    proxy.add([twice, twice], inside)
    proxy.flush()
    (pair, ring) = of(proxy).seen[0]
    assert pair[0] is pair[1] and pair[0] is not twice
    assert ring[0] is ring and ring is not inside


def test_what_cannot_change_is_passed_as_it_is() -> None:
    path, text, numbers = Path("a"), "x" * 1000, tuple(range(50))
    proxy = background(Writer())
    proxy.add(path, text, numbers, len, Writer)
    proxy.flush()
    assert [a is b for a, b in zip(of(proxy).seen[0], (path, text, numbers, len, Writer), strict=True)] == [True] * 5


def test_arrays_are_copied_and_memory_maps_to_read_are_not(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(12.0).reshape(3, 4).T
    mapped = numpy.memmap(tmp_path / "m", dtype="u1", mode="w+", shape=(8,))
    to_read = numpy.memmap(tmp_path / "m", dtype="u1", mode="r", shape=(8,))
    objects = numpy.array([[1], None], dtype=object)
    proxy = background(Holding())
    proxy.add(array, mapped, to_read, objects, numpy.float32(2.0))
    array[:] = -1
    mapped[:] = 7
    objects[0].append(2)
    of(proxy).gate.set()
    proxy.flush()
    seen = of(proxy).seen[0]
    assert seen[0].tolist() == numpy.arange(12.0).reshape(3, 4).T.tolist()
    assert type(seen[1]) is numpy.ndarray and seen[1].tolist() == [0] * 8
    assert seen[2] is to_read
    assert seen[3][0] == [1]
    assert type(seen[4]) is numpy.float32


def test_what_cannot_be_copied_is_called_at_once_after_the_others() -> None:
    proxy = background(Writer())
    proxy.add(1)
    running = (number for number in range(3))
    proxy.add(running)
    assert of(proxy).seen == [1, running]
    with io.BytesIO() as file, open(os.devnull, "rb") as device:
        proxy.add([file])
        proxy.add({"file": device})
        assert of(proxy).seen[-1] == {"file": device}
    assert stats(proxy).direct == 2  # BytesIO can be copied
    assert stats(proxy).calls == 2


def test_nesting_without_end_is_called_at_once() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    proxy = background(Writer())
    proxy.add(deep)
    assert of(proxy).seen[0] is deep
    while deep:  # or the test's own clean-up would recurse
        deep = deep.pop()


# -- the bound ---------------------------------------------------------------------------------------------------------------


def test_the_queue_is_bounded_in_bytes_and_whoever_waits_helps(capsys: pytest.CaptureFixture[str]) -> None:
    writer = Writer()
    proxy = background(writer, limit_bytes=10_000)
    rest_all()
    for number in range(50):
        proxy.add(number, b"x" * 3_000)
    assert stats(proxy).peak_bytes <= 10_000
    proxy.flush()
    assert [number for number, _ in writer.seen] == list(range(50))
    assert capsys.readouterr().err.count("the program now makes the oldest ones itself") <= 1


def test_a_full_queue_is_counted_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    writer = Holding()
    proxy = background(writer, limit_bytes=4_000)
    proxy.add(b"x" * 3_000)
    threading.Timer(0.05, writer.gate.set).start()
    proxy.add(b"y" * 3_000)
    proxy.add(b"z" * 3_000)
    proxy.flush()
    assert stats(proxy).waits >= 1
    assert stats(proxy).waited_s > 0.0
    assert [chunk[:1] for chunk in writer.seen] == [b"x", b"y", b"z"]
    assert capsys.readouterr().err.count("background calls of Holding wait") == 1


def test_a_call_larger_than_the_bound_goes_through_alone() -> None:
    proxy = background(Writer(), limit_bytes=1_000)
    proxy.add(b"x" * 5_000)
    proxy.add(b"y" * 5_000)
    assert proxy.flush() == 2


def test_a_call_that_asks_for_another_does_not_wait_for_itself() -> None:
    made: list[int] = []

    def again(number: int, filler: bytes) -> None:
        made.append(number)
        if number < 5:
            queued(number + 1, filler)
            queued.flush()  # type: ignore[attr-defined]

    queued: Any = background(again, limit_bytes=1_000)
    queued(0, b"x" * 900)
    while len(made) < 6:
        queued.flush()
    assert made == [0, 1, 2, 3, 4, 5]


# -- errors ------------------------------------------------------------------------------------------------------------------


def test_an_error_is_raised_at_the_next_call_as_it_was() -> None:
    proxy = background(Writer())
    proxy.fail(Broken("no room"))
    of(proxy)
    proxy._rearview.queue.drain()
    with pytest.raises(Broken, match="no room") as caught:
        proxy.add(1)
    assert any("Writer.fail, called at test_calls.py:" in note for note in caught.value.__notes__)
    frames = [entry.name for entry in caught.traceback]
    assert "fail" in frames  # where it was raised, and not only where it was told
    proxy.add(2)
    proxy.flush()
    assert of(proxy).seen == [2]  # told once; the call that told it was not made


@pytest.mark.parametrize("tell", ["flush", "close", "finish"])
def test_an_error_is_raised_by_what_waits(tell: str) -> None:
    proxy = background(Holding(), wait="finish")
    proxy.fail(Broken("first"))
    proxy.fail(Broken("second"))
    proxy.fail(Broken("third"))
    of(proxy).gate.set()
    with pytest.raises(Broken, match="first") as caught:
        getattr(proxy, tell)()
    assert "2 later calls failed too" in caught.value.__notes__[0]
    assert getattr(proxy, tell)() is not None


@pytest.mark.parametrize("leaving", [SystemExit, KeyboardInterrupt])
def test_a_call_that_wants_to_leave_the_program_is_an_error_too(leaving: type[BaseException]) -> None:
    writer = Writer()
    proxy = background(writer)
    proxy.fail(leaving())
    while proxy._rearview.queue.pending:
        time.sleep(0.001)  # not helping: the caller would be asked to leave
    with pytest.raises(leaving):
        proxy.add(1)
    proxy.add(2)
    proxy.flush()
    assert writer.seen == [2]


def test_reading_an_attribute_tells_an_error() -> None:
    proxy = background(Writer())
    proxy.fail(Broken("x"))
    with pytest.raises(Broken):
        _ = proxy.seen
