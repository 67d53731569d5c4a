"""One thing that a check found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    path: Path
    problem: str
    severity: str
    """`damage`: bytes are not what was written. `note`: harmless, or normal after a kill."""


def damage(path: Path, problem: str) -> Finding:
    """Bytes are not what was written."""
    return Finding(path, problem, "damage")


def note(path: Path, problem: str) -> Finding:
    """Harmless, or normal after a kill."""
    return Finding(path, problem, "note")
