"""The mode in which every call has its plain meaning: `REARVIEW=off`, or a recording that could not begin."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

from rearview.errors import UsageError
from rearview.record import arguments


class AlwaysRun:
    """A skip block of which nothing is kept. A script that calls it rightly does so in every mode, and wrongly in none."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_open = False

    def step_into(self) -> bool:
        """Always. The same object may be used in every iteration."""
        self._is_open = True
        return True

    def end(self, *objects: object) -> None:
        """The block ended."""
        if not self._is_open:
            raise UsageError(f"skip block {self._name!r}: call step_into() before the block and end(...) once after it")
        self._is_open = False


class Off:
    """A session that records nothing; a script works the same with it."""

    def log(self, name: str, value: object, volatile: bool) -> None:
        """Nothing."""

    def arg(self, name: str, default: Any) -> Any:
        """The value given on the command line, else the default: a script works the same without recording."""
        return arguments.given().value(name, default)

    def checkpointing(self, given: dict[str, object], frame: FrameType) -> AbstractContextManager[Any]:
        """Nothing is kept."""
        return nullcontext()

    def skip_block(self, name: str) -> Any:
        """A block that is always run."""
        return AlwaysRun(name)

    def loop(self, name: str, iterable: Iterable[Any] | None) -> Iterable[Any]:
        """The iterable itself."""
        return itertools.count() if iterable is None else iterable
