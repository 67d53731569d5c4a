"""How one column of the table lies in SQL: one native column where all values have one plain type, else five.

A *field* is a dimension, a loop or a name. Pure: makes pieces of SQL text out of numbers and column letters, never out of
what a user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

from rearview.catalog.tables.types import BOOL, DATE, DATETIME, FLOAT, INT, NONE, TEXT

NATIVE = {FLOAT: "DOUBLE", INT: "BIGINT", BOOL: "BOOLEAN", TEXT: "VARCHAR", NONE: "VARCHAR"}
_READ = {FLOAT: "f", INT: "i", BOOL: "i <> 0", TEXT: "s", NONE: "NULL::VARCHAR"}
ERA = "era"
SPREAD = (("t", "type", "UTINYINT"), ("f", "f", "DOUBLE"), ("i", "i", "BIGINT"), ("s", "s", "VARCHAR"), ("r", "raw", "BLOB"))


@dataclass(frozen=True, slots=True)
class Field:
    """One column of the table."""

    name: str
    """What people call it."""
    letter: str
    """What its SQL columns are called: `c3`, or `c3t`, `c3f`, ... ."""
    codes: frozenset[int]
    """The types of its values as far as known before looking, None left out."""
    raws: bool
    """Do some values need `raw`?"""
    asked: bool = True
    """Shown in the table, not only needed by the where clause."""
    traced: bool = False
    """Also the era of each value is kept: where it came from."""

    @property
    def native(self) -> int | None:
        """The one plain type of all its values, or None if it is spread."""
        if not self.codes:
            return NONE
        if len(self.codes) == 1 and not self.raws:
            (code,) = self.codes
            return code if code in NATIVE else None
        return None

    @property
    def value_columns(self) -> list[str]:
        """The SQL columns of its value."""
        return [self.letter] if self.native is not None else [self.letter + part for part, _, _ in SPREAD]

    @property
    def columns(self) -> list[str]:
        """Its SQL columns."""
        return [*self.value_columns, *self._era]

    @property
    def _era(self) -> list[str]:
        return [self.letter + ERA] if self.traced else []

    def read(self, alias: str = "") -> list[tuple[str, str]]:
        """(column, expression) over a row that has type, f, i, s, raw, and era if it is traced."""
        dot = alias + "." if alias else ""
        code = self.native
        eras = [(column, dot + "era") for column in self._era]
        if code is not None:
            return [(self.letter, _READ[code] if code == NONE else dot + _READ[code]), *eras]
        return [*((self.letter + part, dot + source) for part, source, _ in SPREAD), *eras]

    def nulls(self) -> list[tuple[str, str]]:
        """(column, null of its type)."""
        code = self.native
        eras = [(column, "NULL::BIGINT") for column in self._era]
        if code is not None:
            return [(self.letter, f"NULL::{NATIVE[code]}"), *eras]
        return [*((self.letter + part, f"NULL::{kind}") for part, _, kind in SPREAD), *eras]

    def typed(self, alias: str = "") -> str:
        """One expression over its columns for where clauses and the view `wide`: int and float together are DOUBLE."""
        code = self.native
        c, codes = (f"{alias}." if alias else "") + self.letter, self.codes
        if code is not None:
            return c
        if codes == {FLOAT}:
            return f"{c}f"
        if codes <= {FLOAT, INT}:
            return f"CASE {c}t WHEN {FLOAT} THEN {c}f WHEN {INT} THEN coalesce({c}i::DOUBLE, {c}f) END"
        if codes == {DATE}:
            return f"TRY_CAST({c}s AS DATE)"
        if codes == {DATETIME}:
            return f"TRY_CAST({c}s AS TIMESTAMP)"
        return self.text(alias)

    def text(self, alias: str = "") -> str:
        """A rendering as text of whatever is there."""
        code = self.native
        c = (f"{alias}." if alias else "") + self.letter
        if code is not None:
            return f"{c}::VARCHAR"
        return (
            f"CASE {c}t WHEN {FLOAT} THEN {c}f::VARCHAR WHEN {INT} THEN coalesce({c}s, {c}i::VARCHAR) "
            f"WHEN {BOOL} THEN ({c}i <> 0)::VARCHAR ELSE {c}s END"
        )
