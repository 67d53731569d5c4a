"""One column into pandas, polars, Arrow or Parquet. The only module of the catalog that imports those libraries."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rearview.catalog.tables.table import Column
from rearview.catalog.tables.texts import as_text, microseconds

_PANDAS = {"int": "Int64", "bool": "boolean", "text": "str"}
_PLAIN = {"float", "int", "bool", "text", "bytes", "date", "datetime", "time", "duration", "none"}
_I64 = range(-(2**63), 2**63)


def pandas_column(column: Column, array: Any) -> Any:
    """A Series; `array` is a NumPy array, or (values, positions) for a dimension."""
    import numpy
    import pandas

    if isinstance(array, tuple):
        return _pandas_dimension(column, *array)
    mask = numpy.ma.getmaskarray(array) if isinstance(array, numpy.ma.MaskedArray) else None
    data = array.data if mask is not None else array
    if mask is not None and not mask.any():
        mask = None
    if data.dtype == object:
        return _pandas_objects(column, data)
    if mask is None:
        return pandas.Series(data)
    if data.dtype.kind == "f":
        return pandas.Series(numpy.where(mask, numpy.nan, data))
    if data.dtype.kind == "b":
        return pandas.Series(pandas.arrays.BooleanArray(data, mask))
    return pandas.Series(pandas.arrays.IntegerArray(data.astype("int64"), mask))


def _pandas_dimension(column: Column, values: Any, spots: Any) -> Any:
    import numpy
    import pandas

    spots = numpy.asarray(spots)
    if column.type_name == "datetime":
        known = any(value is not None for value in values)
        index = pandas.DatetimeIndex(list(values)) if known else pandas.DatetimeIndex([None] * len(values), tz="UTC")
        return pandas.Series(index.as_unit("us").take(spots))
    taken = pandas.array(list(values), dtype="str").take(spots) if len(values) else pandas.array([], dtype="str")
    return pandas.Series(taken)


def _pandas_objects(column: Column, data: Any) -> Any:
    import numpy
    import pandas

    kind = column.type_name
    missing = numpy.array([value is None or value is numpy.ma.masked for value in data], dtype=bool)
    if kind == "text":
        return pandas.Series(data, dtype="str") if _all_clean(data) else pandas.Series(data, dtype=object)
    if kind == "float" and not missing.all():
        return pandas.Series(numpy.where(missing, numpy.nan, data).astype("float64"))
    if kind in ("int", "bool") and all(value is None or value in _I64 for value in data):
        return pandas.Series(list(data), dtype=_PANDAS[kind] if missing.any() else {"int": "int64", "bool": "bool"}[kind])
    if kind == "datetime":
        return _pandas_times(data)
    return pandas.Series(data, dtype=object)


def _pandas_times(data: Any) -> Any:
    import pandas

    zones = {value.utcoffset() is None for value in data if value is not None}
    if len(zones) > 1:
        return pandas.Series(data, dtype=object)
    try:
        return pandas.Series(pandas.to_datetime(list(data), utc=zones == {False}))
    except (ValueError, OverflowError):
        return pandas.Series(data, dtype=object)


def _all_clean(data: Any) -> bool:
    for value in data:
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                return False
    return True


def polars_column(column: Column, values: Sequence[Any]) -> Any:
    """A Series with the column's dtype; Object where there is none."""
    import polars

    dtypes: dict[str, Any] = {
        "float": polars.Float64, "int": polars.Int64, "bool": polars.Boolean, "text": polars.String, "none": polars.Null,
        "bytes": polars.Binary, "date": polars.Date, "duration": polars.Duration("us"),
    }  # fmt: skip
    dtype = dtypes.get(column.type_name)
    try:
        if column.type_name == "datetime":
            return polars.Series(column.name, list(values))
        if column.type_name in ("list", "tuple", "dict"):
            return polars.Series(column.name, [_rendered(value) for value in values], dtype=polars.String)
        if dtype is not None and not (column.type_name == "int" and _beyond(values)):
            return polars.Series(column.name, list(values), dtype=dtype)
    except (OverflowError, UnicodeEncodeError, TypeError, ValueError, polars.exceptions.PolarsError):
        pass  # an integer beyond 64 bits, a lone surrogate: kept as objects
    return polars.Series(column.name, list(values), dtype=polars.Object)


def _beyond(values: Sequence[Any]) -> bool:
    """Is some int beyond 64 bits?"""
    return not all(value is None or value in _I64 for value in values)


def plain(column: Column, values: Sequence[Any]) -> list[Any]:
    """Values as any file format can hold them: what is mixed or structured becomes text, as in CSV."""
    if column.type_name == "text":
        return [None if value is None else _rendered(value) for value in values]
    if (column.type_name == "int" and _beyond(values)) or (column.type_name == "duration" and _too_long(values)):
        return [_rendered(value) for value in values]
    return list(values) if column.type_name in _PLAIN else [_rendered(value) for value in values]


def _too_long(values: Sequence[Any]) -> bool:
    """Is some duration beyond 64 bits of microseconds?"""
    return any(value is not None and microseconds(value) not in _I64 for value in values)


def _writable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _rendered(value: object) -> str | None:
    return None if value is None else _writable(as_text(value))


def arrow_column(column: Column, values: Sequence[Any]) -> Any:
    """An Arrow array."""
    import pyarrow

    kinds: dict[str, Any] = {"float": pyarrow.float64(), "bool": pyarrow.bool_(), "bytes": pyarrow.binary(), "date": pyarrow.date32(),
                             "text": pyarrow.string(), "none": pyarrow.null()}  # fmt: skip
    ready = plain(column, values)
    if column.type_name == "datetime":
        return _arrow_times(ready)
    if column.type_name == "duration" and not any(isinstance(value, str) for value in ready):
        return pyarrow.array(ready, type=pyarrow.duration("us"))
    if column.type_name in ("int", "time", "duration"):
        return pyarrow.array(ready)
    return pyarrow.array(ready, type=kinds.get(column.type_name, pyarrow.string()))


def _arrow_times(values: Sequence[Any]) -> Any:
    import pyarrow

    aware = {value.tzinfo is not None for value in values if value is not None}
    if len(aware) > 1:
        return pyarrow.array([None if value is None else value.isoformat() for value in values], type=pyarrow.string())
    if aware != {True}:
        return pyarrow.array(values, type=pyarrow.timestamp("us"))
    zone = next(str(value.tzinfo) for value in values if value is not None)
    try:
        return pyarrow.array(values, type=pyarrow.timestamp("us", tz=zone))
    except (pyarrow.ArrowInvalid, ValueError):
        return pyarrow.array(values, type=pyarrow.timestamp("us", tz="UTC"))


_SQL_TYPES = {"float": "DOUBLE", "bool": "BOOLEAN", "bytes": "BLOB", "date": "DATE", "time": "TIME"}


def write_parquet(columns: Sequence[Column], values: Sequence[Sequence[Any]], path: Path) -> None:
    """A Parquet file, by DuckDB: no other library is needed. Times are written in UTC."""
    from rearview.catalog.asking.engine import fill, literal, quoted, scratch

    kinds: dict[str, str] = {}
    lists = []
    for column, given in zip(columns, values, strict=True):
        ready = plain(column, given)
        kinds[quoted(_writable(column.name).replace("\0", "\\x00"))] = _sql_type(column, ready)
        if column.type_name == "duration":  # Parquet's own interval counts milliseconds
            ready = [value if value is None or isinstance(value, str) else microseconds(value) for value in ready]
        lists.append([_utc(value) for value in ready] if column.type_name == "datetime" else ready)
    connection = scratch()
    try:
        fill(connection, "leaving", kinds, list(zip(*lists, strict=True)))
        with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=".rearview-") as work:
            written = Path(work) / "table.parquet"
            connection.execute(f"COPY leaving TO {literal(str(written))} (FORMAT parquet)")
            os.replace(written, path)
    finally:
        connection.close()


def _sql_type(column: Column, values: Sequence[Any]) -> str:
    if column.type_name in ("int", "duration"):
        return "VARCHAR" if any(isinstance(value, str) for value in values) else "BIGINT"
    if column.type_name == "datetime":
        return "TIMESTAMPTZ" if all(value is None or value.tzinfo is not None for value in values) else "TIMESTAMP"
    return _SQL_TYPES.get(column.type_name, "VARCHAR")


def _utc(value: Any) -> Any:
    import datetime as dt

    return value.astimezone(dt.UTC) if value is not None and value.tzinfo is not None else value
