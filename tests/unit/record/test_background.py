"""`rv.background` in one process: order, values at the call, the bound, errors, proxies. Without torch."""

from __future__ import annotations

import collections
import copy
import io
import os
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from rearview.record import background as back
from rearview.record.background import background, rest_all, stats
from rearview.record.background_calls import Call
from rearview.record.background_queue import Queue


class Writer:
    """Notes what it is told, at a gate that a test can close."""

    kind = "writer"

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[int] = set()
        self.closed = False

    def add(self, value: Any, *more: Any, **named: Any) -> str:
        self.gate.wait(30)
        self.threads.add(threading.get_ident())
        self.seen.append((value, *more, *named.items()) if more or named else value)
        return "not to be had"

    def fail(self, problem: BaseException) -> None:
        self.gate.wait(30)
        raise problem

    def flush(self) -> int:
        return len(self.seen)

    def close(self) -> str:
        self.closed = True
        return "closed"

    def finish(self) -> str:
        return "finished"


class Holding(Writer):
    """Made to hold its calls back: the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.clear()


@pytest.fixture(autouse=True)
def _settled() -> Iterator[None]:
    yield
    for one in list(back._backs):
        if isinstance(one.target, Writer):
            one.target.gate.set()
        one.queue.drain()
        one.queue.take_error()
    rest_all()


def of(proxy: Any) -> Any:
    """The object behind a proxy."""
    return proxy._rearview.target


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


class Broken(Exception):
    pass


def test_an_error_is_raised_at_the_next_call_as_it_was() -> None:
    proxy = background(Writer())
    proxy.fail(Broken("no room"))
    of(proxy)
    proxy._rearview.queue.drain()
    with pytest.raises(Broken, match="no room") as caught:
        proxy.add(1)
    assert any("Writer.fail, called at test_background.py:" in note for note in caught.value.__notes__)
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


# -- functions ---------------------------------------------------------------------------------------------------------------


def test_a_function_gives_a_handle() -> None:
    gate = threading.Event()

    @background
    def double(values: list[int]) -> list[int]:
        """Twice."""
        gate.wait(30)
        return [2 * value for value in values]

    numbers = [1, 2]
    handle: Any = double(numbers)
    numbers.append(3)
    assert not handle.done()
    with pytest.raises(TimeoutError, match="double was not done"):
        handle.result(timeout=0.01)
    gate.set()
    assert handle.result() == [2, 4]
    assert handle.done() and handle.result(timeout=1) == [2, 4]
    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert "done" in repr(handle)


def test_an_error_told_by_the_handle_is_not_told_again() -> None:
    def fail(number: int) -> None:
        raise Broken(number)

    queued: Any = background(fail)
    first = queued(1)
    with pytest.raises(Broken, match="1"):
        first.result()
    with pytest.raises(Broken, match="1"):
        first.result()
    queued(2)
    with pytest.raises(Broken, match="2"):
        queued.flush()


def test_lambdas_methods_builtins_and_callable_objects() -> None:
    class Callable_:
        def __call__(self, value: int) -> int:
            return value + 1

    assert background(lambda value: value + 1)(1).result() == 2  # type: ignore[attr-defined]
    assert background(background(sum))([1, 2]).result() == 3  # type: ignore[attr-defined]
    assert background("abc".upper)().result() == "ABC"  # type: ignore[attr-defined]
    assert background(Callable_())(1).result() == 2  # type: ignore[attr-defined]


def test_in_a_class_it_is_a_method() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.saved: list[Any] = []

        @background
        def save(self, state: Any) -> Any:
            return state

    assert Trainer().save([1]).result() == [1]


@pytest.mark.parametrize("wrong", [None, Writer, int])
def test_what_cannot_be_called_later_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="takes an object or a function"):
        background(wrong)


def test_a_coroutine_function_is_refused() -> None:
    async def later() -> None: ...

    with pytest.raises(TypeError, match="coroutine"):
        background(later)


# -- the proxy ---------------------------------------------------------------------------------------------------------------


def test_it_looks_like_the_object() -> None:
    writer = Writer()
    proxy = background(writer)
    assert isinstance(proxy, Writer)
    assert proxy.kind == "writer"
    assert background(proxy) is proxy
    assert "seen" in dir(proxy)
    assert repr(proxy).startswith("<background of <")
    assert hash(proxy) == hash(writer)
    assert not callable(proxy)
    assert bool(proxy)
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = proxy.nothing_of_that_name


def test_attributes_are_read_and_set_after_what_was_queued() -> None:
    writer = Writer()
    proxy = background(writer)
    for number in range(20):
        proxy.add(number)
    assert proxy.seen == list(range(20))
    proxy.add(20)
    proxy.seen = []
    assert writer.seen == []
    proxy.label = "x"
    assert writer.label == "x"  # type: ignore[attr-defined]
    del proxy.label
    assert not hasattr(writer, "label")


def test_methods_named_in_wait_give_their_result() -> None:
    assert background(Writer()).finish() is None
    assert background(Writer(), wait=["finish"]).finish() == "finished"
    assert background(Writer()).close() == "closed"


def test_protocols_of_the_object_work_and_others_do_not(tmp_path: Path) -> None:
    listed: Any = background([1, 2])
    listed.append(3)
    assert len(listed) == 3 and list(listed) == [1, 2, 3] and listed[0] == 1 and 2 in listed and listed == [1, 2, 3]
    listed[0] = 9
    assert listed[0] == 9
    with pytest.raises(TypeError):
        len(background(Writer()))  # type: ignore[arg-type]
    with background(open(tmp_path / "f", "w")) as file:
        file.write("a")
        file.write("b")
        assert not file.closed
    assert (tmp_path / "f").read_text() == "ab"


def test_leaving_with_an_error_of_ones_own_goes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), background(open(tmp_path / "f", "w")) as file:
        file.write(1)  # type: ignore[arg-type]
        _ = 1 / 0
    assert "write() argument must be str" in capsys.readouterr().err
    with pytest.raises(TypeError, match="must be str"), background(open(tmp_path / "f", "w")) as file:
        file.write(1)  # type: ignore[arg-type]


def test_it_is_not_copied_by_accident() -> None:
    proxy = background(Writer())
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(proxy)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.deepcopy(proxy)


# -- the thread --------------------------------------------------------------------------------------------------------------


def alive() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("rearview-background")]


def test_one_call_ends_all_threads_and_what_waits_stays() -> None:
    one, other = background(Holding()), background(Holding())
    for number in range(5):
        one.add(number)
        other.add(number)
    assert len(alive()) == 2
    threading.Timer(0.5, lambda: [of(one).gate.set(), of(other).gate.set()]).start()
    rest_all()
    assert alive() == []
    assert len(of(one).seen) <= 1  # the one under way was finished, no other begun
    one.add(5)
    one.flush()
    other.flush()
    assert of(one).seen == [0, 1, 2, 3, 4, 5] and of(other).seen == [0, 1, 2, 3, 4]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux gives a thread a priority of its own")
def test_it_runs_at_a_lower_priority_and_only_it() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    nice: Any = background(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    handle = nice()
    while not handle.done():
        time.sleep(0.001)
    assert handle.result() == min(before + 5, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_an_idle_thread_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rearview.record.background_queue.IDLE_S", 0.01)
    proxy = background(Writer())
    proxy.add(1)
    proxy.flush()
    until = time.monotonic() + 30
    while alive() and time.monotonic() < until:
        time.sleep(0.005)
    assert alive() == []
    proxy.add(2)
    assert proxy.flush() == 2


def test_calls_are_made_even_if_the_program_drops_the_object() -> None:
    writer = Holding()
    background(writer).add(1)
    rest = threading.Timer(0.02, writer.gate.set)
    rest.start()
    rest_all()
    import gc

    gc.collect()
    back.at_exit()
    assert writer.seen == [1]


def test_many_threads_may_call_and_nothing_is_lost() -> None:
    writer = Writer()
    proxy = background(writer, limit_bytes=3_000)

    def many(first: int) -> None:
        for number in range(first, first + 200):
            proxy.add(number, b"x" * 100)

    threads = [threading.Thread(target=many, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert proxy.flush() == 800
    for k in range(4):
        mine = [number for number, _ in writer.seen if number // 1000 == k]
        assert mine == list(range(1000 * k, 1000 * k + 200))


def test_where_no_thread_can_be_started_the_caller_makes_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    proxy = background(Writer())
    proxy.add(1)
    assert proxy.flush() == 1


# -- exit --------------------------------------------------------------------------------------------------------------------


def test_ctrl_c_at_the_exit_gives_up_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(Writer):
        def add(self, value: Any, *more: Any, **named: Any) -> str:
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            return super().add(value)

    writer = Interrupted()
    proxy = background(writer)
    writer.gate.clear()
    for number in range(5):
        proxy.add(number)
    threading.Timer(0.05, writer.gate.set).start()
    rest_all()
    back.at_exit()
    said = capsys.readouterr().err
    assert "interrupted at the exit: " in said and "background calls of test_ctrl_c_at_the_exit" in said
    assert proxy._rearview.queue.pending == 0


def test_an_error_nobody_was_told_of_is_shown_at_the_exit(capsys: pytest.CaptureFixture[str]) -> None:
    proxy = background(Writer())
    proxy.fail(Broken("the disk is full"))
    back.at_exit()
    said = capsys.readouterr().err
    assert "a background call of Writer failed" in said
    assert "the disk is full" in said and "called at test_background.py" in said
    assert proxy.flush() == 0


def test_room_that_was_not_used_is_given_back() -> None:
    queue = Queue("x", limit_bytes=100)
    queue.make_room(100)
    queue.give_back(100)
    queue.make_room(100)
    done = queue.put(Call(lambda: 7, 100, "x", ("x.py", 1)))
    queue.drain()
    assert (done.value, queue.pending, queue.waiting_bytes) == (7, 0, 0)
    queue.rest()


def test_our_threads_come_to_rest_by_one_call() -> None:
    from rearview.record import lifecycle

    writer = Writer()
    proxy = background(writer)
    proxy.add(1)
    lifecycle.rest()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rearview-background")]
    proxy.add(2)
    back.at_exit()
    assert writer.seen == [1, 2]
