"""Which mode this process is in: off, record (or, later, replay). The one piece of process-wide mutable state.

`api` asks `active`; `record` puts itself there when a run begins. None means that nothing was decided yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, Protocol


class Session(Protocol):
    """What the public calls mean in one mode."""

    def log(self, name: str, value: object, volatile: bool) -> None:
        """Keep one record."""

    def arg(self, name: str, default: Any) -> Any:
        """The value of an argument."""

    def checkpointing(self, given: dict[str, object], frame: FrameType) -> AbstractContextManager[Any]:
        """The state of the program is kept at the boundaries of the loops inside."""

    def skip_block(self, name: str) -> Any:
        """A block of the program whose end state is kept."""

    def loop(self, name: str, iterable: Iterable[Any] | None) -> Iterable[Any]:
        """An iterable that knows where it is."""


active: Session | None = None

lock = threading.RLock()
"""Held while a run begins or ends, and across a fork: a child must not find one half begun by a thread it does not have."""
