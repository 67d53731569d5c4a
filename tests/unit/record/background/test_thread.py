"""The thread that makes the calls, and the exit."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest

from rearview.record.background import wrapping as back
from rearview.record.background.calls import Call
from rearview.record.background.queue import Queue
from rearview.record.background.wrapping import background, not_made_within, rest_all
from tests.unit.record.background.writers import Broken, Holding, Writer, of

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
    monkeypatch.setattr("rearview.record.background.queue.IDLE_S", 0.01)
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


def test_what_is_not_made_in_a_given_time_is_named() -> None:
    one, other = background(Writer()), background(Holding())
    one.add(1)
    one.add(2)
    other.add(1)
    assert not_made_within(0.2) == ["Holding"]
    assert of(one).seen == [1, 2]
    of(other).gate.set()
    assert not_made_within(60.0) == []
    assert of(other).seen == [1]


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
    assert "the disk is full" in said and "called at test_thread.py" in said
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
