"""Objects of any class going back: attributes in place, or by the class's own protocol; names; what stays live."""

from __future__ import annotations

import contextvars
import importlib
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rearview.state import compiled, parametrized
from rearview.state.iterating.shared import brought_on
from rearview.state.put import ended
from rearview.state.put.containers import fill_dict
from rearview.state.put.kind import ABSENT, InPlace, Kind, Pairs
from rearview.state.put.modules import become, becomes, begin, complete, takes_class
from rearview.state.take import classes
from rearview.state.take.attributes import own_dict, slot_members
from rearview.state.take.objects import reduced
from rearview.state.tree import NONE, NOTHING
from rearview.store.encoding import type_name

if TYPE_CHECKING:
    from rearview.state.restore import Job, Plan

_MADE_BY_PYTHON = 1 << 9
"""The flag of classes that a `class` statement made."""
_NAME = 2
"""Module and qualified name."""


def match_attributes(plan: Plan, payload: Any, live: Any) -> Pairs:
    """The attributes of a live object beside the recorded ones."""
    found: list[tuple[int, Any]] = []
    if payload[0] != NONE:
        namespace = own_dict(live)
        if namespace is not None:
            found.append((payload[0], namespace))
    members = dict(slot_members(type(live)))
    for name, value in zip(payload[1::2], payload[2::2], strict=True):
        member = members.get(plan.plain(name))
        if member is not None:
            try:
                found.append((value, member.__get__(live, type(live))))
            except AttributeError:
                pass  # the slot is empty
    return found


def adopt(job: Job, payload: Any, fresh: Any) -> None:
    """The `__dict__` of a new object takes the recorded attributes in place."""
    if payload[0] != NONE and payload[0] not in job.lives:
        namespace = own_dict(fresh)
        if namespace is not None:
            job.lives[payload[0]] = namespace


def fill_attributes(job: Job, payload: Any, made: Any) -> None:
    """Slots and `__dict__`, past whatever the class does when an attribute is set."""
    if payload[0] != NONE:
        namespace = job.made[payload[0]]
        if own_dict(made) is not namespace and isinstance(namespace, dict):
            object.__setattr__(made, "__dict__", namespace)
    members = dict(slot_members(type(made))) if len(payload) > 1 else {}
    for name, number in zip(payload[1::2], payload[2::2], strict=True):
        member, value = members.get(job.made[name]), job.made[number]
        if member is None:
            continue
        if number == NOTHING:
            try:
                member.__delete__(made)
            except AttributeError:
                pass  # empty already
        elif value is not ABSENT:
            member.__set__(made, value)


class Object(InPlace):
    """An object that is its attributes."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], object):
            kind = plan.names.of(payload[0])
            if not becomes(type(live), kind) and not (plan.got_another_class(payload) and takes_class(live, kind)):
                return None
        return match_attributes(plan, payload[1:], live)

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        if live is not ABSENT:
            if type(live) is not job.named(payload[0]):
                become(live, job.named(payload[0]))
            return live
        fresh = begin(job.named(payload[0]))
        adopt(job, payload[1:], fresh)
        return fresh

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        fill_attributes(job, payload[1:], made)
        if live is ABSENT:
            complete(made)


class Extra(InPlace):
    """The attributes of an object whose content is kept elsewhere: put in by the kind of that object."""

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return None


class Attributes(InPlace):
    """An object's `__dict__`; the first child names what is not ours to touch."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        return plan.entries(payload[1::2], payload[2::2], live) if type(live) is dict else None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return {} if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        leave = frozenset(job.made[payload[0]]) if payload[0] != NONE else frozenset()
        fill_dict(job, payload[1::2], payload[2::2], made, leave)


class GetSet(InPlace):
    """An object that gives out its state and takes it back."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], object):
            return None
        try:
            state = live.__getstate__()
        except Exception:  # noqa: BLE001 (the user's code; the state goes in all the same)
            return ()
        plan.keep.append(state)
        return ((payload[1], state),)

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        kind = job.named(payload[0])
        return kind.__new__(kind) if live is ABSENT else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        made.__setstate__(job.made[payload[1]])


class Reduced(Kind):
    """An object that is copied by a call, and perhaps a state put in afterwards.

    Payload: class, function, arguments, state, items, pairs, what puts the state in.
    """

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if not plan.fits(live, payload[0], object):
            return None
        try:
            answer, again = reduced(live), reduced(live)
        except Exception:  # noqa: BLE001 (the user's code: then it is rebuilt)
            return None
        if isinstance(answer, str) or not _same(answer[1], again[1]):
            return None  # arguments made for the occasion say nothing about the object
        parts = (*answer, *[None] * (6 - len(answer)))
        plan.keep.append(parts)
        items = [ABSENT if part is None else list(part) for part in parts[3:5]]
        plan.keep.append(items)
        plan.asked[id(live)] = (*parts, names_in(parts[2]))
        return [(payload[1], parts[0]), (payload[2], parts[1]), (payload[3], parts[2]), *zip(payload[4:6], items, strict=True)]

    def early(self, payload: Any) -> Sequence[int]:
        return [*payload[:3], payload[6]]

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        function, args = job.made[payload[1]], job.made[payload[2]]
        if live is not ABSENT:
            parts = job.plan.asked[id(live)]
            if parts[0] is function and _same(parts[1], args) and (payload[3] != NONE or parts[2] is None):
                return live
            if hasattr(type(live), "__next__") and parts[0] is function and brought_on(live, function, args, job.made[payload[3]]):
                return live  # a loop may run over it
        kind, parts = job.plan.nodes[payload[2]]
        if kind == "tuple" and any(job.made[number] is ABSENT for number in parts[2:]):
            return live  # it was made with something that no state holds
        if ended.is_ended(function, args, payload[3] != NONE):
            return ended.at_end(job.named(payload[0]) if payload[0] != NONE else None, function, args)
        return _raised(function, args) if isinstance(function, type) and issubclass(function, BaseException) else function(*args)

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        state, items, pairs, setter = (job.made[number] for number in payload[3:])
        if items is not None and items is not ABSENT:
            made[:] = items
        if pairs is not None and pairs is not ABSENT:
            made.clear()
            for key, value in pairs:
                made[key] = value
        if payload[3] != NONE and state is not ABSENT:
            put_state(made, state, setter, job.plan.asked[id(live)][-1] if made is live else ())


def _raised(kind: Any, args: Any) -> Any:
    """An exception with its arguments, past code of the program: that may want others, and have made these of them."""
    base = kind
    while base.__flags__ & _MADE_BY_PYTHON:
        base = base.__base__
    made = base.__new__(kind, *args)
    base.__init__(made, *args)
    return made


def _same(first: Any, second: Any) -> bool:
    """Whether two arguments are the same objects, or plain values that are equal."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, tuple):
        return len(first) == len(second) and all(_same(a, b) for a, b in zip(first, second, strict=True))
    return isinstance(first, (str, int, bytes, range)) and bool(first == second)


def names_in(state: Any) -> tuple[str, ...]:
    """The attributes that a state has, if it is one that goes into the `__dict__`."""
    state = state[0] if isinstance(state, tuple) and len(state) == 2 else state
    return tuple(state) if isinstance(state, dict) else ()


def put_state(made: Any, state: Any, setter: Any, had: Iterable[str]) -> None:
    """What `pickle` would do with a state, in place. What else was in the state that it `had` goes; what it was made with stays."""
    if setter is not None and setter is not ABSENT:
        setter(made, state)
    elif hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        slots = None
        if isinstance(state, tuple) and len(state) == 2:
            state, slots = state
        namespace = own_dict(made)
        if isinstance(state, dict) and namespace is not None and namespace is not state:
            for name in had:
                namespace.pop(name, None)
            namespace.update(state)
        for name, value in (slots or {}).items():
            object.__setattr__(made, name, value)


class Reference(Kind):
    """A class, function or other object by its name; behind it, of a class made inside a function, what it holds."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if len(payload) == _NAME:
            return ()
        if not isinstance(live, type) or (live.__module__, live.__qualname__) != (plan.plain(payload[0]), plan.plain(payload[1])):
            return None
        have = dict(classes.held_by(live))
        labels = [plan.plain(number) for number in payload[_NAME::2]]
        return [(number, have[label]) for label, number in zip(labels, payload[_NAME + 1 :: 2], strict=True) if label in have]

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        return plan.names.problems.get(number) if plan.names.of(number, live) is ABSENT else None

    def early(self, payload: Any) -> Sequence[int]:
        return ()

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        raise AssertionError("names are found before anything is made")

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        if len(payload) == _NAME:
            return
        then = {job.made[label]: job.made[number] for label, number in zip(payload[_NAME::2], payload[_NAME + 1 :: 2], strict=True)}
        for label, held in list(classes.held_by(made)):
            if label not in then and classes.is_data(label, held):
                type.__delattr__(made, label)
        for label, value in then.items():
            if label == parametrized.TENSORS:
                parametrized.give(made, value, begin)
            elif value is not ABSENT and not label.startswith(classes.BASE):
                classes.put(made, label, value)


class Module(Kind):
    """A module by its name."""

    shared = True

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        name = plan.plain(payload[0])
        try:
            importlib.import_module(name)
        except Exception as problem:  # noqa: BLE001 (importing runs code of the user's)
            return f"the module {name} cannot be imported ({type(problem).__name__}: {problem})"
        return None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return sys.modules[job.made[payload[0]]]


class Live(Kind):
    """Something that is not kept: it stays what it is, but for what it runs over or was compiled from, or the value of the context."""

    shared = True

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        if payload[2] != NONE and type_name(live) != plan.plain(payload[0]):
            return None  # it can be made, and this is something else
        if isinstance(live, contextvars.ContextVar):
            context = contextvars.copy_context()
            return ((payload[3], context[live]),) if live in context and payload[3:] else ()
        within = compiled.original(live)
        if within is None and not hasattr(live, "iterable"):
            return None if payload[2] != NONE and payload[3:] else ()  # a function that is not compiled
        return [(number, live.iterable if within is None else within) for number in payload[3:]]

    def early(self, payload: Any) -> Sequence[int]:
        return payload[:3]  # type: ignore[no-any-return]

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        if live is ABSENT and payload[2] == NONE:
            plan.note(number, str(plan.plain(payload[0])), f"{plan.plain(payload[1])}; there is none now")
        return None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        return job.made[payload[2]]() if live is ABSENT and payload[2] != NONE else live

    def fill(self, job: Job, payload: Any, made: Any, live: Any) -> None:
        if isinstance(made, contextvars.ContextVar) and payload[3:] and payload[3] != NOTHING:
            made.set(job.made[payload[3]])


class Adapted(Kind):
    """What an adapter knows how to put back."""

    def match(self, plan: Plan, payload: Any, live: Any) -> Pairs | None:
        adapter = plan.adapters.get(plan.plain(payload[0]))
        return () if adapter is not None and adapter.fits(type(live)) else None

    def check(self, plan: Plan, number: int, payload: Any, live: Any) -> str | None:
        name = plan.plain(payload[0])
        if name not in plan.adapters:
            return f"nobody knows how to put back what {name} took"
        if live is ABSENT:
            plan.note(number, str(name), "there is none now")
        return None

    def build(self, job: Job, payload: Any, live: Any) -> Any:
        adapter = job.plan.adapters[job.made[payload[0]]]
        made = adapter.put(None if live is ABSENT else live, job.made[payload[2]])
        return ABSENT if made is None else made


KINDS: dict[str, Kind] = {
    "obj": Object(), "extra": Extra(), "attrs": Attributes(), "getset": GetSet(), "reduce": Reduced(), "ref": Reference(),
    "module": Module(), "live": Live(), "adapted": Adapted(),
}  # fmt: skip
