"""Functions, closures, methods, weak references, Python's random generators and open files going back."""

from __future__ import annotations

import array
import io
import os
import random
import sys
import types
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rearview.state.put.kind import ABSENT, InPlace, Kind, Pairs, identical, sequence
from rearview.state.put.objects import adopt, fill_attributes, match_attributes
from rearview.state.take.functions import told_by
from rearview.state.tree import NONE, NOTHING

if TYPE_CHECKING:
    from rearview.state.restore import Job, Plan

_CELLS_AT = 10


class Function(Kind):
    """A function that has no name of its own in a module.

    Payload: module, name of the code, line, digest; name, qualified name, module; defaults, keyword defaults, attributes; cells.
    """

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        cells = payload[_CELLS_AT:]
        if type(live) is not types.FunctionType:
            return None
        module, name, line, digest = (plan.plain(number) for number in payload[:4])
        if not plan.names.same_code(live.__code__, str(module), name, line, digest, len(cells)):
            return None
        own = [live.__defaults__, live.__kwdefaults__, live.__dict__ if payload[9] != NONE else None]
        pairs = [(number, value) for number, value in zip(payload[7:10], own, strict=True) if value is not None]
        return [*pairs, *zip(cells, live.__closure__ or (), strict=True)]

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        if live is not ABSENT or _code(plan, payload) is not None:
            return None
        return f"the function {plan.plain(payload[1])} of {plan.plain(payload[0])} is not in the code that runs now"

    def early(self, payload: Any) -> Sequence[int]:
        return [*payload[:7], *payload[_CELLS_AT:]]

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        cells = tuple(job.made[number] for number in payload[_CELLS_AT:])
        if live is not ABSENT and identical(cells, live.__closure__ or ()):
            return live
        module, name = job.made[payload[0]], job.made[payload[4]]
        if live is not ABSENT:  # it closes over cells that others do not share as recorded; those of a function cannot be changed
            return types.FunctionType(live.__code__, live.__globals__, name, None, cells)
        code = _code(job.plan, payload)
        assert code is not None
        return types.FunctionType(code, vars(sys.modules[module]), name, None, cells)

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        defaults, by_name, attributes = (job.made[number] for number in payload[7:10])
        if made.__defaults__ is not defaults:
            made.__defaults__ = defaults
        if made.__kwdefaults__ is not by_name:
            made.__kwdefaults__ = by_name
        if isinstance(attributes, dict) and made.__dict__ is not attributes:
            made.__dict__ = attributes
        elif payload[9] == NONE and made.__dict__:
            made.__dict__.clear()
        if made is not live:
            made.__qualname__, made.__module__ = job.made[payload[5]], job.made[payload[6]]


def _code(plan: Plan, payload: Any) -> types.CodeType | None:
    module, name, line, digest = (plan.plain(number) for number in payload[:4])
    return plan.names.code(str(module), name, line, digest, len(payload) - _CELLS_AT)


class Cell(InPlace):
    """What a closure holds; it is written into the live cell, which other closures and a running function may share."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if type(live) is not types.CellType:
            return None
        try:
            return ((payload[0], live.cell_contents),)
        except ValueError:
            return ()

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return types.CellType() if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        value = job.made[payload[0]]
        if payload[0] == NOTHING:
            try:
                del made.cell_contents
            except ValueError:
                pass  # empty already
        elif value is not ABSENT:
            made.cell_contents = value


class Method(Kind):
    """A method of an object."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return list(zip(payload, (live.__func__, live.__self__), strict=True)) if type(live) is types.MethodType else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        function, owner = (job.made[number] for number in payload)
        if function is ABSENT or owner is ABSENT:
            return live
        if live is not ABSENT and live.__func__ is function and live.__self__ is owner:
            return live
        return types.MethodType(function, owner)


class BuiltinMethod(Kind):
    """A method, written in C, of an object."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return ((payload[0], live.__self__),) if isinstance(live, types.BuiltinFunctionType) else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        owner, name = (job.made[number] for number in payload)
        if owner is ABSENT:
            return live
        return live if live is not ABSENT and live.__self__ is owner and live.__name__ == name else getattr(owner, name)


class _Gone:
    __slots__ = ("__weakref__",)


class WeakReference(Kind):
    """A weak reference."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if type(live) is not weakref.ref:
            return None
        target = live()
        return () if target is None else ((payload[0], target),)

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        target = job.made[payload[0]]
        if payload[0] == NOTHING or target is ABSENT:
            return weakref.ref(_Gone())
        return live if live is not ABSENT and live() is target else weakref.ref(target)


class Weakly(InPlace):
    """A dict that holds things weakly. Payload: class, then keys and values; states of an earlier day have sets of this kind, too."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], object):
            return None
        if isinstance(live, weakref.WeakSet):
            return plan.elements(payload[1:], list(live))
        return plan.entries(payload[1::2], payload[2::2], dict(live.items()))

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return job.named(payload[0])() if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        items = sequence(job, payload[1:])
        made.clear()
        if isinstance(made, weakref.WeakSet):
            made.update(items)
        else:
            made.update(zip(items[::2], items[1::2], strict=True))


class WeakSet(InPlace):
    """A set that holds its elements weakly. Payload: class, None, elements."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return plan.elements(payload[2:], list(live)) if plan.fits(live, payload[0], object) else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return job.named(payload[0])() if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        made.clear()
        made.update(sequence(job, payload[2:]))


class Random(InPlace):
    """Python's random generator. Put back after everything else, which may draw from it."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return match_attributes(plan, payload[4:], live) if plan.fits(live, payload[0], object) else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        if live is not ABSENT:
            return live
        fresh = random.Random.__new__(job.named(payload[0]))
        adopt(job, payload[4:], fresh)
        return fresh

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        fill_attributes(job, payload[4:], made)
        version, packed, gauss = (job.made[number] for number in payload[1:4])
        job.at_last(lambda: random.Random.setstate(made, (version, tuple(array.array("I", packed)), gauss)))


class File(Kind):
    """An open file: the live one of the same name is set to the same place; one of another name stays where it is, and takes what is
    written from now on. A closed one is made anew, and nothing done to its path."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], object):
            return None
        if payload[3] != NONE:
            return () if _is_named(live, plan.plain(payload[1])) or not live.closed else None
        same = _is_named(live, plan.plain(payload[1])) and live.closed and told_by(live, "mode") == plan.plain(payload[2])
        return () if same else None

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        if payload[3] != NONE and (live is ABSENT or not _is_named(live, plan.plain(payload[1]))):
            plan.note(number, "file", f"the file {plan.plain(payload[1])} is not open now")
        return None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind, (name, mode, position) = job.named(payload[0]), (job.made[number] for number in payload[1:4])
        if position is None:
            return _closed(kind, name, mode) if live is ABSENT else live
        if live is not ABSENT and _is_named(live, name) and not live.closed and live.seekable():
            job.at_last(lambda: live.seek(position))
        return live


def _is_named(file: Any, name: str) -> bool:
    return told_by(file, "name") == name


def _closed(kind: type, name: str, mode: str) -> Any:
    """A closed file as `open` would have left it, or the `open` of a module that compresses; absent if it was made in another way."""

    def nothing(path: str, flags: int) -> int:
        return os.open(path, flags & os.O_ACCMODE)

    bare = kind is io.TextIOWrapper and not mode  # text over something that is no plain file
    if bare and not name:
        made: Any = io.TextIOWrapper(io.BytesIO())
        made.close()
        return made
    try:
        made = open(os.devnull, "rb" if bare else mode, 0 if kind is io.FileIO else -1, opener=nothing)  # noqa: SIM115 (closed below)
    except (OSError, ValueError):
        return ABSENT
    if bare:
        made = io.TextIOWrapper(made, "utf-8")
    with made:
        getattr(getattr(made, "buffer", made), "raw", made).name = name
    return made if type(made) is kind else ABSENT


KINDS: dict[str, Kind] = {
    "func": Function(), "cell": Cell(), "method": Method(), "bmethod": BuiltinMethod(), "weakref": WeakReference(),
    "weakly": Weakly(), "weakset": WeakSet(),
    "random": Random(), "file": File(),
}  # fmt: skip
