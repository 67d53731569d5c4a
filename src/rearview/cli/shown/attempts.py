"""The attempts of a run as a person reads them: where each began, how it ended, and whether what was logged again is the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rearview.cli.shown import screen, tables, text
from rearview.model import MAIN_PROCESS

if TYPE_CHECKING:
    from rearview.catalog.overlap import Attempt, Difference, Overlap


def listing(attempts: Sequence[Attempt], status: str, view: screen.Screen) -> list[str]:
    """A line for each attempt; nothing for a run that was started once."""
    if len(attempts) < 2:
        return []
    columns = [
        tables.Column("attempt", align="right"),
        tables.Column("began", weight=2),
        tables.Column("from", weight=1),
        tables.Column("done again", align="right", weight=3),
        tables.Column("ended", weight=1),
        tables.Column("records", align="right", weight=2),
    ]
    last = attempts[-1].number
    rows = [
        [
            str(one.number),
            text.moment(dt.datetime.fromtimestamp(one.began_wall, dt.UTC)) if one.began_wall is not None else text.UNKNOWN,
            one.place or "the beginning",
            text.duration(one.lost_s),
            status if one.number == last else one.end or "killed",
            f"{one.records:,}",
        ]
        for one in attempts
    ]
    return tables.draw(columns, rows, view).lines


def sentences(overlap: Overlap | None, finished: bool) -> list[str]:
    """What attempts logged in common, a sentence each; the first says whether it is the same."""
    if overlap is None:
        return []
    said = []
    if overlap.differing:
        said.append(f"{overlap.differing:,} of {text.count(overlap.again, 'row')} logged again differ from what was logged before")
        said += [_difference(one) for one in overlap.different]
    elif overlap.same:
        said.append(f"{text.count(overlap.same, 'row')} logged again, each with the same value as before")
    if overlap.only_before:
        why = "" if finished else " (yet)"
        said.append(f"{text.count(overlap.only_before, 'row')} logged before and not again{why}: they stay visible")
    return said


def inexact(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """What resumes could not bring back as it was, a sentence each."""
    return [
        f"attempt {one.get('attempt')}{who(str(one.get('process')))} may not have gone on exactly as it was: {one.get('why')}"
        for one in rows
    ]


def who(process: str) -> str:
    """The process that is meant, if it is not the main one."""
    return f" (process {process})" if process != MAIN_PROCESS else ""


def _difference(one: Difference) -> str:
    where = f" at {one.path}" if one.path else ""
    return f"{one.name}{where}{who(one.process)} was {_exact(one.before)} and is {_exact(one.after)} in attempt {one.attempt}"


def _exact(value: object) -> str:
    """Two floats may differ in their last digit alone."""
    return repr(value) if isinstance(value, float) else text.value(value)
