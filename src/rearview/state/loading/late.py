"""Iterators of loaders that were made before anybody watched, and from which nothing was taken yet: their order is still to be drawn.

`data_iter = iter(loader)` stands before the loop in many programs. Such an iterator is found through the collector and given a note
now, if it loads in the main process and draws from the global streams: then nothing that matters was drawn at its birth.
"""

from __future__ import annotations

import gc
import inspect
import sys
from types import GeneratorType
from typing import Any

from rearview.state.loading import watched
from rearview.state.loading.notes import Note


def adopt() -> int:
    """Let iterators that have not begun keep a note; how many there were. Looks at every object of the process once."""
    module: Any = sys.modules.get("torch.utils.data.dataloader")
    single = getattr(module, "_SingleProcessDataLoaderIter", None)
    if single is None:
        return 0
    every = [thing for thing in gc.get_referrers(single) if type(thing) is single]  # an object refers to its class: several times as quick
    fresh = [thing for thing in every if thing._num_yielded == 0 and thing._dataset_kind == 0]
    if not fresh:
        return 0
    loaders = [thing for thing in gc.get_objects() if issubclass(type(thing), module.DataLoader)]
    adopted = 0
    for iterator in fresh:
        loader = next((one for one in loaders if one._index_sampler is iterator._index_sampler), None)
        if loader is None or loader.generator is not None or not _is_to_come(iterator):
            continue
        note = Note(loader)
        note.born(loader, created=True)
        watched.adopt(iterator, note)
        note.made = {}  # the seed for workers was drawn before: the order is drawn from what the streams are at the first item
        adopted += 1
    return adopted


def _is_to_come(iterator: Any) -> bool:
    """Whether nothing was drawn for the order yet."""
    order = iterator._sampler_iter
    return isinstance(order, GeneratorType) and inspect.getgeneratorstate(order) == inspect.GEN_CREATED
