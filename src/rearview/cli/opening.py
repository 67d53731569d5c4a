"""How a reading command opens the store: from the current folder, with the project's settings.

Imported by commands when they run, not before: the catalog brings DuckDB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rearview import config
from rearview.cli.shown import screen
from rearview.errors import Damaged
from rearview.store import layout

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog
    from rearview.store.layout import Store


def store() -> Store:
    """The store of the current folder, or the nearest above."""
    return layout.locate(Path.cwd())


def store_for_repair() -> Store:
    """The same, also when its `store.json` is damaged and it cannot be opened for anything else."""
    try:
        return store()
    except Damaged:
        project, _ = layout.find_project(Path.cwd(), os.environ.get("REARVIEW_DIR"), Path.home())
        return layout.Store(project / layout.FOLDER)


@contextmanager
def catalog(*, quiet: bool = False) -> Iterator[Catalog]:
    """The relational view over the store; long work inside shows that it goes on, unless the screen belongs to something else."""
    from rearview.catalog.catalog import Catalog
    from rearview.record import leftovers

    here = store()
    leftovers.clean(here)
    settings = config.load(here.project)
    shown = nullcontext() if quiet else screen.progress("reading the store")
    with shown, Catalog(here, timeout_s=settings["query_timeout"]) as opened:
        yield opened
