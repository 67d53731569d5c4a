"""A run that was killed: up to which record it surely came. What is after that is not known to have happened, and is not replayed.

`find` looks at the record; in a worker, `UntilRecorder` ends the process at that record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rearview.model import MAIN_PROCESS
from rearview.plan.timeline import IN_ITERATION, INSIDE, OUTSIDE, History
from rearview.record import loops
from rearview.record.checkpoints import boundaries
from rearview.replay.journals import logged
from rearview.replay.journals.logged import Block, Logged
from rearview.replay.worker.replayer import ReplayRecorder
from rearview.store import manifests
from rearview.store.layout import Store

UNTIL = "until"
"""Why a unit is done: it came to the last record."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The last record of a run that was killed."""

    until: dict[str, Any]
    """`path` of [loop, occurrence, iteration], `name`, `ordinal`: as a unit has it."""
    inside: frozenset[str]
    """Manifests in the iteration that was cut short: what is in it is run, up to the record. Not those inside its nested loop that are
    from before the record."""


def find(store: Store, history: History, run: Any, mains: Mapping[int, str]) -> tuple[History, Cut | None]:
    """A history that says where the run was cut, and the record up to which it is known; None: nothing is known there."""
    if not history.killed:
        return history, None
    records = [one for one in logged.recorded(store.run(run)).records.values() if one.process == MAIN_PROCESS]
    number = len(history.blocks) - 1
    place = mains.get(number)
    inside = [one for one in records if place is not None and _iteration_in(one.block, one.iteration, place) is not None]
    if history.is_cut(number):
        at = history.blocks[number].iterations - 1
        here = [one for one in inside if _iteration_in(one.block, one.iteration, str(place)) == at]
        where = IN_ITERATION
    else:
        behind = max((one.position for one in inside), default=-1)
        here = [one for one in records if one.position > behind and not _is_inside(one, mains)]
        where, at = OUTSIDE, -1
    if not here:
        return history, None
    last = max(here, key=lambda one: one.position)
    names = _manifests_in(store, run, str(place), at, last) if where == IN_ITERATION else frozenset[str]()
    path = [[block.loop, block.occurrence, iteration] for block, iteration in last.block.around(last.iteration)][::-1]
    return replace(history, cut=where), Cut({"path": path, "name": last.name, "ordinal": last.ordinal}, names)


def _is_inside(record: Logged, mains: Mapping[int, str]) -> bool:
    places = set(mains.values())
    return any(block.place in places for block, _ in record.block.around(record.iteration))


def _iteration_in(block: Block, iteration: int, place: str) -> int | None:
    """Of which iteration of the loop at a place something is part."""
    return next((at for one, at in block.around(iteration) if one.place == place), None)


def _manifests_in(store: Store, run: Any, place: str, iteration: int, last: Logged) -> frozenset[str]:
    every = [one for group in manifests.grouped(store, run) for one in group.members if one.process == MAIN_PROCESS]
    late = [one for one in every if one.part != INSIDE or (one.attempt, one.taken_at) >= logged.moment(last)]
    paths = ((one.name, one.path[: int(one.stats.get("outside", 0)) + 1]) for one in late)
    return frozenset(str(name) for name, path in paths if path and logged.place_of(path) == place and path[-1][2] == iteration)


class UntilRecorder(ReplayRecorder):
    """Ends the process when it has logged the last record that the run is known to have logged."""

    def log(self, name: str, value: object, volatile: bool) -> None:
        """Keep one record, the last one for the last time."""
        super().log(name, value, volatile)
        until = self.unit.until
        if until is None or name != until["name"] or self.reaching or self.probing:
            return
        node = loops.here(self, self.root)
        path = [[one.name, one.occurrence, one.iteration] for one in boundaries.chain(node)[1:]]
        if path == until["path"] and node.counts.get(name, 0) == until["ordinal"] + 1:
            self._stop(UNTIL)
