"""Iterators of torch's loaders that keep a note of themselves.

Subclasses of torch's two iterator classes, made when torch is there; an iterator becomes one after torch has made it, so that its
creation is torch's own. They behave as their bases do: the batch is taken out of what the worker wrapped around it before the
program sees it. No iterator refers to itself, or its workers would not end the moment it is dropped.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from rearview.state import streams
from rearview.state.loading.notes import NOTE, Note, of
from rearview.state.loading.worker import CARRIED, Carried


class _Ending:
    """Both kinds."""

    def _next_data(self) -> Any:
        try:
            return super()._next_data()  # type: ignore[misc]
        except StopIteration:
            note = of(self)
            if note is not None:
                note.finished = True
            raise


class _Single(_Ending):
    """Loads in the main process: its batches are drawn when they are asked for."""

    def _next_index(self) -> Any:
        note = of(self)
        if note is None:
            return super()._next_index()  # type: ignore[misc]
        if not note.drawn:
            now = streams.take()
            if now != note.made:
                note.first = now
        note.put_back = None
        try:
            index = super()._next_index()  # type: ignore[misc]
        except StopIteration:
            note.ended = True
            raise
        note.sent.append((note.drawn, index))
        note.drawn += 1
        return index


class _Multi(_Ending):
    """Loads in worker processes."""

    def _next_index(self) -> Any:
        note = of(self)
        try:
            index = super()._next_index()  # type: ignore[misc]
        except StopIteration:
            if note is not None:
                note.ended = True
            raise
        if note is not None:
            note.sent.append((self._send_idx, index))  # type: ignore[attr-defined]
        return index

    def _process_data(self, data: Any, *rest: Any) -> Any:
        note = of(self)
        if type(data) is Carried:
            if note is not None:
                note.arrived(data.moved)
            data = data.data
        elif note is not None:
            _from_failure(note, data)
        if note is not None:
            note.put_back = None
        return super()._process_data(data, *rest)  # type: ignore[misc]

    def _try_get_data(self, *args: Any, **options: Any) -> Any:
        got = super()._try_get_data(*args, **options)  # type: ignore[misc]
        note = of(self)
        if note is not None and note.draining and got[0]:
            _absorb(note, got[1][1])
        return got

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begin another epoch with the same workers. What they made ahead is thrown away, but they did make it."""
        note = of(self)
        if note is None or first_iter:
            super()._reset(loader, first_iter)  # type: ignore[misc]
            return
        for _, task in sorted(self._task_info.items()):  # type: ignore[attr-defined]
            if len(task) == 2:
                _absorb(note, task[1])
        note.born(loader, created=False)
        note.draining = True
        try:
            super()._reset(loader, first_iter)  # type: ignore[misc]
        finally:
            note.draining = False
        note.begun()


def _absorb(note: Note, data: Any) -> None:
    if type(data) is Carried:
        note.arrived(data.moved)
    else:
        _from_failure(note, data)


def _from_failure(note: Note, data: Any) -> None:
    moved = getattr(data, "__dict__", {}).get(CARRIED) if type(data).__name__ == "ExceptionWrapper" else None
    if moved is not None:
        note.arrived(moved)


@functools.cache
def classes() -> tuple[Any, Any]:
    """(single process, worker processes): torch's iterator classes with notes."""
    module: Any = sys.modules["torch.utils.data.dataloader"]
    return (
        _subclass(_Single, module._SingleProcessDataLoaderIter),
        _subclass(_Multi, module._MultiProcessingDataLoaderIter),
    )


def _subclass(mixin: type, base: Any) -> Any:
    # The name of torch's class: it shows in profiles and messages.
    return type(base.__name__, (mixin, base), {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__})


def adopt(iterator: Any, note: Note) -> None:
    """Let an iterator that torch just made keep a note."""
    single, multi = classes()
    for watched in (single, multi):
        if type(iterator) is watched.__bases__[1]:
            iterator.__class__ = watched
    if isinstance(iterator, (single, multi)):
        setattr(iterator, NOTE, note)
        note.made = streams.take()
        note.begun()


def shell(loader: Any) -> Any:
    """An iterator of a loader that is nowhere yet; it has no workers."""
    if loader is None:
        return None
    kind = classes()[1 if loader.num_workers else 0]
    made = kind.__new__(kind)
    made._shutdown = True
    return made
