"""A stand-in for a loader while torch makes an iterator of it, and for the way worker processes are started.

Answers every question as the loader would, but for those it was told otherwise. So nothing of the loader needs to be changed and
put back, and what the program sees of it (`collate_fn`, `worker_init_fn`, its context) is what the program set.
"""

from __future__ import annotations

import sys
from typing import Any

from rearview.state.loading.worker import Loop, Start


class StandIn:
    """A loader, with some attributes otherwise."""

    def __init__(self, loader: Any, **otherwise: Any) -> None:
        self.__dict__.update(otherwise)
        self.__dict__["_rearview_loader"] = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_rearview_loader"], name)


class _Context:
    """A way of starting processes whose workers carry their streams."""

    def __init__(self, context: Any, start: Start | None) -> None:
        self._context = context
        self._start = start

    def Process(self, target: Any, args: tuple[Any, ...]) -> Any:
        return self._context.Process(target=Loop(target, self._start), args=args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def carrying(loader: Any, start: Start | None = None) -> _Context:
    """The loader's way of starting processes, with streams that travel."""
    context = loader.multiprocessing_context
    return _Context(sys.modules["torch.multiprocessing"] if context is None else context, start)
