"""An exception is the same state whether or not somebody has looked at its attributes."""

from __future__ import annotations

from rearview.state.capture import capture
from rearview.state.digests import root_digests
from rearview.state.tree import RootKey

KEY: RootKey = ("global", "m", "error")


def digest(error: Exception) -> str:
    return root_digests(capture({KEY: error}).tree, ())[KEY]


def test_looking_changes_nothing() -> None:
    error = ValueError(1, "a")
    first = digest(error)
    assert digest(error) == first == digest(ValueError(1, "a"))
    error.__dict__["note"] = 3
    assert digest(error) != first
