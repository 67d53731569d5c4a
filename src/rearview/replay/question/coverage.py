"""What of a question is left to run: what published replays answer already, and what somebody restricts it to (`--only`).

Knows places in a run's history. Must not know what statements are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rearview.errors import NotFound, UsageError
from rearview.plan.scans import Need, Range, ranges
from rearview.plan.timeline import History, MainBlock
from rearview.replay.question.query import DIGESTS, Question
from rearview.store import replays
from rearview.store.layout import Store

if TYPE_CHECKING:
    from rearview.catalog.paths import Element


def answered(store: Store, question: Question) -> dict[str, replays.Covers]:
    """Name -> what published replays of the same statements cover; those that diverged answer nothing."""
    found: dict[str, replays.Covers] = {name: [] for name in question.digests}
    for one in replays.list_of(store, question.run.run):
        digests = one.more.get(DIGESTS)
        if one.verdict == "divergent" or not isinstance(digests, dict):
            continue
        for name, digest in question.digests.items():
            if digests.get(name) == digest and one.verdict_of(name) != "divergent":
                found[name] = replays.merged([*found[name], *one.covers])
    return found


def left_over(need: Need, history: History, covers: Iterable[Sequence[Sequence[Any]]]) -> Need:
    """A need without what every one of some names has an answer for."""
    each = [replays.merged(one) for one in covers]
    if not each:
        return need
    places = [
        (block, k) for block in range(len(history.blocks)) for k in range(history.blocks[block].iterations)
        if all(_has(one, block, k) for one in each)
    ]  # fmt: skip
    return replace(
        need, answered=(*need.answered, *ranges(places)), prefix_answered=all(["prefix"] in one for one in each),
        end_answered=all(["end"] in one for one in each),
    )  # fmt: skip


def _has(covers: replays.Covers, block: int, iteration: int) -> bool:
    return any(one[0] == "iterations" and one[1] == block and one[2] <= iteration <= one[3] for one in covers)


# -- --only -----------------------------------------------------------------------------------------------------------------


def only(text: str, history: History) -> tuple[Range, ...]:
    """The iterations of main loops that somebody typed: `epoch=10..20`, `epoch[2]=3` in the second loop of its name, `fold=1/epoch=3..`."""
    from rearview.catalog.paths import parse

    wishes = parse(text)
    places, known = [], {}
    for number, block in enumerate(history.blocks):
        for iteration in range(block.iterations):
            path = path_of(block, iteration)
            known.update({element.counted: element for element in path})
            if all(any(wish.fits(element) for element in path) for wish in wishes):
                places.append((number, iteration))
    if not known:
        raise UsageError("--only goes by the iterations of main loops, and this run is known to have none: it kept no checkpoint")
    strange = [wish.loop for wish in wishes if not any(wish.means(element) for element in known.values())]
    if strange:
        names = [element.loop for element in known.values()]
        there = [element.loop if names.count(element.loop) == 1 else element.counted for element in known.values()]
        raise UsageError(
            f"--only goes by the iterations of main loops, and {strange[0]} is none (this run has: {', '.join(there)}): whole "
            'iterations are answered, and `rearview df NAME --where "step >= 10"` shows some of their rows'
        )
    if not places:
        raise NotFound(f"no iteration of the run is {text}: `rearview show` tells which there are")
    return ranges(places)


def path_of(block: MainBlock, iteration: int) -> list[Element]:
    """An iteration of a main loop, with the loops around it."""
    from rearview.catalog.paths import Element

    value = block.values[iteration] if iteration < len(block.values) else None
    every = (*block.path, (block.name, block.occurrence, iteration, value))
    return [Element(name, nth, at, called if isinstance(called, (bool, int, float, str)) else None) for name, nth, at, called in every]
