"""Hooks of modules, optimizers and tensors. A state leaves them alone, so those that loops registered or removed are named.

The code before the loop registers its own again; torch numbers all hooks of a process, which tells when one was registered.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from rearview.state.take.attributes import own_dict
from rearview.state.take.walk import Missing, Walk, identity
from rearview.store.encoding import type_name

_OF_OBJECTS = (
    "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks", "_optimizer_step_post_hooks",
    "_optimizer_step_pre_hooks",
)  # fmt: skip
_OF_TENSORS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Where those are that take part in training."""
_MOST = 8
_ADDED = "a hook that was registered in the loop: a resumed run does not have it"
_REMOVED = "a hook was removed in the loop: in a resumed run it is there again"


def note(walk: Walk, value: Any) -> None:
    """Something that may have hooks is being taken."""
    if walk.hooked is not None and any(True for _ in _of(value)):
        walk.hooked.append((walk.at, value))


def _of(value: Any) -> Iterator[tuple[str, Mapping[int, Any]]]:
    """Where something has hooks, by their numbers."""
    namespace = own_dict(value) or {}
    tensor = isinstance(value, sys.modules["torch"].Tensor)
    for name in _OF_TENSORS if tensor else _OF_OBJECTS:
        found = getattr(value, name, None) if tensor else namespace.get(name)
        if found:
            yield name, found


def _next_number() -> int:
    handles = sys.modules.get("torch.utils.hooks")
    return 0 if handles is None else int(handles.RemovableHandle.next_id)


class Hooks:
    """Which hooks there were before the loops, and which numbers belong to loops."""

    def __init__(self) -> None:
        self._loops: list[tuple[int, int]] = []
        self._before: list[tuple[str, weakref.ref[Any], dict[str, frozenset[int]]]] | None = None

    def loop_begins(self) -> None:
        """Hooks registered from now on are not registered again by the code before the loop."""
        self._loops.append((_next_number(), sys.maxsize))

    def loop_ended(self) -> None:
        """Those that come now are."""
        if self._loops:
            self._loops[-1] = (self._loops[-1][0], _next_number())

    def wanted(self) -> bool:
        """Whether the objects have to be looked at: not while no loop has registered a hook. One that was removed is seen without."""
        return self._before is None or any(first < min(last, _next_number()) for first, last in self._loops)

    def look(self, walk: Walk) -> None:
        """Everything was walked: keep what there is, the first time; name what loops have changed."""
        there = [(walk.where(number), value) for number, value in walk.hooked or ()]
        if self._before is None:
            self._before = [(where, weakref.ref(value), {name: frozenset(hooks) for name, hooks in _of(value)}) for where, value in there]
        found = [
            Missing(f"{where}.{name}", type_name(hook), _ADDED)
            for where, value in there
            for name, hooks in _of(value)
            for number, hook in list(hooks.items())
            if any(first <= number < last for first, last in self._loops)
        ]
        for where, ref, before in self._before:
            for name, numbers in before.items():
                now = getattr(ref(), name, None)
                if now is not None and not numbers <= now.keys() and identity(now) not in walk.memo:  # a handle that is kept puts it back
                    found.append(Missing(f"{where}.{name}", "hook", _REMOVED))
        walk.missing.extend(found[:_MOST])
