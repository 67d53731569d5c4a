"""What a user's SQL may be: one statement that only looks. And what its answer's columns are called in our words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rearview.catalog.asking.engine import user_error
from rearview.errors import QueryError

if TYPE_CHECKING:
    import duckdb

_EXPLAIN = re.compile(r"\s*explain\s+(analyze\s+)?(\([^)]*\)\s*)?", re.IGNORECASE)
LONGEST = 1_000_000


def one_look(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """The one statement of a text, if it is a SELECT, or an EXPLAIN, DESCRIBE, SHOW or SUMMARIZE of one."""
    import duckdb

    if len(query) > LONGEST or "\0" in query or any(0xD800 <= ord(c) <= 0xDFFF for c in query):
        raise QueryError("the SQL text cannot be run: it is too long, or contains characters that SQL cannot hold")
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as problem:
        raise user_error(problem, "the SQL text") from None
    if len(statements) != 1:
        raise QueryError(f"the SQL text is {len(statements)} statements: ask one question at a time")
    kind = statements[0].type.name
    if kind == "EXPLAIN":
        one_look(connection, _EXPLAIN.sub("", query, count=1))
    elif kind != "SELECT":
        raise QueryError(f"{kind} is refused, the store is only looked at: write a SELECT over runs, logs, loops, args or wide")
    return str(statements[0].query)


_NAMES = {
    "DOUBLE": "float", "FLOAT": "float", "BIGINT": "int", "INTEGER": "int", "SMALLINT": "int", "TINYINT": "int", "HUGEINT": "int",
    "UBIGINT": "int", "UINTEGER": "int", "USMALLINT": "int", "UTINYINT": "int", "UHUGEINT": "int", "BOOLEAN": "bool", "VARCHAR": "text",
    "BLOB": "bytes", "DATE": "date", "TIME": "time", "INTERVAL": "duration", "UUID": "uuid",
}  # fmt: skip
_OF_PYTHON = {bool: "bool", int: "int", float: "float", str: "text", bytes: "bytes"}


def column_type(sql_type: str, values: list[Any]) -> tuple[str, str | None]:
    """Our word for a column's type, and the mixture if its values have several."""
    if sql_type.startswith("TIMESTAMP"):
        return "datetime", None
    if sql_type.startswith("DECIMAL"):
        return "decimal", None
    if sql_type.startswith("UNION") and not sql_type.endswith("]"):
        counts: dict[str, int] = {}
        for value in values:
            if value is not None:
                name = _OF_PYTHON.get(type(value), type(value).__name__)
                counts[name] = counts.get(name, 0) + 1
        if len(counts) > 1:
            ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            return "mixed", ", ".join(f"{name} ({count})" for name, count in ordered)
        return next(iter(counts), "none"), None
    if sql_type.endswith("]"):
        return "list", None
    return _NAMES.get(sql_type, "dict" if sql_type.startswith(("STRUCT", "MAP")) else sql_type.lower()), None
