"""Where the statements of a question run, and what they read: from the program's text to what a plan must cover.

A statement whose depth cannot be told may run anywhere; one that reads what a stored state does not hold is not answered from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rearview.instrument import depth
from rearview.instrument.depth import Depth
from rearview.plan.scans import Need
from rearview.replay.query import Question


@dataclass(frozen=True, slots=True)
class Found:
    """What the text says."""

    need: Need
    notes: tuple[str, ...] = ()
    """Why it could not be told where a statement runs."""
    reads: dict[str, frozenset[str]] = field(default_factory=dict)


def of(question: Question) -> Found:
    """Where a question's statements run."""
    program = question.statements.program()
    entry = question.run.filename if question.run.filename in program else None
    every = depth.depths(program, [(log.file, log.line) for log in question.logs], entry)
    together = depth.union(every)
    notes = [f"{log.text}: {one.why}: everything is run" for log, one in zip(question.logs, every, strict=True) if one.whole and one.why]
    return Found(need_of(together), tuple(dict.fromkeys(notes)))


def need_of(found: Depth) -> Need:
    """What a plan must cover for a statement that runs there."""
    return Need(found.prefix, found.before, found.after, found.nested, found.suffix, found.whole)
