"""Where the statements of a question run, and what they read: from the program's text to what a plan must cover.

Pure but for reading source and manifests. A statement whose depth cannot be told may run anywhere; one that reads what a stored state
does not hold is not answered from that state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rearview.model import RunId
from rearview.plan.scans import Need
from rearview.replay.query import Question
from rearview.store.layout import Store


@dataclass(frozen=True, slots=True)
class Found:
    """What the text says."""

    need: Need
    reads: dict[str, frozenset[str]] = field(default_factory=dict)


def of(question: Question, store: Store, project: Path) -> Found:
    """Where a question's statements run."""
    return Found(Need(whole=True))


def lacking(store: Store, run: RunId, found: Found) -> tuple[frozenset[str], list[str]]:
    """The manifests that lack something which is read, and a sentence about it."""
    return frozenset(), []
