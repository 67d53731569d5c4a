"""Columns of numbers as a Parquet file, uncompressed: what Python can write about as fast as it can copy bytes.

A million floats as text cost more time to format and to read back than everything else about them. Here their eight bytes
go into the file as they are. Only what is needed: required columns of fixed width, one PLAIN page per column and row group.
DuckDB reads the file once and writes the real segment from it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import IO

INT32, INT64, DOUBLE = 1, 2, 5
_CODES = {INT32: "i", INT64: "q", DOUBLE: "d"}
_MAGIC = b"PAR1"
_ROWS_AT_ONCE = 1 << 16

Column = tuple[str, int]
"""Name and physical type."""


class PlainWriter:
    """Writes rows column by column into an open binary file."""

    def __init__(self, file: IO[bytes], columns: Sequence[Column]) -> None:
        self.file = file
        self._columns = list(columns)
        self._pending = [array(_CODES[kind]) for _, kind in columns]
        self._groups: list[Value] = []
        self.rows = 0
        self._at = file.write(_MAGIC)

    def add(self, *columns: Sequence[int] | bytes) -> None:
        """Some rows: a sequence of numbers, or their bytes, for each column."""
        for pending, values in zip(self._pending, columns, strict=True):
            if isinstance(values, bytes):
                pending.frombytes(values)
            else:
                pending.extend(array("q" if pending.typecode == "q" else "i", values))
        if len(self._pending[0]) >= _ROWS_AT_ONCE:
            self._write_group()

    def close(self) -> None:
        """Write what is left and the footer. The file itself stays open."""
        if len(self._pending[0]):
            self._write_group()
        root = _struct((4, _binary("schema")), (5, _i32(len(self._columns))))
        fields = [_struct((1, _i32(kind)), (3, _i32(0)), (4, _binary(name))) for name, kind in self._columns]
        footer = _struct((1, _i32(1)), (2, _list(_STRUCT, [root, *fields])), (3, _i64(self.rows)), (4, _list(_STRUCT, self._groups)))
        data = footer[1] + struct.pack("<I", len(footer[1])) + _MAGIC
        self.file.write(data)

    def _write_group(self) -> None:
        count = len(self._pending[0])
        chunks, total = [], 0
        for (name, kind), values in zip(self._columns, self._pending, strict=True):
            if sys.byteorder == "big":
                values.byteswap()
            data = values.tobytes()
            page = _struct((1, _i32(count)), (2, _i32(0)), (3, _i32(3)), (4, _i32(3)))
            header = _struct((1, _i32(0)), (2, _i32(len(data))), (3, _i32(len(data))), (5, page))[1]
            size = len(header) + len(data)
            facts = _struct(
                (1, _i32(kind)), (2, _list(_I32, [_i32(0)])), (3, _list(_BINARY, [_binary(name)])), (4, _i32(0)), (5, _i64(count)),
                (6, _i64(size)), (7, _i64(size)), (9, _i64(self._at)),
            )  # fmt: skip
            chunks.append(_struct((2, _i64(self._at)), (3, facts)))
            self.file.write(header)
            self.file.write(data)
            self._at += size
            total += size
            del values[:]
        self._groups.append(_struct((1, _list(_STRUCT, chunks)), (2, _i64(total)), (3, _i64(count))))
        self.rows += count


# Thrift's compact protocol, as far as a footer needs it: a value is (type, bytes)

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
Value = tuple[int, bytes]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _i32(number: int) -> Value:
    return _I32, _varint(number << 1)  # zigzag; never negative here


def _i64(number: int) -> Value:
    return _I64, _varint(number << 1)


def _binary(text: str) -> Value:
    return _BINARY, _varint(len(text)) + text.encode("ascii")


def _list(kind: int, items: Sequence[Value]) -> Value:
    head = bytes((len(items) << 4 | kind,)) if len(items) < 15 else bytes((0xF0 | kind,)) + _varint(len(items))
    return _LIST, head + b"".join(data for _, data in items)


def _struct(*fields: tuple[int, Value]) -> Value:
    out, last = [], 0
    for number, (kind, data) in fields:
        out += [bytes(((number - last) << 4 | kind,)), data]
        last = number
    return _STRUCT, b"".join(out) + b"\0"
