"""What tests with real trainings share: a process that has imported torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.resume.training import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Runs programs, one at a time, without importing torch each time."""
    made = Nursery()
    yield made
    made.close()
