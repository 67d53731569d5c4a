"""Devices that this machine does not have: what was on them goes elsewhere, if somebody said so. Imports nothing.

Said once for the process, by a worker that replays a run of a GPU without one; nobody else does.
"""

from __future__ import annotations

_FAR = ("cuda", "xpu", "mps", "hip")

instead: str | None = None
"""Where what was on such a device goes; None: it must be there."""


def is_far(recorded: str) -> bool:
    """Whether a device is none of the processor's.

    >>> is_far("cuda:0"), is_far("cpu"), is_far("meta")
    (True, False, False)
    """
    return recorded.partition(":")[0] in _FAR


def here(recorded: str) -> str:
    """Where something goes that was on a device."""
    return instead if instead is not None and is_far(recorded) else recorded
