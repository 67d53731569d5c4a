"""A where clause: one expression over the columns of the table, and nothing else.

The text is parsed alone, by DuckDB's own parser, into a tree. Only a list of harmless node kinds and pure functions is
let through; the SQL that runs is made from the tree, so comments, quotes and parentheses of the user's cannot
reach past it. Aggregates are per run: each is taken out of the tree and joined back by run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rearview.catalog.asking.engine import user_error
from rearview.errors import QueryError

if TYPE_CHECKING:
    import duckdb

Node = dict[str, Any]
_OURS = "\0"
"""The alias of a column that stands for an aggregate; nobody can write it."""

LONGEST = 10_000
DEEPEST = 100

AGGREGATES = frozenset(
    "min max avg mean sum count count_star median stddev stddev_samp stddev_pop variance var_samp var_pop any_value arg_min arg_max "
    "min_by max_by bool_and bool_or count_if quantile_cont quantile_disc mode".split()
)
FUNCTIONS = frozenset(
    "+ - * / // % ** ^ || ~~ !~~ ~~* !~~* ~~~ like_escape not_like_escape ilike_escape not_ilike_escape abs round floor ceil ceiling trunc "
    "sqrt cbrt ln log log2 log10 exp pow power sign mod fmod greatest least isnan isinf isfinite lower upper length strlen contains "
    "starts_with ends_with prefix suffix substr substring left right trim ltrim rtrim replace concat regexp_matches regexp_full_match "
    "date_part datepart date_trunc datetrunc date_diff datediff year month day hour minute second dayofweek weekday epoch now today "
    "current_date get_current_timestamp ifnull nullif if to_days to_hours to_minutes to_seconds strftime".split()
)
_OPERATORS = frozenset(
    "OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL COMPARE_IN COMPARE_NOT_IN OPERATOR_COALESCE OPERATOR_NULLIF".split()
)
_TYPES = frozenset(
    "double float real integer int bigint smallint tinyint hugeint boolean bool varchar text string date timestamp time decimal numeric "
    "interval int4 int8 int2 float4 float8 datetime".split()
)
_REFUSED = {
    "SUBQUERY": "a subquery", "WINDOW": "a window function", "STAR": "a star", "PARAMETER": "a parameter", "LAMBDA": "a lambda",
    "COLLATE": "a collation", "POSITIONAL_REFERENCE": "a positional reference", "DEFAULT": "DEFAULT",
}  # fmt: skip


@dataclass(slots=True)
class Clause:
    """A checked clause."""

    text: str
    tree: Node
    statement: Node
    """The whole serialised statement around the expression, for turning it back into SQL."""

    def columns(self) -> list[str]:
        """The columns it mentions, as written."""
        return list(dict.fromkeys(_written(node) for node in _refs(self.tree)))

    def split(self) -> tuple[Part, list[Part]]:
        """The expression with `agg_0`, `agg_1`, ... in place of its aggregates, and these."""
        taken: list[Node] = []
        tree = _take_aggregates(json.loads(json.dumps(self.tree)), taken)
        return Part(self, tree), [Part(self, node) for node in taken]


@dataclass(slots=True)
class Part:
    """A piece of a clause: what decides over rows, or one aggregate."""

    clause: Clause
    tree: Node

    def columns(self) -> list[str]:
        """The columns it mentions, as written."""
        return list(dict.fromkeys(_written(node) for node in _refs(self.tree)))

    @property
    def counts(self) -> bool:
        """Is it an aggregate that is 0 where there is nothing?"""
        return str(self.tree.get("function_name", "")).lower() in ("count", "count_star", "count_if")

    def sql(self, connection: duckdb.DuckDBPyConnection, column: Callable[[str], str]) -> str:
        """Its SQL; `column` gives the SQL column of a written name."""
        tree = json.loads(json.dumps(self.tree))
        for node in _refs(tree):
            node["column_names"] = [column(_written(node))]
        for node in walk(tree):
            if node.get("alias", "").startswith(_OURS):
                node["alias"] = ""
        return _to_sql(connection, self.clause, tree)


def parse_clause(connection: duckdb.DuckDBPyConnection, text: str) -> Clause:
    """Check a clause; `QueryError` says what is wrong with it."""
    if len(text) > LONGEST:
        raise QueryError(f"the where clause is {len(text)} characters long, {LONGEST} are allowed")
    if not text.strip():
        raise QueryError('the where clause is empty: leave it out, or write an expression such as "lr > 0.01"')
    if "\0" in text or any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise _wrong(text, "it contains characters that SQL cannot hold")
    statement = _one_select(text, _serialized(connection, text))
    node = statement["node"]
    (tree,) = node["select_list"]
    _check(text, tree, 0, inside_aggregate=False)
    return Clause(text, tree, statement)


def _serialized(connection: duckdb.DuckDBPyConnection, text: str) -> list[Node]:
    """What DuckDB reads behind `SELECT`, as trees, one for each statement."""
    import duckdb

    try:
        row = connection.execute("SELECT json_serialize_sql($1)", ["SELECT " + text]).fetchone()
    except duckdb.Error as problem:
        raise user_error(problem, _what(text)) from None
    answer: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
    if answer.get("error_type") == "not implemented":  # a tree is made of SELECT alone, and the first statement is one
        raise _wrong(text, "it is more than one statement")
    if answer.get("error"):
        raise QueryError(f"{_what(text)} cannot be read: {answer.get('error_message', 'not understood')}; {_HOW}")
    return list(answer["statements"])


_HOW = 'write one expression over columns, such as "lr > 0.01 AND max(acc) > 0.9"'


def _what(text: str) -> str:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return f"the where clause {shown!r}"


def _wrong(text: str, why: str) -> QueryError:
    return QueryError(f"{_what(text)} is refused: {why}; {_HOW}")


def _one_select(text: str, statements: list[Node]) -> Node:
    """The only statement, if it is a bare `SELECT <one expression>`."""
    if len(statements) != 1:
        raise _wrong(text, f"it is {len(statements)} statements")
    (statement,) = statements
    node = statement.get("node", {})
    if node.get("type") != "SELECT_NODE":
        raise _wrong(text, "it is not one expression")
    behind = ("modifiers", "where_clause", "group_expressions", "group_sets", "having", "sample", "qualify")
    extra = [key for key in behind if node.get(key)]
    if extra or node.get("from_table", {}).get("type") != "EMPTY" or node.get("cte_map", {}).get("map"):
        raise _wrong(text, f"it goes on behind the expression ({', '.join(extra) or 'FROM'})")
    if statement.get("named_param_map"):
        raise _wrong(text, "it has parameters")
    if node.get("aggregate_handling") != "STANDARD_HANDLING" or len(node.get("select_list", [])) != 1:
        raise _wrong(text, f"it is {len(node.get('select_list', []))} expressions")
    return dict(statement)


def children(node: Node) -> Iterator[Node]:
    """The expressions directly inside one."""
    for key in ("left", "right", "input", "lower", "upper", "child", "filter", "else_expr"):
        if node.get(key):
            yield node[key]
    yield from node.get("children", ())
    for argument in node.get("arguments", ()):
        yield argument["expression"]
    for check in node.get("case_checks", ()):
        yield check["when_expr"]
        yield check["then_expr"]


def walk(node: Node) -> Iterator[Node]:
    """An expression and everything in it."""
    yield node
    for child in children(node):
        yield from walk(child)


def _check(text: str, node: Node, depth: int, *, inside_aggregate: bool) -> None:
    if depth > DEEPEST:
        raise _wrong(text, f"it is nested more than {DEEPEST} deep")
    kind = node.get("class")
    if node.get("alias"):
        raise _wrong(text, f"it names something ({node['alias']!r})")
    if kind == "FUNCTION":
        inside_aggregate = _check_function(text, node, inside_aggregate)
    elif kind == "OPERATOR":
        if node["type"] not in _OPERATORS:
            raise _wrong(text, f"the operator {node['type'].lower().replace('_', ' ')} is not allowed")
    elif kind == "CAST":
        _check_type(text, node["type_expr"])
    elif kind not in ("CONJUNCTION", "COMPARISON", "BETWEEN", "CASE", "CONSTANT", "COLUMN_REF"):
        raise _wrong(text, f"{_REFUSED.get(str(kind), str(kind).lower())} is not allowed")
    for child in children(node):
        _check(text, child, depth + 1, inside_aggregate=inside_aggregate)


def _check_function(text: str, node: Node, inside_aggregate: bool) -> bool:
    name = node["function_name"].lower()
    if node.get("schema") or node.get("catalog") or len(node.get("qualified_name", {}).get("path", [name])) != 1:
        raise _wrong(text, f"the function {name} must be named without a schema")
    if node.get("export_state") or any(argument.get("name") for argument in node["arguments"]):
        raise _wrong(text, f"the function {name} is called in a way that is not allowed")
    if node["order_bys"]["orders"]:
        raise _wrong(text, f"ORDER BY inside {name} is not allowed")
    if name in AGGREGATES:
        if inside_aggregate:
            raise _wrong(text, f"{name} stands inside another aggregate")
        return True
    if name not in FUNCTIONS or node.get("filter") or node.get("distinct"):
        raise _wrong(text, f"the function {name} is not allowed")
    return inside_aggregate


def _check_type(text: str, node: Node) -> None:
    name = str(node.get("type_name", "")).lower()
    plain = all(child.get("class") == "CONSTANT" for child in node.get("children", ()))
    if node.get("class") != "TYPE" or node.get("schema") or node.get("catalog") or name not in _TYPES or not plain:
        raise _wrong(text, f"a cast to {name or 'that type'} is not allowed")


def _refs(tree: Node) -> list[Node]:
    return [node for node in walk(tree) if node["class"] == "COLUMN_REF" and node["alias"] != _OURS]


def _written(node: Node) -> str:
    return ".".join(node["column_names"])


def as_condition(expression: str) -> str:
    """Only what is true or false decides: a number or a text is not cast in silence."""
    refusal = "'it is ' || lower(typeof(" + expression + ")) || ', not true or false: compare it with something'"
    return f"CASE typeof({expression}) WHEN 'BOOLEAN' THEN {expression}::BOOLEAN ELSE error({refusal})::BOOLEAN END"


def _take_aggregates(node: Node, taken: list[Node]) -> Node:
    """The tree with each aggregate replaced by a column that will hold its value."""
    if node["class"] == "FUNCTION" and node["function_name"].lower() in AGGREGATES:
        taken.append(node)
        return {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": _OURS, "query_location": 0, "query_location_length": 0,
                "column_names": [f"agg_{len(taken) - 1}"]}  # fmt: skip
    for key in ("left", "right", "input", "lower", "upper", "child", "filter", "else_expr"):
        if node.get(key):
            node[key] = _take_aggregates(node[key], taken)
    if "children" in node:
        node["children"] = [_take_aggregates(child, taken) for child in node["children"]]
    for argument in node.get("arguments", ()):
        argument["expression"] = _take_aggregates(argument["expression"], taken)
    for check in node.get("case_checks", ()):
        for key in ("when_expr", "then_expr"):
            check[key] = _take_aggregates(check[key], taken)
    return node


def _to_sql(connection: duckdb.DuckDBPyConnection, clause: Clause, tree: Node) -> str:
    statement = {**clause.statement, "node": {**clause.statement["node"], "select_list": [tree]}}
    text = json.dumps({"error": False, "statements": [statement]})
    row = connection.execute("SELECT json_deserialize_sql($1)", [text]).fetchone()
    sql = str(row[0]) if row else ""
    if not sql.upper().startswith("SELECT "):
        raise _wrong(clause.text, "it cannot be put into SQL")
    return "(" + sql[len("SELECT ") :].rstrip("; ") + ")"
