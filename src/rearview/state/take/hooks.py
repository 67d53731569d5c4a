"""Hooks of modules, optimizers and tensors. The code before the loop registers its own again, so a state leaves them alone;
of what loops changed, it has all hooks. So it has of what got another class in a loop, which says that it is the object that it was, and
of what was put into another module.

Torch numbers all hooks of a process, which tells when one was registered. Handles hold these numbers and the dicts they are in.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rearview.state.take.attributes import own_dict
from rearview.state.take.walk import Walk, identity
from rearview.state.tree import BESIDE, NONE

KEY = (BESIDE[1], "hooks")
"""The next number, and what has other hooks or another class than the code before the loops gave it: each with its hooks, by attribute,
and whether it has another class."""
_OF_OBJECTS = (
    "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks", "_optimizer_step_post_hooks",
    "_optimizer_step_pre_hooks",
)  # fmt: skip
_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Where those are that take part in training."""
_ALONG = ("_forward_hooks_always_called", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_is_full_backward_hook")
"""How a module calls them."""


def note(walk: Walk, value: Any) -> None:
    """Something that may have hooks is being taken. Modules and optimizers that have none may get another class."""
    if walk.hooked is not None and (not _is_tensor(value) or any(True for _ in _of(value))):
        walk.hooked.append((walk.at, value))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)


def _of(value: Any) -> Iterator[tuple[str, Mapping[int, Any]]]:
    """Where something has hooks, by their numbers."""
    namespace = own_dict(value) or {}
    tensor = _is_tensor(value)
    for name in _OF_TENSORS if tensor else _OF_OBJECTS:
        found = getattr(value, name, None) if tensor else namespace.get(name)
        if found:
            yield name, found


def _all(value: Any) -> dict[str, Any]:
    """All that an object has of hooks, by attribute: the very dicts, which handles refer to."""
    if _is_tensor(value):
        return {name: getattr(value, name) for name in _OF_TENSORS}
    namespace = own_dict(value) or {}
    return {name: namespace[name] for name in (*_OF_OBJECTS, *_ALONG) if name in namespace}


def _has(value: Any, name: str, numbers: frozenset[int]) -> bool:
    return numbers <= (getattr(value, name, None) or {}).keys()


def _next_number() -> int:
    handles = sys.modules.get("torch.utils.hooks")
    return 0 if handles is None else int(handles.RemovableHandle.next_id)


def _holder(walk: Walk, number: int) -> int:
    """The node of the object that holds something."""
    return next((above for above in walk.places.above(number) if walk.nodes[above][0] == "obj"), NONE)


@dataclass(frozen=True, slots=True)
class _Before:
    """An object as the code before the loops left it."""

    value: weakref.ref[Any]
    kind: type
    numbers: dict[str, frozenset[int]]
    """Of its hooks, by attribute."""
    holder: weakref.ref[Any] | None
    """The module that it was in."""

    @staticmethod
    def of(value: Any, holder: Any) -> _Before:
        numbers = {name: frozenset(hooks) for name, hooks in _of(value)}
        return _Before(weakref.ref(value), type(value), numbers, None if holder is None else weakref.ref(holder))

    def lacks(self, value: Any) -> bool:
        """Whether a hook was removed."""
        return any(not _has(value, name, numbers) for name, numbers in self.numbers.items())

    def is_moved(self, value: Any, walk: Walk) -> bool:
        """Whether a module with hooks is in another one now: what stands in its old place after the code before is not put there."""
        if not self.numbers or self.holder is None or _is_tensor(value):  # optimizers hold tensors too
            return False
        number = walk.memo.get(identity(value))
        if number is None:
            return False
        holder, now = self.holder(), _holder(walk, number)
        return now != NONE and (holder is None or walk.memo.get(identity(holder)) != now)


class Hooks:
    """Which hooks there were before the loops, which numbers belong to loops, and what they changed."""

    def __init__(self) -> None:
        self._loops: list[tuple[int, int]] = []
        self._before: list[_Before] | None = None
        self._changed: dict[int, tuple[weakref.ref[Any], bool]] = {}
        """By id; with whether it got another class."""

    def loop_begins(self, put_back: Iterable[tuple[Any, bool]] = ()) -> None:
        """Hooks registered from now on are not registered again by the code before the loop. `put_back`: whose hooks are from a state, and
        whether its class is."""
        self._loops.append((_next_number(), sys.maxsize))
        for value, of_another_class in put_back:
            self._note_changed(value, of_another_class)

    def loop_ended(self) -> None:
        """Those that come now are."""
        if self._loops:
            self._loops[-1] = (self._loops[-1][0], _next_number())

    def wanted(self) -> bool:
        """Whether the objects have to be looked at: not while no loop has registered a hook. One that was removed is seen without."""
        return self._before is None or any(first < min(last, _next_number()) for first, last in self._loops)

    def look(self, walk: Walk) -> None:
        """Everything was walked: keep what there is, the first time; take what loops have changed."""
        there = [value for _, value in walk.hooked or ()]
        if self._before is None:
            met = dict(walk.hooked or ())
            self._before = [_Before.of(value, met.get(_holder(walk, number))) for number, value in walk.hooked or ()]
        for value in there:
            if any(first <= number < last for _, hooks in _of(value) for number in list(hooks) for first, last in self._loops):
                self._note_changed(value)
        for before in self._before:
            value = before.value()
            if value is None:
                continue
            if type(value) is not before.kind or before.lacks(value) or before.is_moved(value, walk):
                self._note_changed(value, type(value) is not before.kind)
        owners = [(value, other) for ref, other in self._changed.values() if (value := ref()) is not None and identity(value) in walk.memo]
        if owners:
            walk.root(KEY, [_next_number(), [[value, _all(value), other] for value, other in owners]])

    def _note_changed(self, value: Any, of_another_class: bool = False) -> None:
        if _is_tensor(value) and not value.is_leaf:
            return  # it comes back as a value, which nothing goes back through
        ref, before = self._changed.get(id(value), (None, False))
        known = ref is not None and ref() is value
        self._changed[id(value)] = weakref.ref(value), of_another_class or (known and before)
