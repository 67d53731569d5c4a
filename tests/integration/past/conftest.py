"""A run whose past states are looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from rearview.testing.stores import RunBuilder, StoreBuilder


@pytest.fixture
def run(project: Path) -> RunBuilder:
    built = StoreBuilder(project).run(name="first")
    built.process().end()
    return built
