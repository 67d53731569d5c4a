"""An iterator of a loader, rebuilt at a recorded position.

The epoch's order is drawn again from the streams and samplers as they were when it began, without loading the batches that
were yielded; tasks that were under way are given to the workers that had them; workers start from the streams that their
last yielded batches brought along. Readers of streams (IterableDataset) have no order to draw: their first batches are read again.
Leaves the global streams as it found them; whoever restores a state puts those back last.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

from rearview.state import streams
from rearview.state.iterating import generators
from rearview.state.loading import holdings, watched
from rearview.state.loading.notes import NOTE, Note, Position, of, of_reader, samplers
from rearview.state.loading.plain import digest, storable
from rearview.state.loading.standin import StandIn, carrying
from rearview.state.loading.worker import Start


def put_back(loader: Any, position: Position, live: Any = None) -> Any:
    """The iterator, in place if there is a live one."""
    note = of(live)
    if note is not None and note.put_back == position:
        return live  # somebody else holds it and has put it back just now
    outside = streams.take()
    try:
        _compare(loader, position)
        return _Rebuilding(loader, position).run(live)
    finally:
        streams.put_back(outside)


def _compare(loader: Any, position: Position) -> None:
    if loader.num_workers != position["workers"]:
        position["inexact"].append(
            f"the loader has {loader.num_workers} workers, the recorded one had {position['workers']}: what they drew cannot be repeated"
        )
    if bool(loader._dataset_kind) != position["iterable"]:
        position["inexact"].append("the loader's dataset is of another kind (iterable or by index) than the recorded one")


class _Rebuilding:
    """One iterator on its way back."""

    def __init__(self, loader: Any, position: Position) -> None:
        self.loader = loader
        self.position = position
        self.stop = (loader.dataset,)
        self.same = loader.num_workers == position["workers"]
        """The recorded workers are the workers of this loader."""
        self.note = Note(loader)
        self.note.streams = position["streams"]
        self.note.first = position["first"]
        self.note.created = position["created"]

    def run(self, live: Any) -> Any:
        iterable = bool(self.loader._dataset_kind) and not self.position["finished"]
        if self.loader.num_workers:
            iterator = self.workers_again(live) if iterable else self.workers(live)
        else:
            iterator = self.single_again(live) if iterable else self.single(live)
        self.note.put_back = self.position
        return iterator

    # In the main process

    def single(self, live: Any) -> Any:
        iterator = self.make(live, None)
        drawn: int = self.position["drawn"] if "drawn" in self.position else self.position["yielded"]
        if self.position["ended"] or self.position["finished"]:
            iterator._sampler_iter = iter(())
        else:
            rest = self.order()
            last = self.skip(rest, drawn)
            self.check([(self.position.get("last"), last)])
            self.settle()
            iterator._sampler_iter = rest
        self.note.drawn = drawn
        self.note.made = self.position["first"] or {}
        return self.place(iterator)

    def single_again(self, live: Any) -> Any:
        """The dataset is the program's own, restored by now: what reading changes in it is as it was when the epoch began, and then again
        as it is."""
        held, before = of_reader(self.loader), self.position.get("dataset", {})
        holdings.put_back(self.loader.dataset, before)
        try:
            return self.read_again(live)
        finally:
            holdings.put_back(self.loader.dataset, held)
            self.note.dataset = {**held, **before}

    def read_again(self, live: Any) -> Any:
        """Step into the reader where it was, if it tells all of that; else read from the beginning what was read."""
        reader = self.position.get("reader")
        if reader is not None and generators.can_step_in(reader):
            self.begin()
            iterator = self.make(live, None, order=self.loader._index_sampler)
            if generators.step_in(iterator._dataset_fetcher.dataset_iter, reader):
                self.settle()
                self.note.drawn = self.position["drawn"]
                iterator._dataset_fetcher.ended = reader["finished"]
                return self.place(iterator)
            live = iterator
        self.begin()
        iterator = self.make(live, None, order=self.loader._index_sampler)
        if self.position["first"]:
            streams.put_back(self.position["first"])
        setattr(iterator, NOTE, self.note)
        self.note.made = streams.take()
        before = streams.take()
        self.read(iterator)
        after = streams.take()
        for name in streams.moved(before, after):
            if digest(after[name]) != self.position.get("after", {}).get(name):
                self.position["inexact"].append(
                    f"the dataset draws from the random stream of {name}, and so does other code: what it read may not be the same again"
                )
        self.note.first = self.position["first"]
        return iterator

    # In workers

    def workers(self, live: Any) -> Any:
        position, note = self.position, self.note
        iterator = self.make(live, self.start("states"))
        tasks = [tuple(task) for task in position.get("tasks", ())]
        received: int = position["received"] if "received" in position else position["yielded"]
        rest: Iterator[Any] = iter(())
        ended = position["ended"] or position["finished"]
        if not ended or any(index is None for _, _, index in tasks):
            rest = self.order()
            self.skip(rest, received)
            pairs = [(task, self.skip(rest, 1)) for task in tasks]
            self.check([(index, again) for (_, _, index), again in pairs])
            tasks = [(worker, number, again if index is None else index) for (worker, number, index), again in pairs]
            self.settle()
            if ended:
                rest = iter(())  # asking it for more would draw once more
        count = self.loader.num_workers
        onwards = position.get("next", received) % count
        owners = [worker for worker, _, _ in tasks] if self.same else []
        iterator._sampler_iter = itertools.chain([index for _, _, index in tasks], rest)
        iterator._worker_queue_idx_cycle = itertools.chain(owners, range(onwards, count), itertools.cycle(range(count)))
        iterator._send_idx = iterator._rcvd_idx = received
        self.place(iterator)
        _send_tasks(iterator)
        self.forget({number for _, number, index in position.get("tasks", ()) if index is None})
        if position.get("closed"):
            iterator._shutdown_workers()
        note.ended = position["ended"]
        return iterator

    def workers_again(self, live: Any) -> Any:
        """Let each worker read from the beginning of the epoch what it had read."""
        position, note = self.position, self.note
        start = self.start("began")
        if position["created"]:
            self.begin()
            iterator = self.make(live, start, order=self.loader._index_sampler)
            setattr(iterator, NOTE, note)
        else:
            iterator = self.make(live, start)
            self.begin()
            setattr(iterator, NOTE, note)
            iterator._index_sampler = self.loader._index_sampler
            iterator._reset(self.loader)  # the workers make their iterators anew, from the streams they were given
            note.created, note.streams = False, position["streams"]
        self.read(iterator)
        recorded = [(dict(state), dict(values)) for state, values in position.get("states", ())]
        if self.note.workers != recorded:
            position["inexact"].append("the workers read a stream of items, and reading its beginning again did not lead to the same state")
        return iterator

    # Parts of it

    def make(self, live: Any, start: Start | None, order: Any = None) -> Any:
        """An iterator, without tasks if no order is given. Creating it draws from the global streams, which are put back at the end."""
        if live is not None:
            if hasattr(live, "_shutdown_workers"):
                live._shutdown_workers()
            live.__dict__.clear()
        workers = self.loader.num_workers
        kind = watched.classes()[1 if workers else 0]
        iterator = kind.__new__(kind) if live is None else live
        iterator.__class__ = kind
        otherwise: dict[str, Any] = {"_index_sampler": (), "generator": None} if order is None else {}
        if workers:
            otherwise["multiprocessing_context"] = carrying(self.loader, start)
        iterator.__init__(StandIn(self.loader, **otherwise))
        return iterator

    def start(self, which: str) -> Start | None:
        position, note = self.position, self.note
        if not self.same:
            return None
        states = [(dict(state), dict(values)) for state, values in position[which]]
        note.workers = [(dict(state), dict(values)) for state, values in states]
        note.began = [(dict(state), dict(values)) for state, values in position.get("began", ())]
        note.dataset = {**holdings.glance(self.loader.dataset), **position["dataset"]}
        return Start(position["base_seed"], position["dataset"], states)

    def begin(self) -> None:
        """Streams and samplers as they were when the epoch began."""
        streams.put_back(self.position["streams"])
        missing = holdings.put_back(samplers(self.loader), self.position["samplers"][0], self.stop)
        if missing:
            self.position["inexact"].append(f"the loader's sampler has no {', '.join(missing)} any more")
        self.note.samplers = holdings.take(samplers(self.loader), self.stop)

    def order(self) -> Iterator[Any]:
        """The epoch's order from its beginning, drawn the way torch drew it."""
        self.begin()
        torch: Any = sys.modules["torch"]
        order: Iterator[Any] = iter(self.loader._index_sampler)
        if self.position["created"]:
            torch.empty((), dtype=torch.int64).random_(generator=self.loader.generator)
            if self.position["workers"]:
                order = iter(self.loader._index_sampler)
        if self.position["first"]:
            streams.put_back(self.position["first"])
        return order

    def skip(self, order: Iterator[Any], count: int) -> Any:
        """Draw and throw away; the last one."""
        last = None
        for done in range(count):
            try:
                last = next(order)
            except StopIteration:
                self.position["inexact"].append(f"the loader's sampler ends after {done} more steps, before the position that was recorded")
                break
        return last

    def check(self, again: list[tuple[Any, Any]]) -> None:
        """Whether the order drawn again is the recorded one, as far as it was recorded."""
        if any(index is not None and list(_flat(index)) != list(_flat(storable(drawn))) for index, drawn in again):
            self.position["inexact"].append(
                "the loader's sampler draws while other code draws from the same random stream: its order could not be drawn again"
            )

    def settle(self) -> None:
        """The samplers as they were at the position; they were drawn from up to there."""
        holdings.put_back(samplers(self.loader), self.position["samplers"][1], self.stop)

    def place(self, iterator: Any) -> Any:
        if not self.note.samplers:  # the order was not drawn again: nothing of it is left
            self.note.samplers = {**holdings.take(samplers(self.loader), self.stop), **self.position["samplers"][0]}
        setattr(iterator, NOTE, self.note)
        iterator._index_sampler = self.loader._index_sampler
        iterator._base_seed = self.position["base_seed"]
        iterator._num_yielded = self.position["yielded"]
        self.note.ended = self.position["ended"]
        self.note.finished = self.position["finished"]
        if self.position.get("last") is not None:  # what it is told by, until it goes on
            self.note.sent.append((self.position["drawn"] - 1, self.position["last"]))
        return iterator

    def forget(self, tasks: set[int]) -> None:
        """Nobody had seen what the sampler yielded for them: a position is told as it was, or it would be called another one."""
        known = [one for one in self.note.sent if one[0] not in tasks]
        self.note.sent.clear()
        self.note.sent.extend(known)

    def read(self, iterator: Any) -> None:
        for done in range(self.position["yielded"]):
            try:
                next(iterator)
            except StopIteration:
                self.position["inexact"].append(f"the dataset ended after {done} batches, before the position that was recorded")
                break
        iterator._base_seed = self.position["base_seed"]
        self.settle()


def _send_tasks(iterator: Any) -> None:
    for _ in range(iterator._prefetch_factor * iterator._num_workers):
        before = iterator._send_idx
        iterator._try_put_index()
        if iterator._send_idx == before:
            break


def _flat(index: Any) -> Iterator[Any]:
    """Indices that are equal but of other types (a tuple that came back as a list)."""
    if isinstance(index, (list, tuple)):
        for item in index:
            yield from _flat(item)
    else:
        yield index
