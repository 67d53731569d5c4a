"""What tests of kept values share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Trip = Callable[[Any], Any]
"""Logs a value and gives what the table holds."""


def same_array(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    assert a.dtype == b.dtype
    assert a.dtype.str == b.dtype.str
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()
