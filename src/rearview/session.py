"""Which mode this process is in: off, record (or, later, replay). The one piece of process-wide mutable state.

`api` asks `active`; `record` puts itself there when a run begins. None means that nothing was decided yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol


class Session(Protocol):
    """What the public calls mean in one mode."""

    def log(self, name: str, value: object, volatile: bool) -> None:
        """Keep one record."""

    def arg(self, name: str, default: Any) -> Any:
        """The value of an argument."""

    def loop(self, name: str, iterable: Iterable[Any] | None) -> Iterable[Any]:
        """An iterable that knows where it is."""


class Off:
    """`REARVIEW=off`, or a recording that could not begin: every call has its plain meaning."""

    def log(self, name: str, value: object, volatile: bool) -> None:
        """Nothing."""

    def arg(self, name: str, default: Any) -> Any:
        """The value given on the command line, else the default: a script works the same without recording."""
        from rearview.record import arguments

        return arguments.given().value(name, default)

    def loop(self, name: str, iterable: Iterable[Any] | None) -> Iterable[Any]:
        """The iterable itself."""
        import itertools

        return itertools.count() if iterable is None else iterable


active: Session | None = None
