"""How many examples a law is tried with."""

from __future__ import annotations

import os

MOST = int(os.environ.get("REARVIEW_TEST_LAWS", "0"))


def examples(count: int) -> int:
    """So many; fewer where that was asked for, on a second Python (see `scripts/other_pythons.py`)."""
    return min(count, MOST) if MOST else count
