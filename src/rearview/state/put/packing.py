"""Columns of plain values going back into lists, tuples and dicts."""

from __future__ import annotations

import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rearview.state.put.kind import ABSENT, InPlace, Kind, Pairs
from rearview.state.tree import NONE

if TYPE_CHECKING:
    from rearview.state.restore import Job, Plan


class Column(Kind):
    """Values that were packed together. Payload: type, count, then bytes or other columns."""

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind, count = job.made[payload[0]], job.made[payload[1]]
        if kind == "rows":
            return list(zip(*(job.made[number] for number in payload[2:]), strict=True))
        if kind == "mixed":
            columns = [iter(job.made[number]) for number in payload[3:]]
            return [next(columns[code]) for code in job.bytes_of(payload[2])]
        if kind == "NoneType":
            return [None] * count
        data = job.bytes_of(payload[2])
        if kind in ("str", "bytes"):
            lengths = array.array("Q", bytes(job.bytes_of(payload[3])))
            return list(_pieces(bytes(data).decode("utf-8", "surrogatepass") if kind == "str" else bytes(data), lengths))
        if kind == "bool":
            return [byte != 0 for byte in data]
        return array.array("q" if kind == "int" else "d", bytes(data)).tolist()


def _pieces(whole: Any, lengths: Sequence[int]) -> Iterator[Any]:
    at = 0
    for length in lengths:
        yield whole[at : at + length]
        at += length


def _unchanged(items: list[Any], live: Any) -> bool:
    """Whether nothing would change: then texts and tuples that are held elsewhere stay the same objects."""
    if len(items) != len(live) or list(map(type, items)) != list(map(type, live)):
        return False
    return all(type(item) in (str, int, bytes, bool, type(None)) for item in items) and items == list(live)


class Packed(Kind):
    """A long list or tuple of plain values. Payload: which of them, column."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return () if type(live) is (list if plan.plain(payload[0]) == "list" else tuple) else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        container, items = (job.made[number] for number in payload)
        if live is not ABSENT and _unchanged(items, live):
            return live
        if container == "tuple":
            return tuple(items)
        if live is ABSENT:
            return list(items)
        list.__setitem__(live, slice(None), items)
        return live


class Table(InPlace):
    """A long dict of plain values. Payload: class, attributes, column of keys, column of values."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return plan.extras(payload[1], live) if plan.fits(live, payload[0], dict) else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        if live is not ABSENT:
            return live
        return {} if payload[0] == NONE else dict.__new__(job.named(payload[0]))

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        keys, values = job.made[payload[2]], job.made[payload[3]]
        if not (_unchanged(keys, list(dict.keys(made))) and _unchanged(values, list(dict.values(made)))):
            dict.clear(made)
            dict.update(made, zip(keys, values, strict=True))
        job.put_extras(payload[1], made)


KINDS: dict[str, Kind] = {"column": Column(), "packed": Packed(), "table": Table()}
