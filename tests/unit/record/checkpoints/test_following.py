"""How far a loop has come: the same however often that was asked before. A replay asks at other places than the recording did."""

from __future__ import annotations

from typing import Any

from rearview.record.checkpoints.following import Level
from rearview.record.loops import Node


class Owner:
    """Counts blocks."""

    def next_block_id(self) -> int:
        """Of the only one."""
        return 1


class Loop:
    """Stands for a loop whose iterator the program holds."""


def _level(loop: Any) -> Level:
    node = Node(Owner(), None, "epoch", None)  # type: ignore[arg-type]
    node.iteration = 1
    return Level(lambda: loop, node, range(5), iter(range(5)), None)


def test_the_position_of_a_loop_that_nothing_is_zipped_with_does_not_tell_how_often_it_was_asked() -> None:
    level = _level(Loop())

    first, second = level.position(), level.position()

    assert first == second


def test_what_is_zipped_with_a_loop_is_told_each_time() -> None:
    loop = iter(range(5))
    numbers = (number for number in range(5))
    together = zip(loop, numbers, strict=False)
    next(together)
    level = _level(loop)

    first, second = level.position(), level.position()

    assert first["beside"] == second["beside"]
    assert len(first["beside"]) == 1
