"""What objects leave out when they are copied is named in the state, so that no question about it is answered from there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import rearview as rv
from rearview.state.capture import capture
from rearview.state.take.classes import has_a_name
from tests.unit.state.round_trip import put, taken


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


class ByCall:
    def __init__(self) -> None:
        self.custom = 1

    def __reduce__(self) -> tuple[Any, ...]:
        return ByCall, ()


def test_what_is_made_by_a_call_loses_what_was_set_on_it() -> None:
    assert "it" in _unlike(ByCall())
    assert _unlike(Path("x")) == []


def test_what_libraries_leave_out_is_theirs() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert (len(frame.index), list(frame.columns)) == (2, ["a", "b"])
    assert _unlike(frame) == []


def test_a_logger_is_what_it_was() -> None:
    logger: Any = logging.getLogger("some.name")
    assert _unlike(logger) == []
    logger.setLevel(logging.WARNING)
    logger.custom = [1]
    kept = taken(log=logger)
    logger.setLevel(logging.DEBUG)
    logger.custom, logger.later = [2], 3
    assert logger.isEnabledFor(logging.INFO)
    assert put(kept, log=logger)["log"] is logger
    assert not logger.isEnabledFor(logging.INFO)
    assert logger.custom == [1]
    assert not hasattr(logger, "later")
    logger.setLevel(logging.NOTSET)


class Sink:
    """Takes lines, and remembers them."""

    def __init__(self) -> None:
        self.lines: list[str] = []


def test_an_object_of_the_programs_own_behind_rv_background_comes_back_otherwise() -> None:
    assert _unlike(rv.background(Sink())) == ["it"]
    assert _unlike(rv.background([].append)) == []
    assert not has_a_name(rv.background(Sink())), "a variable that holds it is looked at"
    assert has_a_name(rv.background(logging.getLogger("x")))


class Counting(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def test_a_handler_of_the_programs_own_comes_back_otherwise() -> None:
    logger = logging.getLogger("tests.counted")
    logger.addHandler(logging.NullHandler())
    assert _unlike(logger) == []
    logger.addHandler(Counting())
    assert _unlike(logger) == ["it.handlers[1]"]
