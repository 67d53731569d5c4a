"""What a program holds on its way to a place in its loops that no state has: it is in no variable.

On the way to a state inside an iteration the code before it runs again, while loops that were over are not gone through, and it finds
what the state holds. What was worked out for an expression that goes on behind the place, what a function made of an earlier loop and gave
back, what a `with` block keeps from when it was entered: all that would be another one. Such a state is not gone on from. What a
comprehension or a function like `sum` gathers of a main loop is in no state of it, and is named.

Looks at running frames and their source; changes nothing. Where there is no source to be had, nothing is said.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import itertools
import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

from rearview.instrument import midway
from rearview.instrument.midway import Midway, Position
from rearview.instrument.rebound import rebound
from rearview.record import firsts
from rearview.state import frames as variables
from rearview.state.take.owners import is_the_users

Row = list[str]
"""What it is called, its type, why it matters: as a manifest has it."""

WAITING = "what it gave waits in an expression that the program is in the middle of: on the way here it would give something else"
MANAGED = "it may keep what it found when it was entered: on the way here it would find something else"
OVER = "what it made of that loop is in no variable any more: on the way here the loop is not gone through"
GATHERING = "what it has gathered of the loop so far is in no variable"
HELD = frozenset((WAITING, MANAGED, OVER, GATHERING))
"""Why a state is not gone on from."""
GATHERED = "what it has gathered of the main loop so far is in no state: it begins anew"
"""No reason to pass a state over: another of that loop would not have it either."""

_KNOWN = frozenset(
    "accelerate asyncio builtins bz2 click contextlib cProfile decimal gzip io jax lightning logging lzma mlflow multiprocessing numpy "
    "profile pytorch_lightning rearview rich tarfile tempfile tensorflow thread threading torch tqdm warnings wandb zipfile".split()
)
"""Whose `with` blocks keep nothing of the program's state; but for those that put random streams back."""
_STREAMS = ("fork_rng",)
_ASKING = ("next", "anext", "send", "__next__", "__anext__", "")
_MOST_FRAMES = 200

Frame = tuple[int, CodeType, int]
"""One that is not to be kept alive: its identity, its code, where it is."""


class Way:
    """The way from what drives a main loop inwards."""

    def __init__(self, driver: FrameType) -> None:
        with firsts.unseen():  # the program did not open its source
            self._main = _at(_users(driver) or driver)
            gathering = list(_gathering(driver, None))
        self.gathered = [[name, kind, GATHERED] for name, kind in gathering]
        """What gathers the items of the main loop itself, or of a generator that it is in."""
        self._earlier: list[tuple[str, list[Frame], tuple[int, ...]]] = []
        """Nested loops that began in this iteration: their names, the frames that led to them, the arguments of the innermost."""

    def rebound(self, *, behind_nested: bool) -> frozenset[str]:
        """The variables that get other values before anything reads them, from the end of an iteration of the main loop on, or from that of
        the nested loop that began last."""
        (main, code, at), frames = self._main, self._earlier[-1][1] if behind_nested and self._earlier else []
        if behind_nested and (not frames or frames[-1][:2] != (main, code)):
            return frozenset()
        with firsts.unseen():
            return _rebound(code, at, frames[-1][2] if frames else None)

    def iteration_ended(self) -> None:
        """What comes next is another iteration."""
        self._earlier.clear()

    def nested_begins(self, name: str, driver: FrameType) -> None:
        """A nested loop of this iteration."""
        frames = self._inwards(driver)
        self._earlier.append((name, [_at(frame) for frame in frames], _arguments(frames[-1]) if frames else ()))

    def rows(self, driver: FrameType) -> list[Row]:
        """What is held on the way to the nested loop that began last, and that a frame drives, or has just left."""
        if not self._earlier:
            return []
        _, there, _ = self._earlier[-1]
        frames = self._inwards(driver)
        if not frames or frames[-1].f_code is not there[-1][1]:
            return []
        with firsts.unseen():
            rows = [[text, kind, GATHERING] for text, kind in _gathering(driver, self._main, there[-1][2])]
            for frame in frames:
                at = there[-1][2] if frame is frames[-1] else frame.f_lasti
                found = _found(frame, at, self._main)
                if found is not None:
                    rows += [[text, "value", WAITING] for text in found.waiting]
                    rows += [[text, "context manager", MANAGED] for text in found.managers if not _keeps_nothing(text, frame)]
        rows += [[f"{code.co_qualname} (loop {earlier})", "function", OVER] for earlier, code in self._gone(there)]
        return [row for place, row in enumerate(rows) if row not in rows[:place]]

    def _inwards(self, driver: FrameType) -> list[FrameType]:
        """The frames from the one that drives the main loop to the one that drives another."""
        found: list[FrameType] = []
        frame: FrameType | None = driver
        while frame is not None and len(found) < _MOST_FRAMES:
            found.append(frame)
            if id(frame) == self._main[0]:
                return found[::-1]
            frame = frame.f_back
        return []

    def _gone(self, here: Sequence[Frame]) -> Iterator[tuple[str, CodeType]]:
        """Nested loops before the last that began, whose functions have returned by now."""
        arguments = self._earlier[-1][2]
        for name, there, given in self._earlier[:-1]:
            last = len(there) - 1
            if last < 1:  # it was driven by the frame that drives the main loop
                continue
            runs_still = len(here) > last and list(here[:last]) == there[:last] and here[last][:2] == there[last][:2]
            # By its identity alone a function that was called again, at the same place, looks as if it ran still.
            again = len(here) == len(there) and (here[last][2] == there[last][2] or arguments != given)
            if not runs_still or again:
                yield name, there[last][1]


def _at(frame: FrameType) -> Frame:
    return id(frame), frame.f_code, frame.f_lasti


def _arguments(frame: FrameType) -> tuple[int, ...]:
    """Which objects a function was given: they tell one call of it from another."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return ()
    held = variables.variables(frame)
    return tuple(id(held[name]) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name in held)


def _is_users(frame: FrameType) -> bool:
    return is_the_users(str(frame.f_globals.get("__name__", "")))


def _users(frame: FrameType | None) -> FrameType | None:
    """The first frame from there outwards that is the user's: a progress bar may stand between."""
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    return frame


# -- who drives a loop -----------------------------------------------------------------------------------------------------


def _gathering(driver: FrameType, main: Frame | None, at: int | None = None) -> Iterator[tuple[str, str]]:
    """What gathers the items of a loop, or of a generator in which it is, before anybody else has them. `main`: of a nested loop, what
    drives the one that it is in; `at`: where its own driver began it."""
    frame: FrameType | None = driver
    asked = True
    """For an item: by the frame that is looked at."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        code = frame.f_code
        found = _found(frame, frame.f_lasti if at is None or frame is not driver else at, main)
        if found is not None and found.gathers and (asked or main is not None):
            yield found.gathers, "comprehension"
        elif found is not None and asked and _is_asked_by_call(frame, found):
            yield f"{found.called}(...)", "call"
        if main is not None and id(frame) == main[0]:
            return
        asked = bool(code.co_flags & inspect.CO_GENERATOR)
        frame = frame.f_back


def _is_asked_by_call(frame: FrameType, found: Midway) -> bool:
    """Whether a function of C asks for the items, and gathers what it gets: neither a statement, nor `next`, nor `yield from`."""
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]] if frame.f_lasti >= 0 else ""
    if name.startswith(("CALL", "PRECALL")):
        return found.called not in _ASKING
    return name.startswith(("LIST_EXTEND", "SET_UPDATE", "CONTAINS_OP"))


# -- what a frame is in the middle of --------------------------------------------------------------------------------------


def _found(frame: FrameType, at: int, main: Frame | None) -> Midway | None:
    """What a frame of the user's is in the middle of, within the main loop."""
    if not _is_users(frame):
        return None
    return _midway(frame.f_code, at, main[2] if main is not None and id(frame) == main[0] else None)


@functools.lru_cache(maxsize=256)
def _midway(code: CodeType, at: int, within: int | None) -> Midway | None:
    """By the source; None without one."""
    here = _position(code, at)
    tree = _tree(code.co_filename) if here is not None else None
    if tree is None or here is None:
        return None
    return midway.look(tree, here, None if within is None else _position(code, within))


@functools.lru_cache(maxsize=16)
def _rebound(code: CodeType, at: int, nested: int | None) -> frozenset[str]:
    here, behind = _position(code, at), None if nested is None else _position(code, nested)
    tree = _tree(code.co_filename) if here is not None and (behind is None) == (nested is None) else None
    return frozenset() if here is None or tree is None else rebound(tree, here, behind)


def _position(code: CodeType, at: int) -> Position | None:
    first, last, begin, end = next(itertools.islice(code.co_positions(), at // 2, None), (None,) * 4) if at >= 0 else (None,) * 4
    if first is None or last is None or begin is None or end is None:
        return None
    return first, last, begin, end


def _tree(file: str) -> ast.Module | None:
    """What was imported: the file may have been edited since."""
    try:
        return ast.parse(firsts.sources.get(os.path.abspath(file)) or "".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _keeps_nothing(text: str, frame: FrameType) -> bool:
    """Whether a manager is of a library whose managers have nothing to do with the program's state."""
    node: ast.expr = ast.parse(text, mode="eval").body
    is_call = isinstance(node, ast.Call)
    names: list[str] = []
    target = node.func if isinstance(node, ast.Call) else node
    while isinstance(target, ast.Attribute):
        names.append(target.attr)
        target = target.value
    if not isinstance(target, ast.Name):
        return False
    thing = _value_of(target.id, frame)
    for name in reversed(names):
        thing = _attribute(thing, name)
    if isinstance(thing, functools.partial):
        thing = thing.func
    module = getattr(thing, "__module__", None) if is_call else type(thing).__module__
    if not isinstance(module, str):
        module = type(thing).__module__
    called = getattr(thing, "__name__", "")
    return module.partition(".")[0].lstrip("_") in _KNOWN and called not in _STREAMS


def _value_of(name: str, frame: FrameType) -> Any:
    held = variables.variables(frame)
    builtins = vars(sys.modules["builtins"])
    return held[name] if name in held else frame.f_globals.get(name, builtins.get(name))


def _attribute(thing: Any, name: str) -> Any:
    """Without running code of the program."""
    found = inspect.getattr_static(thing, name, None)
    return found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
