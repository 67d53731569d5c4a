"""Hostile where clauses and SQL: answered or refused with a sentence, never another error, never a file touched."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from rearview.catalog import Catalog
from rearview.errors import QueryError, QueryTimeout
from rearview.testing.stores import StoreBuilder

COUNT = int(os.environ.get("REARVIEW_TEST_FUZZ", "2000"))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    builder = StoreBuilder(tmp_path_factory.mktemp("project"))
    for number in range(3):
        process = builder.run(name=f"run {number}").process()
        process.arg("lr", 0.1 * (number + 1))
        process.arg("opt", ["sgd", "adam", "it's"][number])
        for _ in process.loop("epoch", range(2)):
            process.log("loss", 1.0 / (number + 1))
            process.log("note", "x")
            process.log("either", 1 if number else "one")
        process.end()
    with Catalog(builder.store, timeout_s=20) as opened:
        yield opened


@pytest.mark.parametrize(
    "clause",
    [
        "1) --",
        "1; drop table runs",
        "lr > 0.1; drop table place",
        "",
        "  ",
        ")",
        "(",
        "lr >",
        "'",
        '"',
        "/*",
        "--",
        "exists (select 1)",
        "(select 1) = 1",
        "lr in (select 1)",
        "read_csv('/etc/passwd') is null",
        "read_text('/etc/passwd') = 'x'",
        "1 from runs",
        "1 union select 1",
        "lr as x",
        "lr, loss",
        "*",
        "max(lr) over ()",
        "$1",
        "?",
        "#1",
        "lr > $x",
        "columns('.*')",
        "x -> x + 1",
        "list_transform([1], x -> x) = [1]",
        "1 limit 1",
        "1 order by 1",
        "distinct lr",
        "1 where true",
        "1 group by all",
        "getvariable('x') = 1",
        "current_setting('threads') = '1'",
        "nextval('s') = 1",
        "system.main.abs(lr) > 0",
        "max(max(lr)) > 1",
        "lr collate nocase > 1",
        "repeat('x', 1000000000) = ''",
        "[lr][1] > 0",
        "{'a': lr}.a > 0",
        "pg_sleep(1) = 1",
        "lr > 0.1 \0",
        "\ud800",
        "lr::STRUCT(a INT) is null",
        "query('select 1') = 1",
        "error('x') = 1",
        "lr using sample 1",
        "values (1)",
        "1 qualify true",
        "lambda x: x",
        "not " * 300 + "true",
        "1 = 1 " + "and 1 = 1 " * 5000,
        "unnest([1]) = 1",
        "grouping(lr) = 1",
    ],
)
def test_hostile_clauses_are_refused_with_a_sentence(catalog: Catalog, clause: str) -> None:
    with pytest.raises(QueryError) as problem:
        catalog.table(["loss"], where=clause)
        catalog.runs(where=clause)
    assert str(problem.value)


def test_a_comment_cannot_escape(catalog: Catalog) -> None:
    """The SQL is made from the tree: what stands behind `--` is gone, and so is nothing of ours."""
    assert {run.name for run in catalog.runs(where="lr > 0.15 -- and lr < 0.25")} == {"run 1", "run 2"}
    assert {run.name for run in catalog.runs(where="lr > 0.15 /* ) */ and lr < 0.25")} == {"run 1"}
    assert {run.name for run in catalog.runs(where="opt = 'it''s'")} == {"run 2"}


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("lss > 1", "did you mean loss"),
        ("note > 1", "note is text"),
        ("either > 1", "several types"),
        ("loss > 'abc'", "loss is float"),
        ("lower(loss) = 'x'", "lower"),
        ("read_csv('x') > 1", "read_csv is not allowed"),
        ("1; drop table x", "refused: it is more than one statement; write one expression"),
        ("1) --", r"cannot be read: syntax error at or near ...; write one expression"),
        ("loss", "cannot be run: it is double, not true or false"),
        ("lr as x", "names something"),
        ("lr, loss", "2 expressions"),
        ("(select 1) = 1", "a subquery is not allowed"),
        ("max(lr) over () > 1", "a window function is not allowed"),
        ("1 from runs", "goes on behind"),
        ("", "is empty"),
    ],
)
def test_what_is_wrong_is_said(catalog: Catalog, clause: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        catalog.table(["loss"], where=clause)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "COPY (SELECT 1) TO '/tmp/rearview-hostile.csv'",
        "SET threads = 1",
        "ATTACH '/tmp/rearview-hostile.db'",
        "CREATE TABLE x AS SELECT 1",
        "DROP TABLE place",
        "INSERT INTO place SELECT * FROM place",
        "DELETE FROM part",
        "SELECT 1; SELECT 2",
        "",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA version",
        "CALL pragma_version()",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/rearview-hostile.csv'",
        "EXPLAIN ANALYZE CREATE TABLE y AS SELECT 1",
        "SELECT * FROM query('COPY (SELECT 1) TO ''/tmp/rearview-hostile.csv''')",
        "SELEC 1",
        "SELECT * FROM catalog",
        "SELECT nope FROM runs",
        "EXPORT DATABASE '/tmp/rearview-hostile'",
        "BEGIN",
        "\0",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "EXPLAIN EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/rearview-hostile.csv'",
        "EXPLAIN /* */ ANALYZE COPY (SELECT 1) TO '/tmp/rearview-hostile.csv'",
    ],
)
def test_sql_only_looks(catalog: Catalog, query: str) -> None:
    with pytest.raises(QueryError):
        catalog.sql(query)
    assert not list(Path("/tmp").glob("rearview-hostile*"))
    assert len(catalog.sql("SELECT * FROM runs")) == 3


def test_a_program_s_variables_are_not_tables(catalog: Catalog) -> None:
    secret = [1, 2, 3]
    with pytest.raises(QueryError):
        catalog.sql("SELECT * FROM secret")
    assert secret


def test_a_query_has_a_deadline(catalog: Catalog) -> None:
    with Catalog(catalog.store, timeout_s=0.3) as hasty, pytest.raises(QueryTimeout):
        hasty.sql("SELECT count(*) FROM range(10000000000) a, range(1000000) b WHERE a.range % 7 = b.range % 5")


_PIECES = [
    *r"""
    lr loss epoch opt note either nope run tstamp 1 0.5 'x' ' " ( ) , ; -- /* */ and or not in is null between like max( avg(
    count(*) abs( read_csv('/etc/passwd') select from where union :: double ::int = <> < > + - * / % || [ ] { } $1 ? #1 case when
    then else end -> := interval 1e999 '2026-06-23' cast( as date limit with copy attach . .. lr.x @ ` $$ true coalesce( exists
    """.split(),
    "over ()", "filter (where", "order by", "\0", "\ud800", "é", "\n", "\\", "9" * 50,
]  # fmt: skip


def test_random_clauses_are_answered_or_refused(catalog: Catalog, tmp_path: Path) -> None:
    """Any text at all: an answer or a QueryError."""
    rng = random.Random(20260623)
    before = sorted(path for path in catalog.store.root.rglob("*"))
    answered = 0
    for _ in range(COUNT):
        if rng.random() < 0.15:
            clause = "".join(chr(rng.choice([*range(32, 127), 0, 10, 0xE9, 0x2028, 0xD800])) for _ in range(rng.randrange(30)))
        elif rng.random() < 0.3:
            left, right = rng.choice(_PIECES[:8]), rng.choice(_PIECES[:18])
            clause = f"{left} {rng.choice(['>', '=', '<', 'is not', 'in ('])} {right}{rng.choice(['', ')', ' --'])}"
        else:
            clause = " ".join(rng.choice(_PIECES) for _ in range(rng.randrange(1, 9)))
        try:
            catalog.runs(where=clause)
            answered += 1
        except QueryError:
            pass
    assert answered
    assert sorted(path for path in catalog.store.root.rglob("*")) == before
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("either > 5", r"either has values of several types \(int, text\)"),
        ("loss = 'low'", "loss is float"),
        ("nosuchthing > 5", "no column; there are loss, note"),
        ("lss > 5", "did you mean loss"),
        ("", "is empty"),
        (" \n", "is empty"),
    ],
)
def test_clauses_that_cannot_be_run_say_why_in_our_words(catalog: Catalog, clause: str, said: str) -> None:
    for ask in (lambda: catalog.table(["loss"], where=clause), lambda: catalog.runs(where=clause)):
        with pytest.raises(QueryError, match=said) as caught:
            ask()
        assert not any(word in str(caught.value) for word in ("Binder", "VARCHAR", "LITERAL", "Conversion"))


@pytest.mark.parametrize(("query", "said"), [("select * from nosuch", "there are args, checkpoints"), ("select * from lops", "mean loops")])
def test_only_our_views_are_suggested(catalog: Catalog, query: str, said: str) -> None:
    with pytest.raises(QueryError, match=said) as caught:
        catalog.sql(query)
    assert "pg_" not in str(caught.value)


def test_a_mixed_column_can_be_compared_as_the_message_says(catalog: Catalog) -> None:
    assert len(catalog.table(["either"], where="try_cast(either AS DOUBLE) >= 1")) == 4
