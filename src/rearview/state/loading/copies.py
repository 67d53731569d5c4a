"""What a worker process changed in its own copy of the dataset. Runs inside the worker, after every batch: bounded and quick.

Generators, numbers and texts, and very small lists and arrays can be carried to a later process; a larger container that grew or
shrank, or a tensor that was written to, can only be named. Knows no queue and no loader.
"""

from __future__ import annotations

import itertools
from typing import Any

from rearview.state import streams
from rearview.state.loading.holdings import SCALARS, Place, Values, copied, places

MAX_WATCHED = 100
"""Places looked at after every batch, those nearest to the dataset first."""
SMALL_ITEMS = 16
SMALL_BYTES = 1024

_GONE = object()


class Copy:
    """The dataset of a worker, as it was when last looked at."""

    def __init__(self, dataset: object) -> None:
        self._dataset = dataset
        self._places: list[Place] = []
        self._last: list[Any] = []
        self._walk()

    def _walk(self) -> None:
        self._places = list(itertools.islice(places(self._dataset), MAX_WATCHED))
        self._last = [_look(place) for place in self._places]

    def changed(self) -> tuple[Values, list[str]]:
        """(values that can be carried, names of what cannot) that are not as they were at the last look."""
        carried: Values = {}
        lost: list[str] = []
        grown = False
        for number, place in enumerate(self._places):
            last, now = self._last[number], _look(place)
            if now is last or now == last:
                continue
            self._last[number] = now
            if place.kind == "object":
                grown = True
            else:
                _sort_out(place, now, carried, lost)
        if grown:
            self._meet_new(carried)
        return carried, lost

    def _meet_new(self, carried: Values) -> None:
        """Attributes that came or went. New objects are let be: a file opened at the first use is no state."""
        known = {place.name for place in self._places}
        self._walk()
        for place in self._places:
            if place.name not in known and place.kind == "scalar":
                carried[place.name] = copied(place)


def _look(place: Place) -> Any:
    thing, kind = place.holder, place.kind
    if kind == "scalar":
        try:
            return thing[place.key]
        except (KeyError, AttributeError, ValueError):
            return _GONE
    if kind == "generator":
        return streams.generator_state(thing)
    if kind == "list" and len(thing) <= SMALL_ITEMS:
        return [item if type(item) in SCALARS else id(item) for item in thing]
    if kind == "array":
        return thing.tobytes() if thing.nbytes <= SMALL_BYTES else None
    return thing._version if kind == "tensor" else len(thing)


def _sort_out(place: Place, now: Any, carried: Values, lost: list[str]) -> None:
    if now is _GONE:
        return  # its object has one attribute less: what is there now is looked up again
    plain = type(now) in SCALARS or hasattr(now, "dtype") if place.kind == "scalar" else True
    small = place.kind in ("scalar", "generator", "array") or (place.kind == "list" and isinstance(now, list))
    value = copied(place) if plain and small else None
    if value is None:
        lost.append(place.name)
    else:
        carried[place.name] = value
