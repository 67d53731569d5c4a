"""A state taken and put back, which has to be the same state again."""

from __future__ import annotations

import dataclasses
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


@dataclasses.dataclass
class Settings:
    """A dataclass."""

    lr: float = 0.1
    names: list[str] = dataclasses.field(default_factory=list)


class Reducing:
    """Says itself how it is copied."""

    made = 0

    def __init__(self, name: str) -> None:
        type(self).made += 1
        self.name, self.notes = name, [name]

    def __reduce__(self) -> Any:
        return Reducing, (self.name,), {"name": self.name, "notes": self.notes}


def lacks(**values: Any) -> list[str]:
    """What a state of these does not hold."""
    captured = capture({("given", name): value for name, value in values.items()})
    return [lack.where for lack in captured.missing]
