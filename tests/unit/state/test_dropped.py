"""What objects leave out when they are copied is named in the state, so that no question about it is answered from there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from rearview.state.capture import capture


class ByName:
    def __init__(self) -> None:
        self.kept, self.cache = 1, 1

    def __getstate__(self) -> dict[str, int]:
        return {"kept": self.kept}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__dict__.update(state, cache=0)


class InOrder:
    def __init__(self) -> None:
        self.first, self.second, self.third = 7, 7, 7

    def __reduce__(self) -> tuple[Any, ...]:
        return InOrder, (), (self.first, self.second)

    def __setstate__(self, state: tuple[int, int]) -> None:
        self.first, self.second = state


class All(ByName):
    def __getstate__(self) -> dict[str, int]:
        return dict(vars(self))


def _unlike(value: object) -> list[str]:
    return [one.where for one in capture({("given", "it"): value}).unlike]


def test_an_attribute_that_is_left_out_is_named_even_if_another_has_its_value() -> None:
    assert _unlike(ByName()) == ["it.cache"]
    assert len(_unlike(InOrder())) == 1
    assert _unlike(All()) == []


def test_what_is_found_by_its_name_loses_what_was_set_on_it() -> None:
    assert _unlike(logging.getLogger("some.name")) == ["it"]
    assert _unlike(Path("x")) == []
