"""A store, the way of a value through it, and libraries that are not there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rearview.catalog import loading
from rearview.catalog.cells import present
from rearview.record.values.storable import storable
from rearview.store import layout, objects
from rearview.store.encoding import decode, encode
from tests.integration.values.kept import Trip


@pytest.fixture
def store(tmp_path: Path) -> layout.Store:
    return layout.create(tmp_path / ".rearview")


@pytest.fixture
def trip(store: layout.Store) -> Trip:
    """Logs a value and gives what the table holds: warnings are errors, also those of the libraries."""

    def there_and_back(value: Any) -> Any:
        return present(store, decode(encode(storable(value, lambda data: objects.put(store, data)))))

    return there_and_back


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes libraries impossible to import while loading."""

    def hide(*names: str) -> None:
        real = importlib.import_module

        def fake(name: str, package: str | None = None) -> Any:
            if name.partition(".")[0] in names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return real(name, package)

        monkeypatch.setattr(loading.importlib, "import_module", fake)  # type: ignore[attr-defined]

    return hide
