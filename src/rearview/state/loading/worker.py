"""Inside a worker process of a loader: its random streams travel with its batches, and a resumed worker starts from them.

`Loop` stands where the loader's worker function stood; it changes nothing of what that function does. After a batch it adds the
streams that moved since the last one, as bytes, and what changed in the worker's copy of the dataset. A resumed worker is seeded
and runs the program's `worker_init_fn` like any other; only then, before its first batch, does it take up the state it is given.
Knows torch's worker function by the names of its arguments. Everything here can be pickled: workers may be spawned.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from rearview.state import streams
from rearview.state.loading import holdings
from rearview.state.loading.copies import Copy
from rearview.state.loading.holdings import Values

CARRIED = "_rearview_carried"
"""Attribute of an exception on its way to the main process: what it carries."""


class Moved:
    """What a worker's state became with a batch, as far as it changed."""

    __slots__ = ("lost", "streams", "values", "worker")

    def __init__(self, worker: int, streams: streams.Streams, values: Values, lost: list[str]) -> None:
        self.worker = worker
        self.streams = streams
        self.values = values
        self.lost = lost

    def __reduce__(self) -> tuple[Any, ...]:
        return Moved, (self.worker, self.streams, self.values, self.lost)


class Carried:
    """A batch and what moved while it was made. Never seen by the program."""

    __slots__ = ("data", "moved")

    def __init__(self, data: Any, moved: Moved) -> None:
        self.data = data
        self.moved = moved

    def __reduce__(self) -> tuple[Any, ...]:
        return Carried, (self.data, self.moved)

    def pin_memory(self) -> Carried:
        """The loader's pinning thread meets this object before the program would: pin what it holds."""
        pinning = sys.modules["torch.utils.data._utils.pin_memory"]
        return Carried(pinning.pin_memory(self.data), self.moved)


class Start:
    """What a resumed worker takes up."""

    def __init__(self, base_seed: int, dataset: Values, workers: list[tuple[streams.Streams, Values]]) -> None:
        self.base_seed = base_seed
        self.dataset = dataset
        """What was otherwise in the main process's dataset when the workers were first started."""
        self.workers = workers


class Loop:
    """The function of a worker process, with streams that travel."""

    def __init__(self, function: Callable[..., None], start: Start | None) -> None:
        self.function = function
        self.start = start

    def __call__(self, *args: Any) -> None:
        """Run a worker."""
        bound = inspect.signature(self.function).bind(*args).arguments
        worker = bound["worker_id"]
        state: tuple[streams.Streams, Values] = ({}, {})
        if self.start is not None:
            bound["base_seed"] = self.start.base_seed
            holdings.put_back(bound["dataset"], self.start.dataset)
            state = self.start.workers[worker]
        journey = _Journey(worker, bound["dataset"], *state)
        bound["index_queue"] = _Incoming(bound["index_queue"], journey)
        bound["data_queue"] = _Outgoing(bound["data_queue"], journey)
        self.function(*bound.values())


class _Journey:
    """What is known of a worker's state between two batches."""

    def __init__(self, worker: int, dataset: object, begin: streams.Streams, values: Values) -> None:
        self.worker = worker
        self._dataset = dataset
        self._begin = begin
        self._values = values
        self._copy: Copy | None = None
        self._last: streams.Streams = {}
        """Empty at first: the first batch carries everything, for an initialisation that drew its seed from the clock."""
        self._trouble: list[str] = []

    def set_out(self) -> None:
        """After the program's own initialisation, before the first batch."""
        try:
            self._trouble += holdings.put_back(self._dataset, self._values)
            self._copy = Copy(self._dataset)
            if self._begin:
                self._trouble += streams.put_back(self._begin)
                self._last = streams.take()
        except Exception as problem:  # noqa: BLE001 (objects of the program may raise anything; its batches must come all the same)
            self._trouble.append(f"{type(problem).__name__}: {problem}")

    def moved(self) -> Moved | None:
        """What changed since the last batch."""
        values: Values = {}
        lost, self._trouble = self._trouble, []
        now = streams.take()
        last, self._last = self._last, now
        different = {name: state for name, state in now.items() if last.get(name) != state}
        if self._copy is not None:
            try:
                values, more = self._copy.changed()
                lost += more
            except Exception as problem:  # noqa: BLE001 (as above: comparing may run code of the program)
                self._copy = None
                lost.append(f"{type(problem).__name__}: {problem}")
        return Moved(self.worker, different, values, lost) if different or values or lost else None


class _Incoming:
    """The queue of tasks. The first look into it is the moment between initialisation and the first batch."""

    def __init__(self, queue: Any, journey: _Journey) -> None:
        self._queue = queue
        self._journey = journey

    def get(self, *args: Any, **options: Any) -> Any:
        self._journey.set_out()
        self.get = self._queue.get  # type: ignore[method-assign]  # from now on straight to the queue
        return self._queue.get(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


class _Outgoing:
    """The queue of batches."""

    def __init__(self, queue: Any, journey: _Journey) -> None:
        self._queue = queue
        self._journey = journey
        worker = sys.modules["torch.utils.data._utils.worker"]
        self._plain = (worker._ResumeIteration, worker._IterableDatasetStopIteration)
        self._failure = worker.ExceptionWrapper

    def put(self, item: tuple[Any, Any]) -> None:
        index, data = item
        if not isinstance(index, self._plain) and not isinstance(data, self._plain):
            moved = self._journey.moved()
            if moved is not None:
                if isinstance(data, self._failure):
                    setattr(data, CARRIED, moved)
                else:
                    item = (index, Carried(data, moved))
        self._queue.put(item)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)
