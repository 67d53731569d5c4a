"""In a worker: a probe that changes nothing. The state before it is held in memory and put back after it, generators last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rearview.record import staging
from rearview.record.checkpointing import Checkpointing
from rearview.record.kept import NOW, Held
from rearview.record.recorder import Recorder
from rearview.state import positions, streams
from rearview.state.capture import capture


class _Copies:
    """The bytes of a state in memory."""

    def __init__(self, views: Sequence[memoryview]) -> None:
        self._views = views

    def into(self, index: int, dest: memoryview) -> None:
        """The bytes of a buffer."""
        dest[:] = self._views[index]

    def size(self, index: int) -> int:
        """How many there are."""
        return self._views[index].nbytes


def hold(recorder: Recorder) -> Callable[[], None]:
    """Take the state as it is now; what puts it back."""
    guard = recorder.guard
    scope = guard.scope if isinstance(guard, Checkpointing) else None
    roots = {} if scope is None else scope.roots()
    roots[NOW] = streams.take()
    captured = capture(roots, adapters=[positions.Iterators()])
    copies = [buffer for buffer in captured.buffers if not buffer.private]
    staged = dict(zip(map(id, copies), staging.copy(copies, staging.Arena()), strict=True))
    views = [staged[id(buffer)] if id(buffer) in staged else buffer.memory() for buffer in captured.buffers]
    held = Held(captured.tree, _Copies(views), lambda _: None)

    def put_back() -> None:
        if scope is not None:
            held.put_back(scope)
        held.put_streams_back()

    return put_back
