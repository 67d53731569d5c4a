"""Every queue is empty and at rest before the next test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rearview.record.background import wrapping as back
from rearview.record.background.wrapping import rest_all
from tests.unit.record.background.writers import Writer


@pytest.fixture(autouse=True)
def _settled() -> Iterator[None]:
    yield
    for one in list(back._backs):
        if isinstance(one.target, Writer):
            one.target.gate.set()
        one.queue.drain()
        one.queue.take_error()
    rest_all()
