"""What the families of kinds share: how one kind of node goes back into the program.

A node is first *matched* with the live object at its place (nothing is touched), then *checked*, then *built* when the children
it cannot begin without are there, and at last *filled* with the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rearview.state.restore import Job, Plan


class _Sentinel:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


ABSENT: Any = _Sentinel("absent")
"""There is no live object at that place."""
NOT_YET: Any = _Sentinel("not yet")
"""The object can only be built when its children are there."""

Pairs = Sequence[tuple[int, Any]]


class Kind:
    """How nodes of one kind are restored. The base is for those that are rebuilt whatever is live."""

    shared = False
    """Several nodes may stand for one live object (immutable values: nobody can tell)."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        """The children with what is live at their places; None if the live object is none that could take the state."""
        return None

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        """Why the restore has to be refused, if it has to."""
        return None

    def early(self, payload: Any) -> Sequence[int]:
        """The children that have to be there before the object can be begun."""
        return cast("Sequence[int]", payload)

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        """The object: whole if all children are early, else still without its content."""
        raise NotImplementedError

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        """Put in what needs the other children."""


class InPlace(Kind):
    """Objects that are begun empty, or are the live ones, and filled afterwards: they may lead back to themselves."""

    def early(self, payload: Any) -> Sequence[int]:
        return ()


def identical(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two sequences hold the same objects."""
    return len(first) == len(second) and all(a is b for a, b in zip(first, second, strict=True))


def present(job: Job, numbers: Sequence[int]) -> list[Any]:
    """The objects of some nodes, without those that only the recorded program had."""
    made = job.made
    return [made[number] for number in numbers if made[number] is not ABSENT]


def sequence(job: Job, numbers: Sequence[int]) -> list[Any]:
    """The objects of some nodes where each has its place: None for those that only the recorded program had."""
    made = job.made
    return [None if made[number] is ABSENT else made[number] for number in numbers]
