"""What `value` is in SQL: one type for a whole query.

That of the names the query mentions, if they have one (so `avg(value)` works for floats); else a union. DuckDB compares what a union holds
by its member first: with ints in a member of their own, `value > 2` would be true of every float. So a query that compares, sorts or
computes gets a union of number, truth and text, in which ints are numbers where that is exact and text where it is not; a query that only
selects `value` gets the ints as ints. If a row turns up that does not fit the type chosen, the query is run again with the union: an
answer never depends on the guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rearview.catalog.asking.engine import literal
from rearview.catalog.tables.types import BOOL, FLOAT, INT, NONE, TEXT

if TYPE_CHECKING:
    import duckdb

UNFIT = "rearview: a value of another type"
_VALUES = {"value", "loop_value"}
"""The columns of our views that have such a type."""


def _union(members: str, whole: str) -> str:
    kind = f"UNION({members}number DOUBLE, truth BOOLEAN, text VARCHAR)"
    text = f"union_value(text := coalesce(s, i::VARCHAR))::{kind}"
    return (
        f"CASE type WHEN {FLOAT} THEN union_value(number := f)::{kind} WHEN {INT} THEN CASE {whole.format(kind=kind)} ELSE {text} END "
        f"WHEN {BOOL} THEN union_value(truth := i <> 0)::{kind} WHEN {NONE} THEN NULL::{kind} ELSE union_value(text := s)::{kind} END"
    )


ANY_VALUE = _union("", "WHEN i IS NOT NULL AND try_cast(i::DOUBLE AS HUGEINT) = i::HUGEINT THEN union_value(number := i::DOUBLE)::{kind}")
_WHOLE = "coalesce(i::HUGEINT, try_cast(s AS HUGEINT))"
SHOWN_VALUE = _union("whole HUGEINT, ", f"WHEN {_WHOLE} IS NOT NULL THEN union_value(whole := {_WHOLE})::{{kind}}")


def value_of(codes: set[int], raws: bool, *, shown: bool = False) -> str:
    """The SQL of `value` over (type, f, i, s, raw) for rows of these types; `shown` where nothing is done with it."""
    kinds = codes - {NONE}
    unfit = f"error({literal(UNFIT)})"
    if kinds == {FLOAT} or (kinds == {FLOAT, INT} and not shown):
        return f"CASE type WHEN {FLOAT} THEN f WHEN {INT} THEN coalesce(i::DOUBLE, f) WHEN {NONE} THEN NULL ELSE {unfit}::DOUBLE END"
    if kinds == {INT} and not raws:
        return f"CASE WHEN type = {INT} AND i IS NOT NULL THEN i WHEN type = {NONE} THEN NULL ELSE {unfit}::BIGINT END"
    if kinds == {BOOL}:
        return f"CASE type WHEN {BOOL} THEN i <> 0 WHEN {NONE} THEN NULL ELSE {unfit}::BOOLEAN END"
    if kinds == {TEXT}:
        return f"CASE type WHEN {TEXT} THEN s WHEN {NONE} THEN NULL ELSE {unfit}::VARCHAR END"
    return SHOWN_VALUE if shown else ANY_VALUE


def only_shown(connection: duckdb.DuckDBPyConnection, query: str) -> bool:
    """Whether a query does nothing with `value` but select it: one plain SELECT over the views, that mentions it nowhere else."""
    import duckdb

    try:
        row = connection.execute("SELECT json_serialize_sql($1)", [query]).fetchone()
    except duckdb.Error:
        return False
    answer = json.loads(row[0]) if row else {}
    statements = answer.get("statements", ())
    return len(statements) == 1 and _only_selects(statements[0].get("node", {}))


def _only_selects(node: dict[str, Any]) -> bool:
    """Generous to nothing: what is not known to leave values alone may compare them."""
    if node.get("type") != "SELECT_NODE" or node["cte_map"]["map"] or node["group_expressions"] or node["group_sets"]:
        return False
    if node["aggregate_handling"] != "STANDARD_HANDLING" or any(one["type"] not in _HARMLESS for one in node["modifiers"]):
        return False  # DISTINCT, GROUP BY ALL
    shown = [one for one in node["select_list"] if one["class"] == "COLUMN_REF" or _is_bare_star(one)]
    computed = [one for one in node["select_list"] if one not in shown]
    watched = _VALUES | {one["alias"].lower() for one in shown if one["class"] == "COLUMN_REF" and _last(one) in _VALUES} - {""}
    tables = _tables(node["from_table"], watched)
    if tables is None:
        return False
    rest = [item for key, item in node.items() if key not in ("select_list", "type")]
    return not any(_may_compare(part, watched | tables) for part in _parts([computed, rest]))


_HARMLESS = ("ORDER_MODIFIER", "LIMIT_MODIFIER")


def _is_bare_star(one: dict[str, Any]) -> bool:
    return one["class"] == "STAR" and not (one["columns"] or one["replace_list"] or one["rename_list"] or one["expr"])


def _last(ref: dict[str, Any]) -> str:
    return str(ref["column_names"][-1]).lower()


def _tables(table: dict[str, Any], watched: set[str]) -> set[str] | None:
    """What the tables of a FROM are called, each of which is also a row with `value` in it; None if it is more than tables and joins."""
    if table["type"] == "BASE_TABLE" and not table["column_name_alias"]:
        return {table["table_name"].lower(), table["alias"].lower()}
    if table["type"] != "JOIN" or table["ref_type"] not in ("REGULAR", "CROSS"):
        return None
    if watched & {str(name).lower() for name in table["using_columns"]}:
        return None
    left, right = _tables(table["left"], watched), _tables(table["right"], watched)
    return None if left is None or right is None else left | right


def _may_compare(part: dict[str, Any], watched: set[str]) -> bool:
    if part.get("class") == "COLUMN_REF":
        names = [str(name).lower() for name in part["column_names"]]
        return names[-1] in watched or not _VALUES.isdisjoint(names)
    if "orders" in part and any(one["expression"]["class"] != "COLUMN_REF" for one in part["orders"]):
        return True  # by number, or by all
    return part.get("class") in ("STAR", "SUBQUERY", "POSITIONAL_REFERENCE")


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a tree of JSON."""
    if isinstance(tree, dict):
        yield tree
    for item in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _parts(item)
