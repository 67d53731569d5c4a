"""What the checkpoints of a run cost it: how many were taken, the figures that decided how often, and in words why there are none.

M is what the run loses by one checkpoint, C what an execution of the block takes, n how often it was executed, k how many
checkpoints were taken of it, c the time to restore over the time to materialise. Knows the catalog's words for them, no journals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rearview.cli.shown import tables, text
from rearview.cli.shown.screen import Screen

if TYPE_CHECKING:
    from rearview.catalog.detail import RunDetail


def lines(detail: RunDetail, view: Screen) -> list[str]:
    """The section, or nothing for a run without checkpoints."""
    return _kept(detail, view) + _figures(detail.cadence, view)


def _kept(detail: RunDetail, view: Screen) -> list[str]:
    states = detail.checkpoints
    if states is None:
        return []
    counts = {"partial": states.partial, "pinned": states.pinned, "thinned": states.thinned}
    more = [f"{count:,} {word}" for word, count in counts.items() if count]
    shown = f"{text.count(states.count, 'checkpoint')}" + (f" ({', '.join(more)})" if more else "")
    sentence = f"{shown}, {text.size(states.size_bytes)}; the last at {states.last}" if states.last else shown
    return tables.wrap(text.escape(f"{sentence}; `rearview checkpoints {detail.info.run}` lists them"), view.width)


def _figures(cadence: Mapping[str, Mapping[str, Any]], view: Screen) -> list[str]:
    if not cadence:
        return []
    right = ("taken", "M", "C", "c", "share of time", "limit")
    columns = [tables.Column("block"), *(tables.Column(title, align="right") for title in right)]
    rows = [
        [
            block,
            f"k={_whole(facts.get('k'))} of n={_whole(facts.get('n'))}",
            text.duration(_number(facts.get("M"))),
            text.duration(_number(facts.get("C"))),
            "" if _number(facts.get("c")) is None else f"{_number(facts.get('c')):.2f}",
            _percent(facts.get("share")),
            f"every {_whole(facts.get('every'))}" if facts.get("every") else f"eps {_percent(facts.get('eps'))}",
        ]
        for block, facts in cadence.items()
    ]
    return tables.draw(columns, rows, view).lines


def why_none(cadence: Mapping[str, Mapping[str, Any]]) -> str:
    """Why a run that could take checkpoints took none, and how to have some; nothing if its figures do not say."""
    if not cadence or any(facts.get("k") for facts in cadence.values()):
        return ""
    block, facts = max(cadence.items(), key=lambda item: _number(item[1].get("ran_s")) or 0.0)
    n, every, eps, cost_s = _whole(facts.get("n")), facts.get("every"), _number(facts.get("eps")) or 0.0, _number(facts.get("M"))
    if every:
        why = f"none was due: every = {_whole(every)} takes one after each {_whole(every)} executions, and {block} was executed {n} times"
    else:
        ran_s = _number(facts.get("ran_s")) or 0.0
        cost = f"one would lose about {text.duration(cost_s)}, and " if cost_s is not None else ""
        allowed = f"of which eps = {eps:.3g} allows {text.duration(eps * ran_s)}"
        why = f"none was worth its cost: {cost}{n} executions of {block} took {text.duration(ran_s)}, {allowed}"
    return f"{why}; a longer run, a larger eps (REARVIEW_EPS) or every=1 (REARVIEW_EVERY=1: one after each) has some"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _whole(value: object) -> str:
    return str(value) if isinstance(value, int) else "?"


def _percent(value: object) -> str:
    number = _number(value)
    return "" if number is None else f"{100 * number:.2f} %"
