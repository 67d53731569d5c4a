"""Hooks of modules, optimizers and tensors. The code before the loop registers its own again, so a state leaves them alone;
of what loops changed, it has all hooks.

Torch numbers all hooks of a process, which tells when one was registered. Handles hold these numbers and the dicts they are in.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rearview.state.take.attributes import own_dict
from rearview.state.take.walk import Walk, identity
from rearview.state.tree import BESIDE

KEY = (BESIDE[1], "hooks")
"""The next number, and what has other hooks than the code before the loops gave it: each with these hooks, by attribute."""
_OF_OBJECTS = (
    "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks", "_optimizer_step_post_hooks",
    "_optimizer_step_pre_hooks",
)  # fmt: skip
_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Where those are that take part in training."""
_ALONG = ("_forward_hooks_always_called", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_is_full_backward_hook")
"""How a module calls them."""


def note(walk: Walk, value: Any) -> None:
    """Something that may have hooks is being taken."""
    if walk.hooked is not None and any(True for _ in _of(value)):
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


def _next_number() -> int:
    handles = sys.modules.get("torch.utils.hooks")
    return 0 if handles is None else int(handles.RemovableHandle.next_id)


class Hooks:
    """Which hooks there were before the loops, which numbers belong to loops, and what they changed."""

    def __init__(self) -> None:
        self._loops: list[tuple[int, int]] = []
        self._before: list[tuple[weakref.ref[Any], dict[str, frozenset[int]]]] | None = None
        self._changed: dict[int, weakref.ref[Any]] = {}

    def loop_begins(self, put_back: Iterable[Any] = ()) -> None:
        """Hooks registered from now on are not registered again by the code before the loop. `put_back`: whose hooks are from a state."""
        self._loops.append((_next_number(), sys.maxsize))
        for value in put_back:
            self._note_changed(value)

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
            self._before = [(weakref.ref(value), {name: frozenset(hooks) for name, hooks in _of(value)}) for value in there]
        for value in there:
            if any(first <= number < last for _, hooks in _of(value) for number in list(hooks) for first, last in self._loops):
                self._note_changed(value)
        for ref, before in self._before:
            value = ref()
            if value is not None and any(not numbers <= (getattr(value, name, None) or {}).keys() for name, numbers in before.items()):
                self._note_changed(value)
        owners = [value for ref in self._changed.values() if (value := ref()) is not None and identity(value) in walk.memo]
        if owners:
            walk.root(KEY, [_next_number(), [[value, _all(value)] for value in owners]])

    def _note_changed(self, value: Any) -> None:
        if _is_tensor(value) and not value.is_leaf:
            return  # it comes back as a value, which nothing goes back through
        known = self._changed.get(id(value))
        if known is None or known() is not value:
            self._changed[id(value)] = weakref.ref(value)
