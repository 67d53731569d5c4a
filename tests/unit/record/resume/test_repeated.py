"""What an attempt logged again, against the attempts before it: which rows are compared, and what counts as the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview.model import ProcessNumber, RunId
from rearview.record import loops, recorder
from rearview.record.arguments import Given
from rearview.record.recorder import Recorder
from rearview.record.resume import repeated
from rearview.store import journal, layout, processes, runs
from rearview.store.encoding import encode

RUN = RunId("r000000000001")
NAN = float("nan")
Attempt = Callable[..., Recorder]


@pytest.fixture
def attempt(project: Path) -> Iterator[Attempt]:
    """An attempt that logs `loss` in so many steps, the values given."""
    store = layout.create(project / layout.FOLDER)
    runs.write_run(store, RUN, {"tstamp": "", "place": 0, "version": None})

    def make(number: int, values: list[object], *, first: int = 0, ends: bool = True, volatile: bool = False) -> Recorder:
        made = Recorder(store, RUN, ProcessNumber("0"), processes.identity(), Given({}), attempt=number)
        made.begin()
        loops.current.set(made.root)
        for step in made.loop("step", range(first + len(values))):
            if step >= first:
                made.log("loss", values[step - first], volatile)
        if ends:
            made.end("finished")
        else:
            made.journal.abandon()
        return made

    yield make
    loops.current.set(None)


def compare(made: Recorder, begun: int = 0, taken: int = -1) -> tuple[int, int]:
    origin: dict[str, Any] = {"from": {"attempt": begun}, "taken_at": {"0": taken}} if begun else {}
    found = repeated.compare(made, origin)
    return found.same, found.differing


def test_rows_are_paired_by_where_they_were_logged(attempt: Attempt) -> None:
    attempt(1, [0.5, 1.5, 2.5, 3.5], ends=False)
    assert compare(attempt(2, [2.5, 4.5, 5.5], first=2)) == (1, 1)  # the step behind the old end was not there before


def test_the_attempt_before_counts_and_not_the_one_before_that(attempt: Attempt) -> None:
    attempt(1, [0.5, 1.5], ends=False)
    attempt(2, [0.5, 7.5], ends=False)
    assert compare(attempt(3, [0.5, 7.5])) == (2, 0)


def test_only_what_lies_behind_the_checkpoint_is_read(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long run the last parts."""
    for module in (recorder, journal):
        monkeypatch.setattr(module, "PART_FRAMES", 8)
    first = attempt(1, [float(k) for k in range(200)], ends=False)
    parts = journal.parts_of(first.store.run(RUN))
    assert len(parts) > 10
    rows = list(repeated._rows([path for _, path in parts]))
    assert [row.identity[-3] for row in rows] == list(range(200))
    taken = rows[149].us
    behind = sum(row.us > taken for row in rows)
    assert len(repeated._behind([path for _, path in parts], taken)) < len(parts) / 2
    again = attempt(2, [-1.0] * 200)
    assert compare(again, 1, taken) == (0, behind)
    assert compare(again, 1) == (0, 200)


def test_too_much_is_compared_in_part_and_said_so(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "MOST_ROWS", 10)
    attempt(1, [0.5] * 50, ends=False)
    found = repeated.compare(attempt(2, [1.5] * 50), {})
    assert (found.differing, found.all) == (10, False)
    assert "at least 10 of 10 rows" in str(found.sentence(RUN))


def test_volatile_rows_are_not_compared(attempt: Attempt) -> None:
    attempt(1, [0.5, 1.5], ends=False, volatile=True)
    assert compare(attempt(2, [2.5, 3.5], volatile=True)) == (0, 0)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [(1.0, 1.0, True), (0.0, -0.0, False), (1, 1.0, False), (NAN, -NAN, True), (NAN, 0.0, False), ("a", "b", False)],
)
def test_what_counts_as_the_same(before: object, after: object, same: bool) -> None:
    assert repeated.is_same(encode(before), encode(after)) is same
