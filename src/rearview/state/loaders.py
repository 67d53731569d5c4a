"""Watching torch's loaders: every iterator that is made from now on keeps a note of its birth and of its workers' streams.

`watch` puts one function in place of `DataLoader._get_iterator`, `unwatch` puts the original back; iterators made in between stay
what they are. Nothing of the loader is changed: while torch makes the iterator it looks at a stand-in, which answers for the
loader in everything but the way its processes are started. Imports no framework: it acts when the program has loaded torch.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from rearview.state.loading import notes, rebuild, watched
from rearview.state.loading.notes import Note, Position
from rearview.state.loading.standin import StandIn, carrying

_ORIGINAL = "_rearview_original"


def watch() -> bool:
    """Begin to watch, once; False if the program has not loaded torch's loaders (call it again later: it is cheap)."""
    module = sys.modules.get("torch.utils.data.dataloader")
    loader = getattr(module, "DataLoader", None)
    if loader is None or not hasattr(module, "_MultiProcessingDataLoaderIter"):
        return False
    if not hasattr(loader._get_iterator, _ORIGINAL):
        loader._get_iterator = _watching(loader._get_iterator)
    return True


def unwatch() -> None:
    """Make iterators as torch does again."""
    loader = getattr(sys.modules.get("torch.utils.data.dataloader"), "DataLoader", None)
    original = getattr(getattr(loader, "_get_iterator", None), _ORIGINAL, None)
    if original is not None:
        loader._get_iterator = original  # type: ignore[union-attr]


def watching() -> bool:
    """Whether iterators are being watched."""
    loader = getattr(sys.modules.get("torch.utils.data.dataloader"), "DataLoader", None)
    return hasattr(getattr(loader, "_get_iterator", None), _ORIGINAL)


def _watching(original: Any) -> Any:
    @functools.wraps(original)
    def _get_iterator(self: Any) -> Any:
        note = Note(self)
        try:
            note.born(self, created=True)
        except Exception:  # noqa: BLE001 (attributes of the program's objects; its loop must begin all the same)
            return original(self)
        iterator = original(StandIn(self, multiprocessing_context=carrying(self)) if self.num_workers > 0 else self)
        watched.adopt(iterator, note)
        return iterator

    setattr(_get_iterator, _ORIGINAL, original)
    return _get_iterator


def is_loader(thing: object) -> bool:
    """Whether this is a loader of torch that makes its iterators the usual way."""
    loader = getattr(sys.modules.get("torch.utils.data.dataloader"), "DataLoader", None)
    if loader is None or not isinstance(thing, loader):
        return False
    kind = type(thing)
    return kind.__iter__ is loader.__iter__ and kind._get_iterator is loader._get_iterator


def is_iterator(thing: object) -> bool:
    """Whether this is an iterator of a torch loader, watched or not."""
    base = getattr(sys.modules.get("torch.utils.data.dataloader"), "_BaseDataLoaderIter", None)
    return base is not None and isinstance(thing, base)


def is_iterator_type(kind: type) -> bool:
    """Whether objects of a type are iterators of torch loaders."""
    base = getattr(sys.modules.get("torch.utils.data.dataloader"), "_BaseDataLoaderIter", None)
    return base is not None and issubclass(kind, base)


def loader_of(iterator: Any) -> Any:
    """The loader of a watched iterator, if it is still there."""
    note = notes.of(iterator)
    return None if note is None else note.loader()


def take_live(iterator: Any) -> Position:
    """Where an iterator of a loader is, as plain data; `inexact` says what keeps it from being put back exactly."""
    note = notes.of(iterator)
    if note is not None:
        return notes.position(iterator, note)
    return {
        "kind": "unwatched",
        "yielded": getattr(iterator, "_num_yielded", 0),
        "inexact": ["a loader's iterator was made before checkpointing began, so its order cannot be drawn again: make it inside"],
    }


def put_back_live(iterator: Any, position: Position, loader: Any = None) -> Any:
    """Bring a live iterator to a position, in place: whoever holds it goes on from there. Its old workers are ended.

    Draws what it needs and leaves the global streams as it found them. With `loader` alone (no live iterator) a new one is made.
    """
    if position["kind"] != "loader":
        return iterator
    note = notes.of(iterator)
    loader = loader if loader is not None else note.loader() if note is not None else None
    if loader is None:
        position["inexact"].append("the loader of an iterator is gone, so the iterator was left where it is")
        return iterator
    return rebuild.put_back(loader, position, iterator)


def put_back(loader: Any, position: Position) -> Any:
    """An iterator of a loader that yields what was to come next at a position."""
    live = loader._iterator if position["persistent"] else None
    iterator = rebuild.put_back(loader, position, live)
    if loader.persistent_workers and loader.num_workers:
        loader._iterator = iterator
    return iterator
