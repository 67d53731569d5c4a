"""RTE: textual entailment, fine-tuning. Many short epochs over few pairs of sentences, a large model that is nearly all frozen."""

from __future__ import annotations

from typing import Any

from bench.workloads.fine_tuning import fine_tune

EPOCHS = 12


def train(rv: Any, epochs: int) -> float:
    """The sentences are made up."""
    return fine_tune(rv, epochs, examples=120, length=32, batch=8)
