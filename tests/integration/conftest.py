"""What tests with real trainings share: a process that has imported torch."""

from __future__ import annotations

import pytest

from tests.integration.resume.training import Nursery, with_torch


@pytest.fixture(scope="session")
def nursery() -> Nursery:
    """Runs programs without importing torch each time."""
    return with_torch()
