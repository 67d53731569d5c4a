"""The view `replayed`: every value that any replay has, also what diverged or was replayed again since, with its verdict.

What diverged must be in no other view: so its rows are laid down first, over a listing with everything in it, and the other views are
made over a listing without.
"""

from __future__ import annotations

import re

from rearview.catalog.asking.choose import Asking, make_run_facts
from rearview.catalog.asking.engine import deadline
from rearview.catalog.asking.values import UNFIT, only_shown, value_of
from rearview.catalog.asking.views import logs_query, make_spots, types_mentioned
from rearview.catalog.tables.types import FLOAT, TEXT

_WORDS = re.compile(r"\b(replayed|tables|describe)\b", re.IGNORECASE)


def mentions(query: str) -> bool:
    """Whether a query may look at the view."""
    return _WORDS.search(query) is not None


def make_replayed(asking: Asking, query: str) -> None:
    """Lay the rows down, with `value` of the type that the names in the query have; of any type, if one does not fit."""
    import duckdb

    places = asking.places
    with deadline(places.connection, asking.timeout_s):
        make_run_facts(places)
        make_spots(places)
        shown = only_shown(places.connection, query)
        for codes, raws in (types_mentioned(query, places.names()), ({FLOAT, TEXT}, False)):
            made = logs_query(places, value_of(codes, raws, shown=shown), every_replay=True)
            try:
                places.connection.execute(f"CREATE OR REPLACE TEMP TABLE replayed_ AS {made}")
                break
            except (duckdb.IOException, duckdb.InterruptException):
                raise
            except duckdb.Error as problem:
                if UNFIT not in str(problem):
                    raise
        places.connection.execute("CREATE OR REPLACE TEMP VIEW replayed AS SELECT * FROM replayed_")
