"""The frames of the user's program between `rv.checkpointing` and a loop, and the roots of the state they hold.

Knows frames; what is in them is for `state`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from rearview.state import frames as variables
from rearview.state import scope

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Roots = dict[tuple[Any, ...], object]


def caller() -> FrameType:
    """The innermost frame that is not rearview's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    assert frame is not None
    return frame


class Scope:
    """What a `checkpointing` covers: its caller's frame, what was named, the project around it."""

    def __init__(self, frame: FrameType, given: Mapping[str, object], project: Path) -> None:
        self.frame = frame
        self.project = project
        self._given = dict(given)
        here = variables.variables(frame)
        self._bound_as = {name: _variable_of(value, name, here) for name, value in given.items()}

    def given(self) -> dict[str, object]:
        """What was named, as the caller's variables hold it now: a name follows its variable when that is rebound."""
        here = variables.variables(self.frame)
        return {name: here.get(bound, self._given[name]) if bound else self._given[name] for name, bound in self._bound_as.items()}

    def frames(self) -> list[FrameType]:
        """From the caller of `checkpointing` inwards to where the program is."""
        return list(variables.frames_between(caller(), self.frame))

    def roots(self) -> Roots:
        """Everything that belongs to the state, by name."""
        return dict(scope.roots_of(self.frames(), self.given(), self.project))

    def bind(self, values: Mapping[tuple[Any, ...], object]) -> None:
        """Give variables the objects that a restored state has for them."""
        scope.bind(self.frames(), values)


def _variable_of(value: object, name: str, here: Mapping[str, object]) -> str | None:
    """The caller's variable that holds a named object: the one of that name if it does."""
    if here.get(name) is value:
        return name
    return next((other for other, held in here.items() if held is value), None)
