"""What people ask: the table by example, runs, SQL, exports, and what is said about them."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path

import pytest

from rearview.catalog import Catalog
from rearview.catalog.cells import Cell
from rearview.errors import NoSuchRun, QueryError
from rearview.model import ArraySummary
from rearview.testing.stores import StoreBuilder


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    return StoreBuilder(tmp_path)


def dims(row: dict[str, object], *names: str) -> tuple[object, ...]:
    return tuple(row[name] for name in names)


def test_per_epoch_beside_per_step_and_an_argument(builder: StoreBuilder) -> None:
    process = builder.run().process()
    process.arg("lr", 0.1)
    for epoch in process.loop("epoch", range(1, 3)):
        for step in process.loop("step", range(2)):
            process.log("loss", epoch + step / 10)
        process.log("acc", epoch / 10)
    process.end()
    with Catalog(builder.store) as catalog:
        table = catalog.table(["lr", "loss", "acc"])
        assert table.names == ["projid", "run", "tstamp", "filename", "epoch", "step", "lr", "loss", "acc"]
        assert [dims(row, "epoch", "step", "lr", "loss", "acc") for row in table.dicts()] == [
            (1, 0, 0.1, 1.0, 0.1), (1, 1, 0.1, 1.1, 0.1), (2, 0, 0.1, 2.0, 0.2), (2, 1, 0.1, 2.1, 0.2),
        ]  # fmt: skip
        assert [row["lr"] for row in catalog.table(["lr"]).dicts()] == [0.1]


def test_one_row_per_call_no_cross_product_nothing_collapses(builder: StoreBuilder) -> None:
    process = builder.run().process()
    for _ in process.loop("epoch", range(1)):
        for value in (1.0, 1.0, 1.0):
            process.log("a", value)
        process.log("b", 5)
        process.log("b", 5)
    process.end()
    with Catalog(builder.store) as catalog:
        assert [dims(row, "a", "b") for row in catalog.table(["a", "b"]).dicts()] == [(1.0, 5), (1.0, 5), (1.0, None)]


def test_several_values_above_stay_rows_of_their_own(builder: StoreBuilder) -> None:
    process = builder.run().process()
    for _ in process.loop("epoch", range(1)):
        for _ in process.loop("step", range(2)):
            process.log("loss", 0.5)
        process.log("acc", 1)
        process.log("acc", 2)
    process.end()
    with Catalog(builder.store) as catalog:
        got = [dims(row, "epoch", "step", "loss", "acc") for row in catalog.table(["loss", "acc"]).dicts()]
    assert got == [(0, 0, 0.5, None), (0, 1, 0.5, None), (0, None, None, 1), (0, None, None, 2)]


def test_a_row_above_several_loops_is_one_row(builder: StoreBuilder) -> None:
    """One value of it is shown below, in two places; the other is not, so the row stays: once."""
    process = builder.run().process()
    process.log("note", "n1")
    for epoch in process.loop("epoch", range(2)):
        for step in process.loop("step", range(2)):
            process.log("loss", epoch + step / 10)
        process.log("acc", epoch / 10)
    process.log("acc", 0.99)
    process.end()
    with Catalog(builder.store) as catalog:
        got = [dims(row, "epoch", "step", "loss", "acc", "note") for row in catalog.table(["loss", "acc", "note"]).dicts()]
    assert sorted(got, key=str) == [
        (0, 0, 0.0, 0.0, "n1"), (0, 1, 0.1, 0.0, "n1"), (1, 0, 1.0, 0.1, "n1"), (1, 1, 1.1, 0.1, "n1"), (None, None, None, 0.99, "n1"),
    ]  # fmt: skip


def test_two_loops_of_one_name_stay_apart(builder: StoreBuilder) -> None:
    process = builder.run().process()
    for _ in process.loop("epoch", range(1)):
        for _ in range(2):
            for _ in process.loop("step", range(1)):
                process.log("a", 1)
                process.log("b", 2)
    process.end()
    with Catalog(builder.store) as catalog:
        assert [dims(row, "step", "a", "b") for row in catalog.table(["a", "b"]).dicts()] == [(0, 1, 2), (0, 1, 2)]


def test_processes_get_a_column_when_there_are_several(builder: StoreBuilder) -> None:
    run = builder.run()
    for number in ("1", "0", "0.1"):
        process = run.process(number)
        process.log("x", number)
        process.end()
    with Catalog(builder.store) as catalog:
        assert [dims(row, "process", "x") for row in catalog.table(["x"]).dicts()] == [("0", "0"), ("0.1", "0.1"), ("1", "1")]
        assert "process" not in catalog.table(["x"], where="process = '1'").names
        assert [row["x"] for row in catalog.table(["x"], where="process = '1'").dicts()] == ["1"]


def test_unknown_names_are_empty_columns_with_a_hint(builder: StoreBuilder) -> None:
    process = builder.run().process()
    process.log("loss", 1.0)
    process.end()
    with Catalog(builder.store) as catalog:
        table = catalog.table(["los", "loss"])
        assert [dims(row, "los", "loss") for row in table.dicts()] == [(None, 1.0)]
        assert table.notes == ["nothing was logged as 'los': did you mean loss?"]
        assert catalog.table(["LOSS"]).notes == ["nothing was logged as 'LOSS': did you mean loss?"]
        assert len(catalog.table(["nothing", "at all"])) == 0
        assert len(catalog.table([])) == 0


def test_a_loop_alone_is_no_column_and_says_so(builder: StoreBuilder) -> None:
    process = builder.run().process()
    process.log("top", 1)
    for _ in process.loop("epoch", range(2)):
        process.log("acc", 1.0)
    process.end()
    with Catalog(builder.store) as catalog:
        said = ["epoch is a loop, a column of the names that are logged in it: ask for one of them too, such as acc"]
        assert catalog.table(["epoch"]).notes == catalog.table(["epoch", "top"]).notes == said
        assert catalog.table(["epoch", "acc"]).notes == catalog.table(["run", "tstamp", "process"]).notes == []


def test_mixed_types_are_kept_and_said(builder: StoreBuilder) -> None:
    process = builder.run().process()
    given = [1, 2.5, "x", None, True, math.nan, 10**30, dt.date(2026, 6, 23), [1, 2]]
    for value in given:
        process.log("v", value)
    process.log("number", 1)
    process.log("number", 2.5)
    process.end()
    with Catalog(builder.store) as catalog:
        table = catalog.table(["v"])
        got = [row["v"] for row in table.dicts()]
        assert [type(value) for value in got] == [type(value) for value in given]
        assert repr(got) == repr(given)
        column = table.columns[-1]
        assert column.type_name == "mixed" and column.mixed == "int (2), float (2), bool (1), text (1), date (1), list (1)"
        assert any("several types" in note for note in table.notes)
        assert [row["number"] for row in catalog.table(["number"], where="number > 1.5").dicts()] == [2.5]


def test_arrays_inside_containers_are_cells(builder: StoreBuilder) -> None:
    summary = ArraySummary("numpy", "<f8", (2,), 0.0, 1.0, 0.5, 0, (1, 1), "xxh3-" + "0" * 32, 16)
    process = builder.run().process()
    process.arg("weights", [summary])
    process.log("state", {"w": summary, "deep": [(1, summary)]})
    process.end()
    with Catalog(builder.store) as catalog:
        table = catalog.table(["state", "weights"])
        for state in (table.dicts()[0]["state"], table.to_pandas()["state"][0], catalog.run("last").last["state"]):
            assert isinstance(state["w"], Cell) and isinstance(state["deep"][0][1], Cell) and state["deep"][0][0] == 1
        assert isinstance(table.dicts()[0]["weights"][0], Cell)
        assert isinstance(catalog.run("last").args["weights"], list)
        assert isinstance(catalog.run("last").args["weights"][0], Cell)


def test_names_that_are_columns_already(builder: StoreBuilder) -> None:
    process = builder.run().process()
    for epoch in process.loop("epoch", range(2)):
        process.log("epoch", epoch * 10)
        process.log("run", "mine")
        process.log("Loss", 1.0)
        process.log("loss", 2.0)
    process.end()
    with Catalog(builder.store) as catalog:
        table = catalog.table(["epoch", "run", "Loss", "loss"])
        assert table.names[-5:] == ["epoch", "epoch_value", "run_value", "Loss", "loss"]
        assert [dims(row, "epoch", "epoch_value", "Loss", "loss") for row in table.dicts()] == [(0, 0, 1.0, 2.0), (1, 10, 1.0, 2.0)]
        assert len(catalog.table(["loss", "step"])) == 2
        assert len(catalog.sql("SELECT * FROM wide")) == 2
        counts = {"epoch_value = 10": 1, "epoch = 1": 1, "run_value = 'mine'": 2, "run LIKE 'r0%'": 2, "loss_value = 2": 2}
        for clause, count in counts.items():
            assert len(catalog.sql(f"SELECT * FROM wide WHERE {clause}")) == count, clause
            assert len(catalog.table(["Loss"], where=clause)) == count, clause
            assert len(catalog.table(["epoch", "run", "loss"], where=clause)) == count, clause
            assert len(catalog.runs(where=clause)) == 1, clause


def test_runs_by_clause(builder: StoreBuilder) -> None:
    for number in range(3):
        process = builder.run(name=f"n{number}", at_s=86400 * number).process()
        process.arg("lr", 0.1 * number)
        for _ in process.loop("epoch", range(number + 1)):
            process.log("acc", 0.3 * number)
        process.end()
    with Catalog(builder.store) as catalog:

        def names(where: str) -> list[str | None]:
            return [run.name for run in catalog.runs(where=where, newest_first=False)]

        assert names("lr > 0.05") == ["n1", "n2"]
        assert names("max(acc) > 0.5") == ["n2"]
        assert names("count(acc) >= 2 AND min(acc) < 0.5") == ["n1"]
        assert names("epoch = 2") == ["n2"]
        assert names("tstamp >= '2026-06-24'") == ["n1", "n2"]
        assert names("acc IS NULL") == []
        assert names("run = 'r000000000001'") == ["n1"]
        assert [run.name for run in catalog.runs(limit=2)] == ["n2", "n1"]
        assert catalog.run("last~1").name == "n1"
        with pytest.raises(NoSuchRun):
            catalog.run("nobody")
        assert len(catalog.table(["acc"], where="max(acc) > 0.5")) == 3
        assert len(catalog.table(["acc"], run="n1")) == 2


def test_sql_values_are_typed(builder: StoreBuilder) -> None:
    process = builder.run().process()
    for value in (1.25, 2.5):
        process.log("loss", value)
    process.log("count", 3)
    process.log("word", "x")
    process.log("seed", 2**60 + 1)
    process.log("flag", True)
    process.end()
    with Catalog(builder.store) as catalog:

        def one(query: str) -> object:
            return catalog.sql(query).rows()[0][0]

        assert one("SELECT avg(value) FROM logs WHERE value_name = 'loss'") == 1.875
        assert one("SELECT value FROM logs WHERE value_name = 'count'") == 3
        assert isinstance(one("SELECT value FROM logs WHERE value_name = 'count'"), int)
        assert one("SELECT value FROM logs WHERE value_name = 'seed'") == 2**60 + 1
        assert one("SELECT value FROM logs WHERE value_name = 'word'") == "x"
        assert one("SELECT value FROM logs WHERE value_name = 'flag'") is True
        mixed = catalog.sql("SELECT value FROM logs")
        assert mixed.columns[0].mixed == "float (2), int (2), bool (1), text (1)"
        assert [row[0] for row in mixed.rows()] == [1.25, 2.5, 3, "x", 2**60 + 1, True]
        assert len(catalog.sql("SELECT * FROM logs WHERE value_name <> 'loss'")) == 4, "a guess that does not fit is taken back"
        with pytest.raises(QueryError):
            catalog.sql("SELECT sum(value) FROM logs")  # not a rounded sum


def test_ints_among_other_types_are_ints(builder: StoreBuilder) -> None:
    """Where `value` is only selected; a query that compares has them as numbers, which compare."""
    values = [1.5, 3, 2**53 + 1, -(2**63) - 1, 10**5000, True, "2", None, -0.0]
    process = builder.run().process()
    for k, value in enumerate(values):
        process.log(f"n{k}", value)
    process.arg("seed", 7)
    process.end()
    shown = [1.5, 3, 2**53 + 1, -(2**63) - 1, hex(10**5000), True, "2", None, -0.0]
    with Catalog(builder.store) as catalog:

        def found(query: str) -> list[object]:
            return [row[-1] for row in catalog.sql(query).rows()]

        def same(got: list[object], wanted: list[object]) -> bool:
            return [(type(value), repr(value)) for value in got] == [(type(value), repr(value)) for value in wanted]

        for query in (
            "SELECT value FROM logs WHERE NOT is_arg",
            "SELECT l.value AS v FROM logs l WHERE value_name LIKE 'n%' ORDER BY value_name LIMIT 9",
            "SELECT r.run, l.value FROM runs r JOIN logs l USING (run) WHERE value_name <> 'seed' ORDER BY value_name",
        ):
            assert same(found(query), shown), query
        assert same([row["value"] for row in catalog.sql("SELECT * FROM logs WHERE not is_arg").dicts()], shown)
        assert same(found("SELECT value FROM logs WHERE value_name IN ('n0', 'n1')"), [1.5, 3])
        assert same(found("SELECT value FROM logs WHERE value_name IN ('n1', 'n2', 'n3')"), [3, 2**53 + 1, -(2**63) - 1])
        assert same(found("SELECT value FROM args"), [7])
        for query, wanted in {
            "SELECT value_name FROM logs WHERE value = 3": ["n1"],
            "SELECT value_name FROM logs WHERE value < 3": ["n0", "n8"],
            "SELECT value AS v FROM logs WHERE v = 3": [3.0],
            "SELECT value_name FROM logs ORDER BY value LIMIT 4": ["n8", "n0", "n1", "seed"],
            "SELECT value AS v FROM logs ORDER BY v LIMIT 3": [-0.0, 1.5, 3.0],
            "SELECT value FROM logs ORDER BY 1 LIMIT 3": [-0.0, 1.5, 3.0],
            "SELECT value FROM logs ORDER BY ALL LIMIT 3": [-0.0, 1.5, 3.0],
            "SELECT v FROM (SELECT value AS v FROM logs) WHERE v < 2": [1.5, -0.0],
            "SELECT v FROM logs AS l(a, b, c, d, e, f, g, v) WHERE v < 2": [1.5, -0.0],
            "SELECT max(value) FROM logs WHERE value < 100": [7.0],
            "SELECT value_name FROM logs WHERE logs.value IN (SELECT value FROM args)": ["seed"],
            "SELECT l.value_name FROM logs l JOIN args a ON l.value = a.value": ["seed"],
            "SELECT value_name FROM logs NATURAL JOIN (SELECT value FROM args)": ["seed"],
        }.items():
            assert found(query) == wanted, query


def test_views_have_the_columns_they_promise(builder: StoreBuilder) -> None:
    process = builder.run(name="one", tags=["t"]).process()
    process.arg("lr", 0.1, given=True)
    for _ in process.loop("epoch", ["first", "second"], ending=2):
        process.log("loss", 1.0)
    process.end()
    with Catalog(builder.store) as catalog:
        (arg,) = catalog.sql("SELECT * FROM args").dicts()
        assert arg == {"run": "r000000000000", "process": "0", "name": "lr", "value": 0.1, "value_type": "float", "given": True}
        loops = catalog.sql("SELECT * FROM loops").dicts()
        assert [(row["loop_name"], row["loop_entries"], row["loop_iteration"], row["loop_value"], row["ending"]) for row in loops] == [
            ("epoch", 2, 0, "first", "break"), ("epoch", 2, 1, "second", "break"),
        ]  # fmt: skip
        joined = catalog.sql("SELECT path, loop_value FROM logs JOIN loops USING (ctx_id) ORDER BY path").rows()
        assert joined == [("epoch=first", "first"), ("epoch=second", "second")]
        (run,) = catalog.sql("SELECT name, status, tags, records FROM runs").rows()
        assert run == ("one", "finished", ["t"], 3)
        assert catalog.sql("SELECT * FROM checkpoints").rows() == []
        views = [name for (name,) in catalog.sql("SHOW TABLES").rows()]
        assert views == ["args", "checkpoints", "logs", "loops", "replayed", "runs", "wide"]
        assert catalog.sql("SELECT max(loss), min(epoch) FROM wide").rows() == [(1.0, "first")]


def test_exports_keep_values(builder: StoreBuilder, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    process = builder.run().process()
    for step in process.loop("step", range(3)):
        process.log("f", [1.5, math.nan, -0.0][step])
        process.log("text", ["a", "", "\ud800"][step])
        process.log("any", [1, "x", None][step])
        if step:
            process.log("i", step)
            process.log("b", step == 1)
    process.end()
    names = ["f", "i", "b", "text", "any"]
    with Catalog(builder.store) as catalog:
        table = catalog.table(names)
    frame = table.to_pandas()  # the catalog is closed: the table stands
    assert [str(frame[name].dtype) for name in ("f", "i", "b")] == ["float64", "Int64", "boolean"]
    assert math.copysign(1, frame["f"][2]) == -1 and frame["i"].isna().tolist() == [True, False, False]
    assert frame["any"].tolist() == [1, "x", None] and frame["text"].tolist() == ["a", "", "\ud800"]
    assert isinstance(frame["tstamp"].dtype, pandas.DatetimeTZDtype)
    polars = pytest.importorskip("polars")
    assert table.to_polars()["i"].to_list() == [None, 1, 2] and table.to_polars()["f"].dtype == polars.Float64
    pytest.importorskip("pyarrow")
    arrow = table.to_arrow()
    assert arrow.column("any").to_pylist() == ["1", "x", None] and arrow.column("b").to_pylist() == [None, True, False]
    table.write_parquet(tmp_path / "out.parquet")
    back = pandas.read_parquet(tmp_path / "out.parquet")
    assert back["i"].isna().tolist() == [True, False, False] and back["text"].tolist()[:2] == ["a", ""]


def test_detail_of_a_failed_run(builder: StoreBuilder) -> None:
    process = builder.run(environment={"python": "3.11"}).process()
    for value in range(2000):
        process.log("loss", float(value))
    process.fact("environment", packages={"torch": "2"})
    process.fact("unasked", names=["lrr"])
    process.end("failed", exception="ValueError", message="no", traceback="Traceback ...", exit_code=1)
    with Catalog(builder.store) as catalog:
        detail = catalog.run_detail("last")
    assert (detail.info.status, detail.info.detail, detail.info.duration_s) == ("failed", "ValueError", 10.0)
    assert detail.environment == {"python": "3.11", "packages": {"torch": "2"}} and detail.unasked == ["lrr"]
    assert detail.exception == {"exception": "ValueError", "message": "no", "traceback": "Traceback ...", "exit_code": 1}
    (series,) = detail.series
    assert (series.count, series.minimum, series.maximum, series.last) == (2000, 0.0, 1999.0, 1999.0)
    assert series.values[0] == 0.0 and series.values[-1] == 1999.0 and len(series.values) <= 512


EXTREMES = [
    ([2**53 + 1, 2**60 + 1, 3, 2**53 + 3], (2**53 + 1, 2**53 + 3, 3, 2**60 + 1)),
    ([2**53, 2**53 + 1, 2**53 + 1], (2**53, 2**53 + 1, 2**53, 2**53 + 1)),
    ([-(10**30) - 1, 10**30 + 1, 10**30], (-(10**30) - 1, 10**30, -(10**30) - 1, 10**30 + 1)),
    ([10**400, 1, -(10**400), math.inf], (10**400, math.inf, -(10**400), 10**400)),
    ([1.0, 2, 0.5, math.nan, -math.inf, 1], (1.0, 1, 0.5, 2)),
    ([4, 2, "end"], (4, 2, 2, 4)),
    ([math.inf, math.inf], (math.inf, math.inf, None, None)),
]


@pytest.mark.parametrize(("logged", "shown"), EXTREMES)
def test_ends_and_extremes_are_numbers_that_were_logged(builder: StoreBuilder, logged: list[object], shown: tuple[object, ...]) -> None:
    process = builder.run().process()
    for value in logged:
        process.log("n", value)
    process.end()
    with Catalog(builder.store) as catalog:
        (series,) = catalog.run_detail("last").series
    found = (series.first, series.last, series.minimum, series.maximum)
    assert found == shown and list(map(type, found)) == list(map(type, shown))


def test_a_run_with_odd_facts_is_listed(builder: StoreBuilder) -> None:
    odd = {"name": 5, "tags": [1, None], "notes": {"a": 1}, "argv": [1], "place": "first", "environment": [1], "git": 3, "parent": "x"}
    process = builder.run(**odd).process()
    process.log("a", 1)
    process.end()
    with Catalog(builder.store) as catalog:
        (info,) = catalog.runs()
        assert (info.name, info.tags, info.notes, info.argv, info.place, info.parent) == ("5", ["1", ""], '{"a": 1}', ["1"], 0, None)
        assert catalog.run("5") == info and catalog.run_detail("last").environment == {}
        with pytest.raises(NoSuchRun):
            catalog.run("nobody")
        assert catalog.sql("SELECT name FROM runs").rows() == [("5",)] and len(catalog.runs(where="name = '5'")) == 1


def test_columns_of_views_need_no_quotes(builder: StoreBuilder) -> None:
    process = builder.run().process()
    process.log("a", 1)
    process.end()
    with Catalog(builder.store) as catalog:
        assert catalog.sql("SELECT logged_at FROM logs").rows()[0][0] is not None
        for view in ("runs", "logs", "loops", "args", "checkpoints"):
            names = catalog.sql(f"SELECT * FROM {view}").names
            assert catalog.sql(f"SELECT {', '.join(names)} FROM {view}").names == names


def test_what_an_iteration_is_called_is_not_made_up(builder: StoreBuilder) -> None:
    process = builder.run().process()
    for k, _ in enumerate(process.loop("batch", [object(), object(), object()])):
        if k == 1:
            process.log("a", 1)
    for _ in process.loop("x", [0.5, -0.0]):
        process.log("b", 1)
    for _ in process.loop("n", range(5, 7)):
        pass
    for k, _ in enumerate(process.loop("step", range(5, 7))):
        if k:
            process.log("c", 1)
    process.end()
    with Catalog(builder.store) as catalog:

        def called(loop: str) -> list[object]:
            query = f"SELECT loop_value FROM loops WHERE loop_name = '{loop}' ORDER BY loop_iteration"
            return [value for (value,) in catalog.sql(query).rows()]

        assert called("batch") == [None, 1, None] and called("step") == [5, 6]
        assert [repr(value) for value in called("x")] == ["0.5", "-0.0"]
        assert [repr(row["x"]) for row in catalog.table(["b"]).dicts()] == ["0.5", "-0.0"]
        assert [repr(value) for value in catalog.table(["b"]).to_pandas()["x"].tolist()] == ["0.5", "-0.0"]


def test_minus_zero_survives_a_resume(builder: StoreBuilder) -> None:
    run = builder.run()
    for attempt in (1, 2):
        process = run.process(attempt=attempt)
        process.log("a", -0.0 if attempt == 2 else 1.0)
        process.end()
    with Catalog(builder.store) as catalog:
        assert repr(catalog.table(["a"]).dicts()[0]["a"]) == "-0.0"
        assert repr(catalog.sql("SELECT value FROM logs").rows()) == "[(-0.0,)]"
        assert repr(catalog.run_detail("last").series[0].last) == "-0.0"


def test_an_empty_store_answers(builder: StoreBuilder) -> None:
    with Catalog(builder.store) as catalog:
        assert catalog.runs() == [] and catalog.names() == [] and len(catalog.table(["loss"])) == 0
        assert catalog.sql("SELECT * FROM wide").rows() == [] and catalog.sql("SELECT * FROM loops").rows() == []
        assert catalog.runs(where="tstamp > '2020-01-01'") == []
        with pytest.raises(NoSuchRun):
            catalog.run("last")
