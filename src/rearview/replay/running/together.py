"""Several runs replayed at once: their workers share the slots that memory and cores allow, the longest run is begun first.

Must not know who asks, or what comes of an answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence

from rearview.plan.partition import makespan
from rearview.replay import answering
from rearview.replay.answering import Answer, Show
from rearview.replay.preparing import Prepared
from rearview.replay.running.pool import Slots
from rearview.replay.running.progress import Shown

_WAKE_S = 0.2
"""Between two looks whether somebody wants to stop."""


def carry_out(every: Sequence[Prepared], workers: int, show: Show | None = None) -> Iterator[Answer]:
    """Run plans, prove them and publish what they gave; each answer as it comes.

    Interrupted, the workers are ended, what is finished is kept, and the answers that there are come with `interrupted` set.
    """
    if len(every) <= 1 or workers <= 1:
        for one in every:
            answer = answering.carry_out(one, show)
            yield answer
            if answer.interrupted:
                return
        return
    yield from _Together(every, workers, show).run()


class _Together:
    def __init__(self, every: Sequence[Prepared], workers: int, show: Show | None) -> None:
        self._slots = Slots(workers)
        self._todo = sorted(every, key=lambda one: -one.plan.seconds.expected)
        self._came: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._show, self._shown = show, dict[int, Shown]()
        self._of = sum(stretch.size for one in every for stretch in one.plan.stretches)
        self._expected_s = makespan([one.plan.seconds.expected for one in every], workers)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(min(workers, len(every)))]

    def run(self) -> Iterator[Answer]:
        """The answers, in the order in which they come."""
        left = len(self._todo)
        for thread in self._threads:
            thread.start()
        try:
            while left:
                try:
                    came = self._came.get(timeout=_WAKE_S)
                except queue.Empty:
                    if not any(thread.is_alive() for thread in self._threads) and self._came.empty():
                        return  # it was interrupted, and the others were not begun
                    continue
                except KeyboardInterrupt:
                    self._slots.stop.set()
                    continue
                if isinstance(came, BaseException):
                    raise came
                left -= 1
                yield came
        finally:
            self._slots.stop.set()
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while not self._slots.stop.is_set():
            with self._lock:
                if not self._todo:
                    return
                one = self._todo.pop(0)
            try:
                self._came.put(answering.carry_out(one, self._shower(id(one)), self._slots))
            except BaseException as problem:  # noqa: BLE001 (it is raised where the answers are waited for)
                self._came.put(problem)
                return

    def _shower(self, key: int) -> Show | None:
        show = self._show
        if show is None:
            return None

        def together(shown: Shown) -> None:
            with self._lock:
                self._shown[key] = shown
                every = list(self._shown.values())
                show(Shown(
                    sum(one.iterations for one in every), self._of, sum(one.workers for one in every),
                    max(one.elapsed_s for one in every), self._expected_s,
                ))  # fmt: skip

        return together
