"""How recording speaks to the person: one line on stderr, rarely."""

from __future__ import annotations

import sys


def say(message: str) -> None:
    """One line on stderr: never through `warnings` or `logging`, which belong to the user."""
    stream = sys.stderr
    if stream is not None:
        try:
            stream.write(f"rearview: {message}\n")
            stream.flush()
        except (OSError, ValueError):
            pass  # a closed stderr must not end a training
