"""In a worker: a probe that changes nothing. The state before it is held in memory and put back after it, generators last."""

from __future__ import annotations

from collections.abc import Callable

from rearview.record import kept
from rearview.record.checkpointing import Checkpointing
from rearview.record.recorder import Recorder


def hold(recorder: Recorder) -> Callable[[], None]:
    """Take the state as it is now; what puts it back."""
    guard = recorder.guard
    scope = guard.scope if isinstance(guard, Checkpointing) else None
    held = kept.hold({} if scope is None else scope.roots(), lambda _: None)

    def put_back() -> None:
        if scope is not None:
            held.put_back(scope)
        held.put_streams_back()

    return put_back
