"""What counts of what workers did, above all of iterations that several of them share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rearview.model import RunId, VersionId
from rearview.plan.scans import Part, Stretch
from rearview.plan.timeline import INSIDE, Boundary, Place
from rearview.replay.running.pieces import Conducted, Piece, come_to, in_order
from rearview.replay.running.progress import Seen, Tail
from rearview.replay.running.units import Unit

RUN = RunId("r1")


def _state(iteration: int, step: int) -> Boundary:
    return Boundary(f"inside-{iteration}-{step}", INSIDE, 0, iteration, step=step, loop="step")


def _piece(stretch: Stretch, *ran: Place, complete: bool = True, number: int = 0) -> Piece:
    unit = Unit(
        replay="p", number=number, run=RUN, store="", project="", version=VersionId("v"), recorded_version=VersionId("v"), scratch="",
    )  # fmt: skip
    return Piece(unit, stretch, Seen(Tail(Path(), RUN), list(ran)), complete=complete)


FIRST: Part = (0, 1, -1, 4)
SECOND: Part = (0, 1, 4, -1)
A = Stretch(None, (0, 0), (0, 1), covers=((0, 0, 0),), stop=_state(1, 4), parts=(FIRST,))
B = Stretch(_state(1, 4), (0, 1), (0, 2), covers=((0, 2, 2),), parts=(SECOND,))


def _covers(*pieces: Piece) -> list[list[Any]]:
    return Conducted(list(pieces), 1.0, shared={(0, 1): frozenset({FIRST, SECOND})}).covers


def test_a_shared_iteration_counts_when_all_of_its_parts_do() -> None:
    assert _covers(_piece(A), _piece(B)) == [["iterations", 0, 0, 0], ["iterations", 0, 2, 2], ["iterations", 0, 1, 1]]
    assert _covers(_piece(A)) == [["iterations", 0, 0, 0]]
    assert _covers(_piece(B)) == [["iterations", 0, 2, 2]]
    assert _covers(_piece(A, (0, 0), complete=False), _piece(B)) == [["iterations", 0, 0, 0], ["iterations", 0, 2, 2]]


def test_what_began_inside_counts_from_the_end_of_its_iteration_on() -> None:
    assert _covers(_piece(A), _piece(B, (0, 1), complete=False)) == [["iterations", 0, 0, 0], ["iterations", 0, 1, 1]]
    assert _piece(B, (0, 1), complete=False).unfinished == [(0, 2)]
    assert _piece(B, complete=False).unfinished == [(0, 1), (0, 2)]


def test_who_was_to_end_inside_and_came_to_the_end_took_another_way() -> None:
    strayed = _piece(A, (0, 0), (0, 1), complete=False)
    assert strayed.unfinished == [(0, 1)] and not strayed.parts
    assert _covers(strayed, _piece(B)) == [["iterations", 0, 0, 0], ["iterations", 0, 2, 2]]
    alone = Stretch(None, (0, 0), (0, 0), covers=((0, 0, 0),), stop=_state(0, 4))  # what is asked for is before the nested loop
    assert _piece(alone).covers == [["iterations", 0, 0, 0]]
    assert _piece(alone, (0, 0), complete=False).covers == []


def test_pieces_are_in_the_order_of_the_program() -> None:
    whole = Stretch(None, (0, 1), (0, 1), covers=((0, 1, 1),))
    every = [_piece(B, number=1), _piece(whole, number=7), _piece(A, number=5)]
    assert [piece.unit.number for piece in sorted(every, key=in_order)] == [5, 7, 1]


def test_behind_a_statement_that_raised_nothing_counts() -> None:
    before, raised, behind = _piece(A), _piece(A, (0, 0), complete=False, number=1), _piece(B, number=2)
    assert come_to([before, raised, behind]) == [before, raised, behind]
    raised.seen.failed.append({"file": "train.py", "line": 4})
    assert come_to([before, raised, behind]) == [before, raised]
