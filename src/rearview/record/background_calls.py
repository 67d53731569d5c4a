"""Which calls of a wrapped object are queued, and what is kept of their arguments. The plain way; TensorBoard has its own.

Decides and copies; it neither queues nor makes calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rearview.record.background_arguments import Copier, Uncopyable, nbytes_of
from rearview.record.background_queue import CALL_BYTES

AFTER_THE_OTHERS = frozenset({"flush", "close"})
"""Methods that are made by the caller once everything before them was made, and whose result is given."""


class Asked(NamedTuple):
    """A call that was asked for."""

    nbytes: int
    """What its arguments will take."""
    keep: Callable[[], Callable[[], Any]]
    """Copies the arguments, once there is room, and gives what is to be run. Raises `Uncopyable`."""


class Plain:
    """Any object or function: every method is queued but those that wait."""

    def __init__(self, target: Any, wait: Iterable[str] = ()) -> None:
        self.target = target
        self.waits = AFTER_THE_OTHERS | frozenset(wait)

    def is_queued(self, name: str) -> bool:
        """Whether a method's calls go into the queue."""
        return name not in self.waits

    def ask(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Asked:
        """A call of a method (or, with an empty name, of the function itself)."""
        size = CALL_BYTES + nbytes_of(args) + nbytes_of(kwargs)
        return Asked(size, lambda: keep(method, args, kwargs))

    def closed(self) -> None:
        """The object was closed: nothing needs to be held for it."""

    def forget(self) -> None:
        """In a forked child: what a thread of the parent's may have been using."""


def keep(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
    """The call with its arguments as they are now."""
    copier = Copier()
    try:
        now, named = tuple(map(copier.of, args)), {key: copier.of(value) for key, value in kwargs.items()}
    except RecursionError as problem:
        raise Uncopyable("nested too deeply") from problem
    arrivals = copier.arrivals

    def run() -> Any:
        for arrived in arrivals:
            arrived()
        return method(*now, **named)

    return run


def moment() -> float:
    """Wall time, for records that carry the time of the call."""
    return time.time()
