"""The answer to a question: columns with types, rows in order, and what has to be said about them.

A table stays valid after its catalog is closed. It knows how to leave: as Python rows, pandas, polars, Arrow or a Parquet
file; each library is imported only when asked for. Times are aware and in the local zone; null is None, and in pandas
what its dtype has for it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rearview.errors import MissingLibrary

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    type_name: str
    """float, int, bool, text, datetime, ..., array; `mixed`; `none` where there is no value at all."""
    mixed: str | None = None
    """`float (98), int (2)` where the values have several types."""


class Data(Protocol):
    """Where a table's values come from."""

    def __len__(self) -> int: ...

    def values(self) -> list[list[Any]]:
        """Each column as a list of Python values."""

    def arrays(self) -> list[Any]:
        """Each column as a NumPy array, masked where there are nulls."""


class Table:
    """Columns and rows. `len()` is the number of rows."""

    def __init__(self, columns: Sequence[Column], data: Data, notes: Sequence[str] = ()) -> None:
        self.columns = list(columns)
        self.notes = list(notes)
        """What has to be said: unknown names with near ones, columns of mixed types, damage."""
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(column.name for column in self.columns)})"

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows of Python values with their own types."""
        values = self._data.values()
        return list(zip(*values, strict=True)) if values else [()] * len(self)

    def dicts(self) -> list[dict[str, Any]]:
        """Rows as dicts."""
        names = self.names
        return [dict(zip(names, row, strict=True)) for row in self.rows()]

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise _missing("pandas", "pandas") from None
        from rearview.catalog.tables.export import pandas_column

        series = [pandas_column(column, array) for column, array in zip(self.columns, self._data.arrays(), strict=True)]
        frame = pandas.concat(series, axis=1) if series else pandas.DataFrame(index=range(len(self)))
        frame.columns = pandas.Index(self.names, dtype=object if not series else None)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """A polars DataFrame. Columns that hold Python objects have the dtype Object."""
        try:
            import polars
        except ImportError:
            raise _missing("polars", "polars") from None
        from rearview.catalog.tables.export import polars_column

        return polars.DataFrame([polars_column(column, values) for column, values in zip(self.columns, self._data.values(), strict=True)])

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table. Values of a mixed or structured column are rendered as text."""
        try:
            import pyarrow
        except ImportError:
            raise _missing("pyarrow", "arrow") from None
        from rearview.catalog.tables.export import arrow_column

        arrays = [arrow_column(column, values) for column, values in zip(self.columns, self._data.values(), strict=True)]
        return pyarrow.Table.from_arrays(arrays, names=self.names)

    def write_parquet(self, path: Path | str) -> None:
        """A Parquet file. Values of a mixed or structured column are rendered as text."""
        from rearview.catalog.tables.export import write_parquet

        write_parquet(self.columns, self._data.values(), Path(path))


def _missing(library: str, extra: str) -> MissingLibrary:
    return MissingLibrary(f"{library} is not installed: `pip install 'rearview-ml[{extra}]'`")


class RowData:
    """Values that are already Python rows."""

    def __init__(self, width: int, rows: Sequence[Sequence[Any]]) -> None:
        self._width = width
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def values(self) -> list[list[Any]]:
        return [[row[k] for row in self._rows] for k in range(self._width)]

    def arrays(self) -> list[Any]:
        import numpy

        found = []
        for values in self.values():
            array: Any = numpy.empty(len(values), dtype=object)
            array[:] = values
            found.append(array)
        return found


def local_zone() -> dt.tzinfo:
    """The zone that this machine shows time in, with its rules where they are known, else today's offset."""
    import os
    import zoneinfo

    named = os.environ.get("TZ", "").lstrip(":")
    if not named:
        link = os.path.realpath("/etc/localtime")
        named = link.partition("zoneinfo/")[2]
    try:
        return zoneinfo.ZoneInfo(named) if named else _offset()
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return _offset()


def _offset() -> dt.tzinfo:
    return dt.datetime.now().astimezone().tzinfo or dt.UTC
