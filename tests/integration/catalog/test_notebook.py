"""Questions asked inside a Jupyter kernel, and what DuckDB says when nobody expects it."""

from __future__ import annotations

from pathlib import Path

import pytest

import rearview
from rearview.catalog import Catalog
from rearview.catalog.sealing.sources import Reader
from rearview.errors import RearviewError
from rearview.testing.stores import StoreBuilder

ASK = """
import sys
sys.path.insert(0, {source!r})
from pathlib import Path
from rearview.catalog import Catalog
from rearview.store.layout import open_store
with Catalog(open_store(Path({root!r}))) as catalog:
    print(catalog.table(["loss"]).dicts()[0]["loss"], catalog.sql("SELECT count(*) FROM logs").rows(), len(catalog.runs(where="loss > 0")))
"""


def test_a_notebook_without_widgets_can_ask(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    builder = StoreBuilder(tmp_path)
    process = builder.run().process()
    process.log("loss", 0.5)
    process.end()
    source = ASK.format(source=str(Path(rearview.__file__).parents[1]), root=str(builder.store.root))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [output.get("text") for output in notebook.cells[0].outputs] == ["0.5 [(1,)] 1\n"]


def test_what_duckdb_says_leaves_in_our_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    def fail(self: Reader) -> None:
        raise duckdb.InvalidInputException("something about settings")

    monkeypatch.setattr(Reader, "refresh", fail)
    monkeypatch.setattr(Reader, "summaries", fail)
    with Catalog(StoreBuilder(tmp_path).store) as catalog:
        for ask in (lambda: catalog.table(["x"]), lambda: catalog.sql("SELECT 1"), catalog.names, catalog.runs):
            with pytest.raises(RearviewError, match="something about settings"):
                ask()
