"""Whether a `for` itself asked for an iterator, or something that stands between."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rearview.record.dropped import is_begun_by_for


class Asked:
    def __init__(self) -> None:
        self.by_for: list[bool] = []

    def __iter__(self) -> Iterator[int]:
        self.by_for.append(is_begun_by_for(sys._getframe(1)))
        return iter((1,))


def test_a_for_and_a_comprehension_ask_themselves() -> None:
    asked = Asked()
    for _ in asked:
        pass
    assert [one for one in asked] == [1]  # noqa: C416 (it is what asks)
    assert asked.by_for == [True, True]


def test_what_stands_between_is_seen() -> None:
    asked = Asked()
    for _ in zip(asked, asked, strict=True):
        pass
    for _ in enumerate(asked):
        pass
    assert (next(iter(asked)), list(asked), [*asked]) == (1, [1], [1])
    assert asked.by_for == [False] * 6
