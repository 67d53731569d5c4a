"""Shapes and columns: which loop is which column, which segment answers for which part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rearview.catalog.sealing.listing import PartFile, cover
from rearview.catalog.sealing.seal import to_merge
from rearview.catalog.sealing.segments import Segment
from rearview.catalog.tables.places import Occurrence
from rearview.catalog.tables.shapes import answers, column_order, is_above, logs_it, loop_columns
from rearview.model import RunId
from rearview.store.journal import PartName


def test_a_loop_in_a_loop_of_its_name_has_a_column() -> None:
    assert loop_columns(("x", "y", "x", "x")) == ["x", "y", "x_2", "x_3"]


def test_columns_stand_outside_in() -> None:
    assert column_order([("epoch", "step"), ("epoch", "val")]) == ["epoch", "step", "val"]
    assert column_order([("step",), ("epoch", "step")]) == ["epoch", "step"]
    assert column_order([(), ("a",), ("a", "b", "c"), ("a", "d", "c")]) == ["a", "b", "d", "c"]


def test_the_nearest_shape_of_a_process_answers() -> None:
    at = {(): Occurrence(rps={1, 2, 3}), ("e",): Occurrence(rps={2}), ("e", "s"): Occurrence(rps={3})}
    assert is_above((), ("e",)) and not is_above(("e",), ("e",)) and not is_above(("s",), ("e", "s"))
    assert answers(at, (), ("e",)) == {1, 3}
    assert answers(at, (), ("e", "s")) == {1}
    assert answers(at, ("e",), ("e", "s")) == {2}
    assert answers(at, (), ("v",)) == {1, 2, 3}
    assert logs_it(at, ("e",)) == {1, 2, 3} and logs_it({("e",): Occurrence(rps={2})}, ("v",)) == set()


def segment(ident: str, *parts: tuple[str, str, int], rows: int = 10) -> Segment:
    entries: list[dict[str, Any]] = [{"run": run, "file": file, "size": size} for run, file, size in parts]
    return Segment(ident, Path("segments"), entries, [], [], [], [], {}, {}, rows)


def part(run: str, number: int, size: int = 100) -> PartFile:
    name = PartName("0", 1, number)
    return PartFile(RunId(run), name, Path(run) / str(name), size)


def test_the_larger_segment_stands_then_the_smaller_id() -> None:
    parts = [part("r1", 1), part("r1", 2), part("r2", 1)]
    names = [p.sealed_as for p in parts]
    small, large, twin = segment("a", names[0]), segment("z", *names[:2]), segment("y", *names[:2])
    chosen = cover(parts, [small, large, twin])
    assert [(s.ident, mine) for s, mine in chosen.taken] == [("y", [0, 1])]
    assert [p.run for p in chosen.open] == ["r2"]


def test_a_part_that_grew_or_went_is_not_answered_for() -> None:
    sealed = segment("a", part("r1", 1).sealed_as, part("r1", 2).sealed_as, part("r9", 1).sealed_as)
    chosen = cover([part("r1", 1), part("r1", 2, size=101)], [sealed])
    assert [(s.ident, mine) for s, mine in chosen.taken] == [("a", [0])]
    assert [p.name.part for p in chosen.open] == [2]


def test_small_segments_are_merged_and_large_ones_left_alone() -> None:
    few = [(segment(str(k), rows=10), [0]) for k in range(5)]
    assert to_merge(few) == []
    many = [*few, (segment("5", rows=10), [0]), (segment("big", rows=1_000_000), [0])]
    assert [s.ident for s, _ in to_merge(many)] == ["0", "1", "2", "3", "4", "5"]
