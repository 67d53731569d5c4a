"""The frames of the user's program between `rv.checkpointing` and a loop, and the roots of the state they hold.

Knows frames; what is in them is for `state`.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from rearview.errors import RestoreRefused
from rearview.record import firsts
from rearview.state import bindings, caches, callers, process, remade, scope
from rearview.state import frames as variables
from rearview.state.take.walk import Lost
from rearview.state.tree import MADE

Roots = dict[tuple[Any, ...], object]
_STAYS = Lost(None, "it was deleted, and this Python cannot delete variables of a running function: it will be there again")


def caller() -> FrameType:
    """The innermost frame that is not rearview's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(firsts.OURS):
        frame = frame.f_back
    assert frame is not None
    return frame


class Scope:
    """What a `checkpointing` covers: its caller's frame, what was named, the project around it."""

    def __init__(
        self, frame: FrameType, given: Mapping[str, object], project: Path, before: remade.Began | None = None, *, follows: bool = False
    ) -> None:
        self.frame = frame
        self.follows = follows
        """Loops have been gone through before, or are around it: variables of the functions that called hold what these gave."""
        self.project = project
        self._given = dict(given)
        here = variables.variables(frame)
        self._bound_as = {name: _variable_of(value, name, here) for name, value in given.items()}
        self._first = process.now()
        self._began: remade.Began | None = None
        self._before = before
        self._caches: caches.Caches | None = None
        self._bound: set[tuple[int, str]] = set()
        self.hooked: list[tuple[Any, bool]] = []
        """What got its hooks from a state that was put back, and whether its class: no code before the loops gives it these again."""
        self.exact = False
        """What a state says about names and the process is put back, or the state is refused: in a replay, which has other ways."""
        self.edited = False
        """The code is not the recorded one: its names mean what it says."""
        self.deleted: Collection[str] | None = None
        """Names that the program deletes somewhere; None: not looked for yet."""

    def given(self) -> dict[str, object]:
        """What was named, as the caller's variables hold it now: a name follows its variable when that is rebound."""
        here = variables.variables(self.frame)
        return {name: here.get(bound, self._given[name]) if bound else self._given[name] for name, bound in self._bound_as.items()}

    def frames(self) -> list[FrameType]:
        """From the caller of `checkpointing` inwards to where the program is."""
        return list(variables.frames_between(caller(), self.frame))

    def codes(self) -> list[CodeType]:
        """The code that is running: of these frames, and of the project's modules that led to them."""
        frames = self.frames()
        return [frame.f_code for frame in (*frames, *self._callers(frames[0]))]

    def _callers(self, frame: FrameType) -> list[FrameType]:
        """What of the project led to a frame, from the inside outwards."""
        spaces = {name: vars(module) for name, module in scope.project_modules(self.project)}
        found = []
        outer = frame.f_back
        while outer is not None:
            space = spaces.get(outer.f_globals.get("__name__", ""))  # what started the program may have been called `__main__` before
            if space is outer.f_globals and not outer.f_code.co_filename.startswith(firsts.OURS):
                found.append(outer)
            outer = outer.f_back
        return found

    def around(self) -> list[FrameType]:
        """The functions around `checkpointing` whose variables are part of the state."""
        return self._callers(self.frame) if self.follows else []

    def _data_around(self, held: Iterable[object]) -> Roots:
        """The data of these functions where they are no part of the state: the code before may make another one."""
        return {} if self.follows else dict(callers.roots_of(self._callers(self.frame), held))

    def begin(self) -> None:
        """The loops begin, or a state is about to be put back: functions made from now on are none that the code before makes again."""
        if self._began is None:
            modules = list(scope.project_modules(self.project))
            self._began, self._caches = remade.Began(modules, self._before), caches.Caches(modules)
            self._bound = self._locals()

    def end(self) -> remade.Began | None:
        """The loops are over: what a `checkpointing` that follows has to know about them."""
        if self._began is not None:
            self._began.ended(list(scope.project_modules(self.project)))
        return self._began or self._before

    def roots(self) -> Roots:
        """Everything that belongs to the state, by name."""
        frames = self.frames()
        modules = list(scope.project_modules(self.project))
        meanings: Roots = dict(bindings.take(frames, self.project, modules))
        made: Roots = {} if self._began is None else dict(self._began.since(modules, self.codes))  # first: others refer to them
        state: Roots = dict(scope.roots_of(frames, self.given(), self.project, modules, self.around()))
        state.update(self._data_around([value for key, value in state.items() if key[0] in ("given", "local")]))
        if self._caches is not None:
            state.update(self._caches.roots(modules))
        if not variables.CAN_UNBIND:
            made.update({("gone", depth, name): _STAYS for depth, name in sorted(self._bound - self._locals())})
        return {**made, **state, **meanings, process.KEY: process.changed(self._first), process.FORKS: firsts.forks}

    def _locals(self) -> set[tuple[int, str]]:
        """The variables of running functions that are bound."""
        frames = enumerate(self.frames())
        return {(depth, name) for depth, frame in frames if not variables.is_module(frame) for name in variables.variables(frame)}

    def bind(self, values: Mapping[tuple[Any, ...], object]) -> None:
        """Give variables the objects that a restored state has for them."""
        frames = self.frames()
        scope.bind(frames, values, self.around())
        callers.bind(self._callers(self.frame), values)
        remade.bind(frames, values)

    def check(self, recorded: Collection[tuple[Any, ...]], beside: Beside) -> list[str]:
        """Refuse what cannot be put back of names and the process; nothing is touched. Gives what is gone on without, to be said."""
        self.begin()
        frames = self.frames()
        wanted = beside.wanted(recorded, len(frames))
        folder = process.problem(self._first, beside.changed) if beside.changed is not None else None
        refused = [folder] if folder is not None else []
        gone = bindings.gone(frames, self.project, recorded, wanted.meanings, self._deleted())
        if self.edited:
            said = bindings.differences(frames, self.project, wanted)
            said += [f"{key[-1]} had been deleted, and stays" for key in gone]
        else:
            problems = bindings.problems(frames, self.project, wanted)
            said = [one.sentence for one in problems if one.named_before and not self.exact]
            refused += [one.sentence for one in problems if not one.named_before or self.exact]
            stays = [key for key in gone if key[0] == "local" and not variables.CAN_UNBIND]
            before = [key for key in stays if not self.exact and ("gone", *key[1:]) in recorded]
            said += [f"{key[-1]} was deleted, and stays" for key in before]
            refused += [f"{key[-1]} was deleted" for key in stays if key not in before]
        if refused:
            raise RestoreRefused(refused)
        return said

    def settle(self, recorded: Collection[tuple[Any, ...]], beside: Beside) -> None:
        """Names mean what they did, those that were deleted are gone, the process is as it was."""
        frames = self.frames()
        wanted = beside.wanted(recorded, len(frames))
        if not self.edited:
            bindings.put_back(frames, self.project, wanted)
            bindings.unbind(frames, bindings.gone(frames, self.project, recorded, wanted.meanings, self._deleted()))
        if beside.changed is not None:
            process.put_back(self._first, beside.changed)

    def _deleted(self) -> Collection[str]:
        if self.deleted is None:
            with firsts.unseen():  # the program did not open its source
                self.deleted = _deleted_in([module for _, module in scope.project_modules(self.project)], self.codes())
        return self.deleted


@dataclass(frozen=True, slots=True)
class Beside:
    """What a recorded state says beside the values of variables."""

    meanings: bindings.Meanings
    changed: process.State | None
    """None: a state of an older run, which does not say."""
    lost: Collection[tuple[Any, ...]] = ()
    """Roots of which the state has no more than the reason."""

    def wanted(self, recorded: Collection[tuple[Any, ...]], frames: int) -> bindings.Wanted:
        """What names are to mean, without those of functions that are not running (yet)."""
        meanings = {key: meant for key, meant in self.meanings.items() if not isinstance(key[1], int) or key[1] < frames}
        made = [key for key in recorded if key[0] == MADE]
        return bindings.Wanted(meanings, {key for key in made if key not in self.lost}, {key for key in made if key in self.lost})


def _deleted_in(modules: Sequence[ModuleType], codes: Sequence[CodeType]) -> set[str]:
    """Names that a program deletes, by its source; by its code where there is none."""
    import ast
    import dis

    from rearview.instrument import rewrite

    found: set[str] = set()
    files = {code.co_filename for code in codes} | {str(vars(module).get("__file__")) for module in modules}
    for file in files:
        try:
            found |= rewrite.deleted_names(ast.parse("".join(linecache.getlines(file))))
        except (SyntaxError, ValueError, RecursionError):
            continue  # no Python, such as a cell with magic: its code is looked at
    pending = list(codes)
    while pending:
        code = pending.pop()
        pending.extend(const for const in code.co_consts if isinstance(const, CodeType))
        found.update(str(one.argval) for one in dis.get_instructions(code) if one.opname.startswith("DELETE_") and one.argval is not None)
    return found


def _variable_of(value: object, name: str, here: Mapping[str, object]) -> str | None:
    """The caller's variable that holds a named object: the one of that name if it does."""
    if here.get(name) is value:
        return name
    return next((other for other, held in here.items() if held is value), None)
