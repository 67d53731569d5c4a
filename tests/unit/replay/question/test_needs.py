"""What each statement of a question reads: its own and what was added for it, not what the statements beside it read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rearview.instrument.added import Added, added_in_project
from rearview.replay.question import needs

THEN = """import rearview as rv
w, t0, rate = 1.0, 2.0, 3.0
with rv.checkpointing(w=w):
    for epoch in rv.loop("epoch", range(3)):
        w += 1
"""
NOW = (
    THEN
    + """        scaled = w * rate
        rv.log("scaled", scaled)
        rv.log("elapsed", t0)
        rv.log("plain", w)
"""
)


def _reads(asked: str) -> frozenset[str]:
    found = added_in_project({"train.py": THEN}, {"train.py": NOW})
    assert isinstance(found, Added)
    logs = tuple(log for log in found.logs if log.name == asked)
    statements: Any = SimpleNamespace(added=found, program=lambda: {"train.py": NOW})
    question: Any = SimpleNamespace(statements=statements, logs=logs, run=SimpleNamespace(filename="train.py"))
    return needs.of(question).reads[asked]


def test_a_log_reads_what_it_says_and_what_its_temporaries_say() -> None:
    assert {"w", "rate"} <= _reads("scaled") and "t0" not in _reads("scaled")
    assert "t0" in _reads("elapsed")
    assert "t0" not in _reads("plain")
