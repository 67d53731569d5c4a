"""CoLA: which sentences are well-formed, fine-tuning. A few times as many sentences an epoch as RTE, and shorter ones."""

from __future__ import annotations

from typing import Any

from bench.workloads.fine_tuning import fine_tune

EPOCHS = 4


def train(rv: Any, epochs: int) -> float:
    """The sentences are made up."""
    return fine_tune(rv, epochs, examples=480, length=24, batch=16)
