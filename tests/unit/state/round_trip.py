"""A state taken and put back, which has to be the same state again."""

from __future__ import annotations

from typing import Any

from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept, digests, roots


def taken(**named: Any) -> Kept:
    """What is captured of some objects; nothing may be missing."""
    captured = capture(roots(**named))
    assert captured.missing == []
    return Kept(captured)


def put(kept: Kept, *, codes: Any = (), **live: Any) -> dict[str, Any]:
    """Put it back into live objects; what they are then, by name."""
    made = plan(kept.tree, roots(**live), kept, codes=codes).apply()
    assert digests(capture(made)) == kept.digests
    return {str(key[-1]): value for key, value in made.items()}
