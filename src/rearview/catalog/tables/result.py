"""The rows of a pivot, kept in DuckDB until somebody wants them as Python values or arrays.

Dimensions of a run are kept as its number and spread when asked for; a column of one plain type leaves as it lies, any
other is decoded value by value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rearview.catalog.cells import present
from rearview.catalog.tables.fields import Field
from rearview.catalog.tables.table import Column
from rearview.catalog.tables.types import FLOAT, NONE, gather, mixture, type_name
from rearview.store.layout import Store

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Dimension:
    """A column that is the same for all rows of a run, or of a process."""

    name: str
    type_name: str
    by: str
    """`run_ix` or `rp`: what the values are indexed by."""
    values: list[Any]


class PivotData:
    """The columns of one materialised pivot, in DuckDB."""

    def __init__(
        self, store: Store, connection: duckdb.DuckDBPyConnection, table: str, dimensions: Sequence[Dimension], fields: Sequence[Field]
    ) -> None:
        self._store = store
        self._connection = connection
        self._table = table
        self._dimensions = list(dimensions)
        self._fields = list(fields)
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        self._count = int(row[0]) if row else 0

    def __del__(self) -> None:
        try:
            self._connection.execute(f"DROP TABLE IF EXISTS {self._table}")
            self._connection.close()
        except Exception:  # noqa: BLE001 (an interpreter that is shutting down may have taken anything away)
            pass

    def __len__(self) -> int:
        return self._count

    def columns(self) -> list[Column]:
        """Names and types, looked up in the rows that are there."""
        found = [Column(dimension.name, dimension.type_name) for dimension in self._dimensions]
        for field in self._fields:
            counts = self._counts(field)
            found.append(Column(field.name, type_name(sorted(counts)), mixture(counts)))
        return found

    def _counts(self, field: Field) -> dict[int, int]:
        if field.native is not None:
            return {field.native: self._count} if field.native != NONE else {}
        rows = self._connection.execute(f"SELECT {field.letter}t, count(*) FROM {self._table} GROUP BY 1").fetchall()
        return {code: count for code, count in rows if code is not None and code != NONE}

    def values(self) -> list[list[Any]]:
        found = []
        for dimension in self._dimensions:
            spots = self._connection.execute(f"SELECT {dimension.by} FROM {self._table}").fetchall()
            found.append([dimension.values[spot] for (spot,) in spots])
        for field in self._fields:
            rows = self._connection.execute(f"SELECT {', '.join(field.columns)} FROM {self._table}").fetchall()
            found.append([value for (value,) in rows] if field.native is not None else self._gathered(rows))
        return found

    def _gathered(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [present(self._store, gather(*row)) for row in rows]

    def arrays(self) -> list[Any]:
        import numpy

        spots = self._connection.execute(f"SELECT run_ix, rp FROM {self._table}").fetchnumpy()
        found = []
        for dimension in self._dimensions:
            values: Any = numpy.empty(len(dimension.values), dtype=object)
            values[:] = dimension.values
            found.append((values, spots[dimension.by]))
        return [*found, *(self._array(field) for field in self._fields)]

    def _array(self, field: Field) -> Any:
        import numpy

        if field.native is not None:
            return self._connection.execute(f"SELECT {field.letter} FROM {self._table}").fetchnumpy()[field.letter]
        codes = self._counts(field)
        if set(codes) == {FLOAT} and len(field.codes) == 1:
            return self._floats(field)
        rows = self._connection.execute(f"SELECT {', '.join(field.columns)} FROM {self._table}").fetchall()
        array: Any = numpy.empty(self._count, dtype=object)
        array[:] = self._gathered(rows)
        return array

    def _floats(self, field: Field) -> Any:
        """Floats with NaN payloads among them: the payloads are put back bit for bit."""
        import numpy

        c = field.letter
        array = self._connection.execute(f"SELECT {c}f FROM {self._table}").fetchnumpy()[f"{c}f"]
        odd = self._connection.execute(
            f"SELECT spot, {c}r FROM (SELECT row_number() OVER () - 1 AS spot, {c}r FROM {self._table}) WHERE {c}r IS NOT NULL"
        ).fetchall()
        data = array.data if isinstance(array, numpy.ma.MaskedArray) else array
        bits: Any = data.view(numpy.uint64)
        for spot, raw in odd:
            bits[spot] = int.from_bytes(raw[1:9], "little")
        return array


def local_times(times: Sequence[dt.datetime | None], zone: dt.tzinfo) -> list[dt.datetime | None]:
    """Instants as they are shown."""
    return [time.astimezone(zone) if time else None for time in times]
