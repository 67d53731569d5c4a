"""The frames of the user's program between `rv.checkpointing` and a loop, and the roots of the state they hold.

Knows frames; what is in them is for `state`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rearview.errors import RestoreRefused
from rearview.state import bindings, process, scope
from rearview.state import frames as variables

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
        self._first = process.now()
        self.exact = False
        """What a state says about names and the process is put back, or the state is refused: in a replay, which runs the recorded code."""
        self.deleted: Collection[str] = ()
        """Names that the program deletes somewhere."""

    def given(self) -> dict[str, object]:
        """What was named, as the caller's variables hold it now: a name follows its variable when that is rebound."""
        here = variables.variables(self.frame)
        return {name: here.get(bound, self._given[name]) if bound else self._given[name] for name, bound in self._bound_as.items()}

    def frames(self) -> list[FrameType]:
        """From the caller of `checkpointing` inwards to where the program is."""
        return list(variables.frames_between(caller(), self.frame))

    def roots(self) -> Roots:
        """Everything that belongs to the state, by name."""
        frames = self.frames()
        modules = list(scope.project_modules(self.project))
        meanings: Roots = dict(bindings.take(frames, self.project, modules))
        return {**scope.roots_of(frames, self.given(), self.project, modules), **meanings, process.KEY: process.changed(self._first)}

    def bind(self, values: Mapping[tuple[Any, ...], object]) -> None:
        """Give variables the objects that a restored state has for them."""
        scope.bind(self.frames(), values)

    def check(self, recorded: Mapping[tuple[Any, ...], object], beside: Beside) -> None:
        """Refuse what cannot be put back of names and the process; nothing is touched."""
        if not self.exact:
            return
        frames = self.frames()
        said = bindings.problems(frames, self.project, _within(beside.meanings, len(frames)))
        folder = process.problem(self._first, beside.changed) if beside.changed is not None else None
        said += [folder] if folder is not None else []
        gone = bindings.gone(frames, self.project, recorded, beside.meanings, self.deleted)
        said += [f"{key[-1]} was deleted" for key in gone if key[0] == "local" and not variables.CAN_UNBIND]
        if said:
            raise RestoreRefused(said)

    def settle(self, recorded: Mapping[tuple[Any, ...], object], beside: Beside) -> None:
        """Names mean what they did, those that were deleted are gone, the process is as it was."""
        if not self.exact:
            return
        frames = self.frames()
        meanings = _within(beside.meanings, len(frames))
        bindings.put_back(frames, self.project, meanings)
        bindings.unbind(frames, bindings.gone(frames, self.project, recorded, meanings, self.deleted))
        if beside.changed is not None:
            process.put_back(self._first, beside.changed)


@dataclass(frozen=True, slots=True)
class Beside:
    """What a recorded state says beside the values of variables."""

    meanings: bindings.Meanings
    changed: process.State | None
    """None: a state of an older run, which does not say."""


def _within(meanings: bindings.Meanings, frames: int) -> bindings.Meanings:
    """Without names of functions that are not running (yet)."""
    return {key: meant for key, meant in meanings.items() if not isinstance(key[1], int) or key[1] < frames}


def _variable_of(value: object, name: str, here: Mapping[str, object]) -> str | None:
    """The caller's variable that holds a named object: the one of that name if it does."""
    if here.get(name) is value:
        return name
    return next((other for other, held in here.items() if held is value), None)
