"""The relational view over a store: seal, list, pivot, query. Knows SQL; knows nothing of recording or of terminals.

`Catalog` is the door. Importing this package loads neither DuckDB nor pandas.
"""

from __future__ import annotations

from rearview.catalog.catalog import Catalog, NameInfo
from rearview.catalog.runs import RunInfo
from rearview.catalog.tables.table import Column, Table

__all__ = ["Catalog", "Column", "NameInfo", "RunInfo", "Table"]
