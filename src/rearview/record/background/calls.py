"""What a call in the background is, which calls of a wrapped object are queued, and what is kept of their arguments.

The plain way; TensorBoard has its own. Decides and copies; it neither queues nor makes calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rearview.record.background.arguments import Copier, Uncopyable, nbytes_of

CALL_BYTES = 256
"""What a call without any large argument counts."""
AFTER_THE_OTHERS = frozenset({"flush", "close"})
"""Methods that are made by the caller once everything before them was made, and whose result is given."""


@dataclass(slots=True, eq=False)
class Call:
    """One call that waits, or was made."""

    run: Callable[[], Any]
    nbytes: int
    label: str
    """`SummaryWriter.add_histogram`, for messages."""
    where: tuple[str, int]
    """File and line that asked for it."""
    prepare: Callable[[], Any] | None = None
    """The part that needs no order. Several threads may do it at once, and more than once: that has to be all the same."""
    number: int = 0
    value: Any = None
    error: BaseException | None = None
    done: bool = False
    _claimed: bool = False

    def is_open(self) -> bool:
        """Whether it is to be prepared, and nobody has begun."""
        return self.prepare is not None and not self._claimed

    def is_ready(self) -> bool:
        """Whether nothing is left to prepare."""
        return self.prepare is None

    def get_ready(self) -> None:
        """Prepare it, unless that was done."""
        prepare = self.prepare
        if prepare is None:
            return
        self._claimed = True
        try:
            prepare()
        except Exception as problem:  # noqa: BLE001 (whatever is raised belongs to the call)
            self.error = problem
        self.prepare = None

    def drop(self) -> None:
        """Let go of the arguments."""
        self.run, self.prepare = _nothing, None


def _nothing() -> None:
    return None


class Kept(NamedTuple):
    """A call with its arguments as they were."""

    run: Callable[[], Any]
    """To be run in its turn."""
    prepare: Callable[[], Any] | None = None
    """To be run before that, by any thread; see `Call.prepare`."""


class Asked(NamedTuple):
    """A call that was asked for."""

    nbytes: int
    """What its arguments will take."""
    keep: Callable[[], Kept]
    """Copies the arguments, once there is room. Raises `Uncopyable`."""


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

    def idle(self) -> None:
        """Nothing waits any more: what was put off is done."""

    def closed(self) -> None:
        """The object was closed: nothing needs to be held for it."""

    def forget(self) -> None:
        """In a forked child: what a thread of the parent's may have been using."""


def keep(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
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

    return Kept(run)


def moment() -> float:
    """Wall time, for records that carry the time of the call."""
    return time.time()
