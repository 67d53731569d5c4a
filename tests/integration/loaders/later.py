"""Positions of a loader that was put back and went on, against those of one that was left alone: a replay proves itself by them.

Prints after how many batches it was put back, where all later ones are told alike.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils.data import DataLoader

from rearview.state import loaders, positions
from tests.integration.loaders.program import _otherwise

BATCHES = 8


def loader(options: dict[str, Any]) -> Any:
    """One whose order is drawn from a generator of its own; its workers have the last task before it is at its end."""
    return DataLoader(torch.arange(40.0), batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(5), **options)  # type: ignore[arg-type]


def compare(options: dict[str, Any]) -> None:
    """Take every position, and go on from some of them."""
    first = loader(options)
    birth, kept = positions.begin(first), {}
    items = iter(first)
    for count in range(1, BATCHES + 1):
        next(items)
        kept[count] = copy.deepcopy(positions.take(items, birth, count)), first.generator.get_state()
    for at in (2, 4, 5, 7):
        again = loader(options)
        position, drawn = copy.deepcopy(kept[at][0]), kept[at][1]
        items, birth = positions.put_back(again, position), positions.born_as(again, position)
        again.generator.set_state(drawn)
        otherwise = []
        for count in range(at + 1, BATCHES + 1):
            next(items)
            otherwise += _otherwise(positions.take(items, birth, count), kept[count][0])
        print(at, *otherwise)


loaders.watch()
for some in ({}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}):
    compare(some)
loaders.unwatch()
