"""In a worker: a probe that changes nothing. The state before it is held in memory and put back after it, generators last."""

from __future__ import annotations

from collections.abc import Callable

from rearview.record.checkpoints.checkpointing import Checkpointing
from rearview.record.recorder import Recorder
from rearview.record.resume import kept
from rearview.state.scope import REMEMBERED, forget


def hold(recorder: Recorder) -> Callable[[], None]:
    """Take the state as it is now; what puts it back."""
    guard = recorder.guard
    scope = guard.scope if isinstance(guard, Checkpointing) else None
    roots = {} if scope is None else scope.roots()
    held = kept.hold(roots, lambda _: None)

    def put_back() -> None:
        if scope is not None:
            held.put_back(scope)
            forget(key for key in scope.roots() if key[0] in REMEMBERED and key not in roots)
        held.put_streams_back()

    return put_back
