"""Work beside the training: what an iteration has started and is still at work when its nested loop begins."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging.handlers
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from rearview.record.checkpoints.at_work import AT_WORK, Beside, Fed


@pytest.fixture
def over() -> Iterator[threading.Event]:
    """Ends what a test has started."""
    event = threading.Event()
    yield event
    event.set()


def test_a_thread_that_the_iteration_started_and_that_goes_on(over: threading.Event) -> None:
    def feeding() -> None:
        over.wait()

    def quick() -> None:
        pass

    before = threading.Thread(target=feeding)
    before.start()
    beside = Beside([sys._getframe()])
    ended = threading.Thread(target=quick)
    ended.start()
    ended.join()
    beside.look([sys._getframe()])
    assert beside.rows == []

    for _ in range(2):
        threading.Thread(target=feeding).start()
    beside.look([sys._getframe()])
    assert beside.rows == [[feeding.__qualname__, "threading.Thread", AT_WORK]]  # once: the next iteration starts it under the same name

    beside.begin([sys._getframe()])
    beside.look([sys._getframe()])
    assert beside.rows == []


def test_it_stays_known_for_the_iteration_after_it_has_ended(over: threading.Event) -> None:
    beside = Beside([sys._getframe()])
    thread = threading.Thread(target=lambda: over.wait() and None)
    thread.start()
    beside.look([sys._getframe()])
    over.set()
    thread.join()
    beside.look([sys._getframe()])
    assert len(beside.rows) == 1


def test_a_call_given_to_a_pool_whose_threads_are_there_already(over: threading.Event) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(int)
        done.result()
        beside = Beside([sys._getframe()])
        held = {"work": [pool.submit(over.wait)]}
        beside.look([sys._getframe()])
        over.set()
        assert beside.rows == [["held", "concurrent.futures._base.Future", AT_WORK]]
        assert held["work"][0].result()


def test_a_program_that_was_not_waited_for() -> None:
    beside = Beside([sys._getframe()])
    subprocess.run([sys.executable, "-c", ""], check=True)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    reading = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    beside.look([sys._getframe()])
    reading.communicate(b"\n")
    assert beside.rows == [["reading", "subprocess.Popen", AT_WORK]]


def test_a_task_of_the_event_loop() -> None:
    async def feeding(queue: asyncio.Queue[int]) -> None:
        for number in range(3):
            await queue.put(number)

    async def training() -> list[list[str]]:
        beside = Beside([sys._getframe()])
        numbers: asyncio.Queue[int] = asyncio.Queue(1)
        task = asyncio.create_task(feeding(numbers))
        beside.look([sys._getframe()])
        for number in range(3):
            assert await numbers.get() == number
        await task
        return beside.rows

    ((name, kind, _),) = asyncio.run(training())
    assert name.endswith("feeding")
    assert kind == "_asyncio.Task"


def test_a_thread_that_waits_for_room_in_a_queue_feeds_and_one_that_waits_for_work_does_not() -> None:
    full: queue.Queue[int] = queue.Queue(1)
    empty: queue.Queue[int] = queue.Queue()

    def feeding() -> None:
        full.put(1)
        full.put(2)

    def serving() -> None:
        empty.get()

    threads = [threading.Thread(target=work) for work in (feeding, serving)]
    later = Fed()
    later.main_begins([])
    for thread in threads:
        thread.start()
    fed = Fed()
    patience = time.monotonic() + 20
    while not fed.rows and time.monotonic() < patience:
        fed.main_begins([])
    later.look()
    assert later.rows == [], "one that an iteration started does not feed the main loop"
    assert [name for name, *_ in fed.rows] == [feeding.__qualname__]
    full.get()
    empty.put(0)
    for thread in threads:
        thread.join()
    fed.main_begins([])
    assert fed.rows, "a loop that follows comes by it"
    fed.main_begins([("fold", 0, 1)])
    assert fed.rows == []


def test_threads_of_libraries_that_only_wait_for_work_do_not_count() -> None:
    beside = Beside([sys._getframe()])
    listener = logging.handlers.QueueListener(queue.SimpleQueue())
    listener.start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        beside.look([sys._getframe()])
    listener.stop()
    assert beside.rows == []
