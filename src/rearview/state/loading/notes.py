"""What is known of a loader's iterator: how it was born, what its workers' streams have become, and its position as plain data.

A note is made when an iterator is created and renewed when persistent workers begin another epoch. It holds the random streams
as they were before anything was drawn for the epoch's order, what the samplers held then, and for every worker the state after
its last batch that the program has seen: what lies beyond (batches made ahead) is made again. Knows torch's iterators by their
attributes; starts no process.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from rearview.state import streams
from rearview.state.iterating import generators
from rearview.state.loading import holdings
from rearview.state.loading.holdings import Values
from rearview.state.loading.plain import digest, storable
from rearview.state.loading.worker import Moved

Position = dict[str, Any]

NOTE = "_rearview_note"
"""Attribute of an iterator that is watched."""
_READER_BYTES = 1 << 18
"""Of a list or an array that a dataset holds: larger ones are its data."""


class Note:
    """What is known of one iterator."""

    def __init__(self, loader: Any) -> None:
        self.loader: Callable[[], Any] = _reference(loader)
        self.streams: streams.Streams = {}
        """At the birth of this epoch."""
        self.made: streams.Streams = {}
        """Right after the iterator was made."""
        self.first: streams.Streams | None = None
        """When the first index was drawn, if somebody else drew in between."""
        self.created = True
        """Made anew, as against an epoch that persistent workers begin again: the two draw differently."""
        self.samplers: Values = {}
        self.dataset: Values = {}
        """What the main process's dataset held when the workers were started; of a stream that is read here: when its epoch began."""
        self.workers: list[tuple[streams.Streams, Values]] = [({}, {}) for _ in range(loader.num_workers)]
        """Each worker after its last batch that was yielded (or thrown away by a new epoch); empty for a worker as it starts."""
        self.began: list[tuple[streams.Streams, Values]] = []
        """The same when the epoch began."""
        self.lost: dict[str, None] = {}
        """What workers changed in their copies of the dataset and cannot be carried."""
        self.sent: deque[tuple[int, Any]] = deque(maxlen=max(1, loader.num_workers * (loader.prefetch_factor or 1)))
        """The last tasks, with what the sampler yielded for them."""
        self.drawn = 0
        self.ended = False
        """The sampler has no more."""
        self.finished = False
        """The iterator has said so."""
        self.draining = False
        self.put_back: Position | None = None
        """The position that this iterator was put back to, until it goes on."""
        self.inexact: list[str] = []

    def born(self, loader: Any, created: bool) -> None:
        """Before an epoch's order is drawn."""
        self.created = created
        self.first = self.put_back = None
        self.drawn = 0
        self.ended = self.finished = False
        self.sent.clear()
        self.samplers = holdings.take(samplers(loader), stop=(loader.dataset,))
        if created and loader.num_workers:
            self.dataset = holdings.glance(loader.dataset)
        elif loader._dataset_kind and not loader.num_workers:
            self.dataset = of_reader(loader)
        self.streams = streams.take()

    def arrived(self, moved: Moved) -> None:
        """A batch was yielded, or thrown away: this is what its worker's state had become."""
        state, values = self.workers[moved.worker]
        state.update(moved.streams)
        values.update(moved.values)
        self.lost.update(dict.fromkeys(moved.lost))

    def begun(self) -> None:
        """The workers stand at the beginning of an epoch."""
        self.began = [(dict(state), dict(values)) for state, values in self.workers]


def _reference(loader: Any) -> Callable[[], Any]:
    """A loader with persistent workers holds its iterator: holding it in turn would keep its workers from ending in time."""
    return weakref.ref(loader) if loader.persistent_workers else lambda: loader


def samplers(loader: Any) -> dict[str, Any]:
    """What draws the order of an epoch."""
    return {"sampler": loader._index_sampler, "generator": loader.generator}


def of_reader(loader: Any) -> Values:
    """What reading a dataset as a stream may change in it."""
    return holdings.take(loader.dataset, most=_READER_BYTES)


def of(iterator: object) -> Note | None:
    """The note of a watched iterator."""
    note = getattr(iterator, "__dict__", {}).get(NOTE)
    return note if isinstance(note, Note) else None


def position(iterator: Any, note: Note) -> Position:
    """Where a watched iterator is, as plain data."""
    loader = note.loader()
    workers = len(note.workers)
    iterable = bool(iterator._dataset_kind)
    taken: Position = {
        "kind": "loader",
        "workers": workers,
        "persistent": bool(iterator._persistent_workers),
        "iterable": iterable,
        "created": note.created,
        "base_seed": iterator._base_seed,
        "yielded": iterator._num_yielded,
        "ended": note.ended,
        "finished": note.finished,
        "streams": note.streams,
        "first": note.first,
        "inexact": [*note.inexact, *_trouble(iterator, note)],
    }
    before, now = ({}, {}) if loader is None else _samplers_changed(loader, note)
    taken["samplers"] = [before, now]
    if workers:
        taken.update(_workers(iterator, note, iterable))
        if loader is not None:
            changed, sizes = _dataset_changed(loader, note)
            taken["dataset"] = changed
            taken["inexact"] += [f"{_whose(loader)}{name} changed its length since the workers were started" for name in sizes]
    else:
        taken["drawn"] = note.drawn
        taken["last"] = storable(note.sent[-1][1]) if note.sent else None
        if iterable:
            reader = iterator._dataset_fetcher.dataset_iter
            taken["reader"] = generators.describe(reader) if generators.is_generator(reader) and note.drawn else None
            if loader is not None:
                taken["dataset"] = holdings.changes(note.dataset, of_reader(loader))[0]
            # to be compared when the same items have been read again
            taken["after"] = {name: digest(state) for name, state in streams.take().items()}
    return taken


def _workers(iterator: Any, note: Note, iterable: bool) -> Position:
    sent, tasks = dict(note.sent), sorted(iterator._task_info.items())
    last = tasks[-1][1][0] + 1 if tasks else iterator._send_idx
    taken: Position = {
        "states": [[dict(state), dict(values)] for state, values in note.workers],
        "received": iterator._rcvd_idx,
        "sent": iterator._send_idx,
        "tasks": [[task[0], number, storable(sent.get(number))] for number, task in tasks],
        "next": last % iterator._num_workers,
        "closed": bool(iterator._shutdown),
    }
    if iterable:
        taken["began"] = [[dict(state), dict(values)] for state, values in note.began]
    return taken


def _samplers_changed(loader: Any, note: Note) -> tuple[Values, Values]:
    now = holdings.take(samplers(loader), stop=(loader.dataset,))
    return holdings.changes(note.samplers, now)


def _dataset_changed(loader: Any, note: Note) -> tuple[Values, list[str]]:
    before, _ = holdings.changes(note.dataset, holdings.glance(loader.dataset))
    sizes = [name for name, value in before.items() if value[0] == "size"]
    return {name: value for name, value in before.items() if value[0] != "size"}, sizes


def _trouble(iterator: Any, note: Note) -> list[str]:
    said = [f"a worker changed {_whose(iterator)}{name} in its own copy of the dataset, which cannot be put back" for name in note.lost]
    if note.workers and not getattr(iterator, "_in_order", True):
        said.append("the loader yields batches in the order its workers finish them (in_order=False): that order is not repeatable")
    if type(iterator._dataset).__module__.startswith("torch.utils.data.datapipes") or iterator._shared_seed is not None:
        said.append("the loader reads a data pipe, whose inner state is not kept")
    if not isinstance(iterator._base_seed, int):
        said.append("the loader has no seed for its workers")
    return said


def _whose(holder: Any) -> str:
    dataset = getattr(holder, "dataset", None) or holder._dataset
    return type(dataset).__qualname__
