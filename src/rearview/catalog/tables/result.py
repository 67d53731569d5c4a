"""The rows of a pivot, kept in DuckDB until somebody wants them as Python values or arrays.

Dimensions of a run are kept as its number and spread when asked for; a column of one plain type leaves as it lies, any
other is decoded value by value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rearview.catalog.cells import present
from rearview.catalog.tables.fields import ERA, Field
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


TRACES = ("origin", "verdict", "statement", "placement")
"""What `provenance` tells of a value: recorded or replayed, how far to trust it, what was asked, where that stood in another version."""
Trace = tuple[str | None, ...]
Provenance = Callable[[str, int], Trace]
"""(name, era) to what is told of such a value, in the order of `TRACES`."""


class PivotData:
    """The columns of one materialised pivot, in DuckDB."""

    def __init__(
        self,
        store: Store,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        dimensions: Sequence[Dimension],
        fields: Sequence[tuple[Field, str]],
        provenance: Provenance | None = None,
    ) -> None:
        """Each field with the name it has in `provenance`; it may be shown under another."""
        self._store = store
        self._connection = connection
        self._table = table
        self._dimensions = list(dimensions)
        self._fields = [field for field, _ in fields]
        self._own_names = [name for _, name in fields]
        self._provenance = provenance
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
            if field.traced:
                found += [Column(f"{field.name}.{word}", "text") for word in TRACES]
        return found

    def _traces(self, field: Field, own_name: str) -> tuple[dict[int | None, int], list[Trace]]:
        """The eras of a field's values, numbered, and what each says of them."""
        rows = self._connection.execute(f"SELECT DISTINCT {field.letter}{ERA} FROM {self._table}").fetchall()
        eras: list[int | None] = [None, *sorted(era for (era,) in rows if era is not None)]
        assert self._provenance is not None
        said: list[Trace] = [(None,) * len(TRACES)]
        said += [self._provenance(own_name, era) for era in eras if era is not None]
        return {era: k for k, era in enumerate(eras)}, said

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
        for field, own_name in zip(self._fields, self._own_names, strict=True):
            rows = self._connection.execute(f"SELECT {', '.join(field.value_columns)} FROM {self._table}").fetchall()
            found.append([value for (value,) in rows] if field.native is not None else self._gathered(rows))
            if field.traced:
                numbers, said = self._traces(field, own_name)
                eras = self._connection.execute(f"SELECT {field.letter}{ERA} FROM {self._table}").fetchall()
                found += [[said[numbers[era]][k] for (era,) in eras] for k in range(len(TRACES))]
        return found

    def _gathered(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [present(self._store, gather(*row)) for row in rows]

    def arrays(self) -> list[Any]:
        import numpy

        spots = self._connection.execute(f"SELECT run_ix, rp FROM {self._table}").fetchnumpy()
        found: list[Any] = []
        for dimension in self._dimensions:
            values: Any = numpy.empty(len(dimension.values), dtype=object)
            values[:] = dimension.values
            found.append((values, spots[dimension.by]))
        for field, own_name in zip(self._fields, self._own_names, strict=True):
            found.append(self._array(field))
            if field.traced:
                found += self._trace_arrays(field, own_name)
        return found

    def _trace_arrays(self, field: Field, own_name: str) -> list[Any]:
        import numpy

        numbers, said = self._traces(field, own_name)
        eras = self._connection.execute(f"SELECT {field.letter}{ERA} FROM {self._table}").fetchall()
        spots: Any = numpy.fromiter((numbers[era] for (era,) in eras), dtype=numpy.int64, count=len(eras))
        found = []
        for k in range(len(TRACES)):
            values: Any = numpy.empty(len(said), dtype=object)
            values[:] = [one[k] for one in said]
            found.append((values, spots))
        return found

    def _array(self, field: Field) -> Any:
        import numpy

        if field.native is not None:
            return self._connection.execute(f"SELECT {field.letter} FROM {self._table}").fetchnumpy()[field.letter]
        codes = self._counts(field)
        if set(codes) == {FLOAT} and len(field.codes) == 1:
            return self._floats(field)
        rows = self._connection.execute(f"SELECT {', '.join(field.value_columns)} FROM {self._table}").fetchall()
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
