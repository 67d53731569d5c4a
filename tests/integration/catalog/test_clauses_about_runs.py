"""A clause can say something about the run itself; it must be a condition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rearview.catalog import Catalog
from rearview.errors import QueryError
from rearview.testing.stores import StoreBuilder


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    builder = StoreBuilder(tmp_path)
    for name, acc in (("slow", 0.5), ("fast", 0.9)):
        process = builder.run(name=name).process()
        process.log("acc", acc)
        process.end("failed" if name == "slow" else "finished")
    with Catalog(builder.store) as catalog:
        yield catalog


def test_name_and_status_are_columns_of_a_clause(catalog: Catalog) -> None:
    assert [run.name for run in catalog.runs(where="name = 'fast'")] == ["fast"]
    assert [run.name for run in catalog.runs(where="status = 'failed' and acc < 1")] == ["slow"]
    assert catalog.table(["acc"], where="name <> 'slow'").dicts()[0]["acc"] == 0.9


def test_a_logged_name_goes_before_the_run_column(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    process = builder.run(name="a").process()
    process.log("name", "logged")
    process.end()
    with Catalog(builder.store) as catalog:
        assert catalog.runs(where="name = 'a'") == []
        assert len(catalog.runs(where="name = 'logged'")) == 1


@pytest.mark.parametrize("clause", ["acc", "acc + 1", "'true'", "max(acc)"])
def test_what_is_no_condition_is_refused(catalog: Catalog, clause: str) -> None:
    with pytest.raises(QueryError, match="not true or false"):
        catalog.table(["acc"], where=clause)
