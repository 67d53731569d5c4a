"""Objects whose calls are made later."""

from __future__ import annotations

import threading
from typing import Any


class Writer:
    """Notes what it is told, at a gate that a test can close."""

    kind = "writer"

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[int] = set()
        self.closed = False

    def add(self, value: Any, *more: Any, **named: Any) -> str:
        self.gate.wait(30)
        self.threads.add(threading.get_ident())
        self.seen.append((value, *more, *named.items()) if more or named else value)
        return "not to be had"

    def fail(self, problem: BaseException) -> None:
        self.gate.wait(30)
        raise problem

    def flush(self) -> int:
        return len(self.seen)

    def close(self) -> str:
        self.closed = True
        return "closed"

    def finish(self) -> str:
        return "finished"


class Holding(Writer):
    """Made to hold its calls back: the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.clear()


def of(proxy: Any) -> Any:
    """The object behind a proxy."""
    return proxy._rearview.target


class Broken(Exception):
    pass
